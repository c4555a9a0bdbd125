"""Who vouches for the API server, told in every namespace.

Upstream: pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.controllers.actions import create
from berth.kube.api_resources import CONFIG_MAPS, NAMESPACES
from berth.kube.objects import Key, Namespace, PartialObjectMetadata
from berth.kube.well_known import DELETED, ROOT_CA
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event, Outcome, Patch
from berth.machines.controller import Controller


class RootCertificatePublisher(Controller):
    """Keeps the ConfigMap with the certificate in every namespace, whoever changes or deletes it."""

    name = "root-ca-certificate-publisher-controller"
    watches = (NAMESPACES, CONFIG_MAPS)

    def __init__(self, cache: Cache, certificate: str) -> None:
        super().__init__(cache)
        self._data = {"ca.crt": certificate}
        self._right: dict[Key, str | None] = {}  # the version that says what it should

    def handle(self, event: Event) -> None:
        if event.resource == NAMESPACES:
            if event.change == DELETED:
                self._right.pop((event.key[1], ROOT_CA), None)
            elif event.old is None:
                self.queue.add((event.key[1], ROOT_CA))
        elif event.key[1] == ROOT_CA:
            self.queue.add(event.key)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        del now
        namespace = self.cache.get(NAMESPACES, ("", key[0]), Namespace)
        if namespace is None or namespace.metadata.deletion_timestamp:
            return
        known = self.cache.look(CONFIG_MAPS, key)
        if known is None:
            body = {
                "apiVersion": CONFIG_MAPS.api_version,
                "kind": CONFIG_MAPS.kind,
                "metadata": {"name": ROOT_CA, "namespace": key[0]},
                "data": self._data,
            }
            yield create(CONFIG_MAPS, key, body, "every namespace has it")
            return
        if known.metadata.resource_version == self._right.get(key):
            return
        # What it says is not watched; a patch that changes nothing is not written.
        said = {"data": self._data}
        why = "it says the same everywhere"
        yield Patch(resource=CONFIG_MAPS, key=key, at=(key[0], ROOT_CA), body=said, why=why)

    def done(self, action: Action, outcome: Outcome) -> None:
        if outcome.ok:
            self._right[action.key] = outcome.decode(PartialObjectMetadata).metadata.resource_version
        # A namespace that began to go meanwhile needs none, and one that somebody else made is as good.
        gone = outcome.missing or outcome.exists or outcome.code == 403
        self.queue.finished(action.key, ok=outcome.ok or gone, at=outcome.at, wait=outcome.retry_after)
