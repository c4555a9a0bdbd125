"""Namespaces: how they go, and what each of them has.

Upstream: pkg/controller/namespace, and pkg/controller/certificates/rootcacertpublisher.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from berth.kube.api_resources import CONFIG_MAPS, EVENTS, NAMESPACES, PODS, Resource
from berth.kube.objects import Key, Namespace, PartialObjectMetadata, RawObject
from berth.kube.well_known import ADDED, DELETED, FALSE, ROOT_CA, TRUE
from berth.machines.cache import Cache
from berth.machines.contract import Action, DeleteAll, Event, Outcome, Patch, Update
from berth.machines.controller import Controller
from berth.machines.requests import Conditions, create, new_object, status_patch

FINALIZER = "kubernetes"
_KEPT = ("name", "uid", "resourceVersion", "labels", "annotations", "finalizers")  # in its last update
_WAIT = 1.0  # seconds until it is told again what is left
_FAILURE, _CONTENT = "NamespaceDeletionContentFailure", "NamespaceContentRemaining"
_FINALIZERS = "NamespaceFinalizersRemaining"
# What is said of a namespace that is being deleted, while there is nothing worse to say.
_FINE = {
    "NamespaceDeletionDiscoveryFailure": ("ResourcesDiscovered", "All resources successfully discovered"),
    "NamespaceDeletionGroupVersionParsingFailure": (
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    _FAILURE: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    _CONTENT: ("ContentRemoved", "All content successfully removed"),
    _FINALIZERS: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
}


@dataclass(slots=True)
class _Progress:
    """How far the deletion of one namespace has come: what was told to go, and where that failed."""

    emptied: set[Resource] = field(default_factory=set)
    failures: dict[Resource, str] = field(default_factory=dict)


class NamespaceController(Controller):
    """Empties a namespace that is being deleted, its pods first, then what else is in it, then lets it go."""

    name = "namespace-controller"

    def __init__(self, cache: Cache, resources: Iterable[Resource]) -> None:
        super().__init__(cache)
        # Everything that can be in a namespace.
        self.resources = {resource: None for resource in resources if resource.namespaced}
        self.watches = (NAMESPACES, *(r for r in self.resources if r.plural != EVENTS.plural))
        self._left: dict[str, Counter[Resource]] = {}
        self._progress: dict[str, _Progress] = {}  # by uid

    def learn(self, resource: Resource) -> None:
        """There is one more resource, such as a custom one."""
        if resource.namespaced:
            self.resources[resource] = None

    def handle(self, event: Event) -> None:
        if event.resource == NAMESPACES:
            if event.change == DELETED:
                self._progress.pop(event.object.metadata.uid or "", None)
            elif event.object.metadata.deletion_timestamp:
                self.queue.add(event.key)
            return
        namespace = event.key[0]
        if event.change == ADDED:
            self._left.setdefault(namespace, Counter())[event.resource] += 1
        elif event.change == DELETED and (left := self._left.get(namespace)) is not None:
            left[event.resource] -= 1
            if left[event.resource] <= 0:
                del left[event.resource]
                self.queue.add(("", namespace))
            if not left:
                del self._left[namespace]

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        namespace = self.cache.get(NAMESPACES, key, Namespace)
        if namespace is None or not namespace.metadata.deletion_timestamp:
            return
        if FINALIZER not in (namespace.spec.finalizers or ()):
            return
        progress = self._progress.setdefault(namespace.metadata.uid or "", _Progress())
        left = self._left.get(key[1]) or Counter()
        now_due = [PODS] if left[PODS] or PODS not in progress.emptied else list(self.resources)
        missing = [resource for resource in now_due if resource not in progress.emptied]
        for resource in missing:
            yield DeleteAll(resource=resource, key=key, at=(key[1], ""), why="its namespace is being deleted")
        if missing and not progress.failures:
            return
        first = Counter({PODS: left[PODS]}) if left[PODS] else left
        told = self._conditions(namespace, first, progress, now)
        if told is not None:
            yield status_patch(NAMESPACES, namespace, {"conditions": told}, "what the namespace waits for")
        elif not left and not missing:
            yield self._finalize(key, namespace)
        if left:
            self.queue.add_at(key, now + _WAIT)

    def _conditions(
        self, namespace: Namespace, left: Counter[Resource], progress: _Progress, now: float
    ) -> list[RawObject] | None:
        """What is to be said of what the namespace waits for, None if that is said already."""
        worse: dict[str, tuple[str, str]] = {}
        if progress.failures:
            errors = ", ".join(sorted(progress.failures.values()))
            text = f"Failed to delete all resource types, {len(progress.failures)} remaining: {errors}"
            worse[_FAILURE] = ("ContentDeletionFailed", text)
        if left:
            items = sorted(f"{r.plural}.{r.group} has {n} resource instances" for r, n in left.items())
            worse[_CONTENT] = ("SomeResourcesRemain", f"Some resources are remaining: {', '.join(items)}")
        if holding := self._finalizers_in(namespace.metadata.name or "", left):
            items = sorted(f"{name} in {count} resource instances" for name, count in holding.items())
            text = f"Some content in the namespace has finalizers remaining: {', '.join(items)}"
            worse[_FINALIZERS] = ("SomeFinalizersRemain", text)
        conditions = Conditions(namespace.status.conditions, now)
        for kind, fine in _FINE.items():
            conditions.set(kind, TRUE if kind in worse else FALSE, *worse.get(kind, fine))
        return conditions.list() if conditions.changed else None

    def _finalizers_in(self, namespace: str, left: Iterable[Resource]) -> Counter[str]:
        found: Counter[str] = Counter()
        for resource in left:
            for key in self.cache.keys(resource):
                if key[0] == namespace:
                    found.update(self.cache.look(resource, key).metadata.finalizers or ())
        return found

    def _finalize(self, key: Key, namespace: Namespace) -> Action:
        known = msgspec.to_builtins(namespace.metadata)
        kept = {name: known[name] for name in _KEPT if known.get(name)}
        spec = {"finalizers": [name for name in namespace.spec.finalizers or () if name != FINALIZER]}
        body = new_object(NAMESPACES, kept, spec=spec)
        return Update(
            resource=NAMESPACES, key=key, body=body, subresource="finalize", why="the namespace is empty"
        )

    def done(self, action: Action, outcome: Outcome) -> None:
        if not isinstance(action, DeleteAll):
            super().done(action, outcome)
            return
        namespace = self.cache.get(NAMESPACES, action.key, Namespace)
        # What cannot be deleted in bulk, or is no longer served, does not hold the namespace up.
        settled = outcome.ok or outcome.code in (404, 405)
        if namespace is not None:
            progress = self._progress.setdefault(namespace.metadata.uid or "", _Progress())
            if settled:
                progress.emptied.add(action.resource)
                progress.failures.pop(action.resource, None)
            else:
                progress.failures[action.resource] = outcome.message or outcome.reason
        self.queue.finished(action.key, ok=settled, at=outcome.at, wait=outcome.retry_after)
        if settled:
            self.queue.add(action.key)


class RootCertificatePublisher(Controller):
    """Keeps the ConfigMap that says who vouches for the API server in every namespace, whoever changes it."""

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
            body = new_object(CONFIG_MAPS, {"name": ROOT_CA, "namespace": key[0]}, data=self._data)
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
