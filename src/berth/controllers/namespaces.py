"""Namespaces that are to go: first their contents, then the finalizer.

Upstream: pkg/controller/namespace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from berth.kube.api_resources import EVENTS, NAMESPACES, Resource
from berth.kube.objects import Key, Namespace
from berth.kube.well_known import ADDED, DELETED
from berth.machines.cache import Cache
from berth.machines.contract import Action, DeleteAll, Event, Outcome, Update
from berth.machines.controller import Controller

FINALIZER = "kubernetes"


class NamespaceController(Controller):
    """Empties a namespace that is being deleted, then lets it go.

    Attributes:
        resources: Everything that can be in a namespace.
    """

    name = "namespace-controller"

    def __init__(self, cache: Cache, resources: Iterable[Resource]) -> None:
        super().__init__(cache)
        self.resources = {resource: None for resource in resources if resource.namespaced}
        self.watches = (NAMESPACES, *(r for r in self.resources if r.plural != EVENTS.plural))
        self._left: dict[str, Counter[Resource]] = {}
        self._emptied: dict[str, set[Resource]] = {}  # by uid: where everything was told to go

    def learn(self, resource: Resource) -> None:
        """There is one more resource, such as a custom one."""
        if resource.namespaced:
            self.resources[resource] = None

    def handle(self, event: Event) -> None:
        if event.resource == NAMESPACES:
            if event.change == DELETED:
                self._emptied.pop(event.object.metadata.uid or "", None)
            elif event.object.metadata.deletion_timestamp:
                self.queue.add(event.key)
            return
        namespace = event.key[0]
        if event.change == ADDED:
            self._left.setdefault(namespace, Counter())[event.resource] += 1
        elif event.change == DELETED:
            left = self._left.get(namespace)
            if left is not None:
                left[event.resource] -= 1
                if left[event.resource] <= 0:
                    del left[event.resource]
                if not left:
                    del self._left[namespace]
                    self.queue.add(("", namespace))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        del now
        namespace = self.cache.get(NAMESPACES, key, Namespace)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            return
        if FINALIZER not in (namespace.spec.finalizers or ()):
            return
        emptied = self._emptied.setdefault(namespace.metadata.uid or "", set())
        missing = [resource for resource in self.resources if resource not in emptied]
        for resource in missing:
            yield DeleteAll(
                resource=resource, key=key, namespace=key[1], why="its namespace is being deleted"
            )
        if not missing and not self._left.get(key[1]):
            yield self._finalize(key, namespace)

    def _finalize(self, key: Key, namespace: Namespace) -> Action:
        finalizers = [name for name in namespace.spec.finalizers or () if name != FINALIZER]
        metadata = namespace.metadata
        return Update(
            resource=NAMESPACES,
            key=key,
            name=key[1],
            body={
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {
                    "name": key[1],
                    "uid": metadata.uid,
                    "resourceVersion": metadata.resource_version,
                    **({"labels": metadata.labels} if metadata.labels else {}),
                    **({"annotations": metadata.annotations} if metadata.annotations else {}),
                    **({"finalizers": metadata.finalizers} if metadata.finalizers else {}),
                },
                "spec": {"finalizers": finalizers},
            },
            subresource="finalize",
            why="the namespace is empty",
        )

    def done(self, action: Action, outcome: Outcome) -> None:
        # What cannot be deleted in bulk, or is no longer served, does not hold the namespace up.
        if isinstance(action, DeleteAll) and (outcome.ok or outcome.code in (404, 405)):
            namespace = self.cache.get(NAMESPACES, action.key, Namespace)
            if namespace is not None:
                self._emptied.setdefault(namespace.metadata.uid or "", set()).add(action.resource)
            self.queue.finished(action.key, ok=True, at=outcome.at)
            self.queue.add(action.key)
            return
        super().done(action, outcome)
