"""The objects as the watches last showed them, indexed, in one copy for all controllers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, TypeVar

from berth.kube.api_resources import PODS, VIEWS, Resource
from berth.kube.objects import Key, LivePod, ObjectMeta, View
from berth.kube.ownership import controller_of
from berth.kube.well_known import DELETED
from berth.machines.contract import Event

_K = TypeVar("_K")
_N = TypeVar("_N")
_V = TypeVar("_V")


class Cache:
    """Objects by resource and key, dependents by the uid of their controller, pods by node.

    The runner feeds it before the controllers.
    """

    def __init__(self) -> None:
        self._objects: dict[Resource, dict[Key, Any]] = defaultdict(dict)
        self._owned: dict[Resource, dict[str, dict[Key, Any]]] = defaultdict(dict)
        self._orphans: dict[Resource, dict[str, dict[Key, Any]]] = defaultdict(dict)
        self._on_node: dict[str, dict[Key, LivePod]] = {}
        self._pods_in: dict[str, dict[Key, LivePod]] = {}

    @property
    def name(self) -> str:
        return "cache"

    # --- feeding ----------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        key, resource = event.key, event.resource
        objects = self._objects[resource]
        if (known := objects.get(key)) is not None:
            for index, name in self._indexes(resource, known):
                take(index, name, key)
        if event.change == DELETED:
            objects.pop(key, None)
            return
        objects[key] = event.object
        for index, name in self._indexes(resource, event.object):
            index.setdefault(name, {})[key] = event.object

    def _indexes(self, resource: Resource, item: View) -> Iterator[tuple[dict[str, dict[Key, Any]], str]]:
        """The indexes an object is in, and under which name there."""
        owner, namespace = controller_of(item.metadata), item.metadata.namespace or ""
        if owner is None:
            yield self._orphans[resource], namespace
        else:
            yield self._owned[resource], owner.uid or ""
        if resource == PODS:
            yield self._pods_in, namespace
            if item.spec.node_name:
                yield self._on_node, item.spec.node_name

    # --- asking -----------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key, view: type[_V]) -> _V | None:
        found = self._objects[resource].get(key)
        return found if isinstance(found, view) else None

    def look(self, resource: Resource, key: Key) -> Any:  # noqa: ANN401 - a view of any kind
        """The object with a key, of any resource; None if there is none."""
        return self._objects.get(resource, {}).get(key)

    def keys(self, resource: Resource) -> list[Key]:
        return list(self._objects.get(resource, ()))

    def all(self, resource: Resource, view: type[_V]) -> list[_V]:
        return _viewed(self._objects[resource], resource, view)

    def owned(self, resource: Resource, uid: str | None, view: type[_V]) -> list[_V]:
        """The objects that a controller owns; `uid` is the owner's."""
        return _viewed(self._owned[resource].get(uid or "", {}), resource, view)

    def orphans(self, resource: Resource, namespace: str | None, view: type[_V]) -> list[_V]:
        """The objects of a namespace that no controller owns."""
        return _viewed(self._orphans[resource].get(namespace or "", {}), resource, view)

    def controller(self, metadata: ObjectMeta, view: type[_V], *resources: Resource) -> _V | None:
        """The object that controls another one, if it is of one of these resources."""
        owner = controller_of(metadata)
        for resource in resources:
            if owner is not None and owner.kind == resource.kind:
                return self.get(resource, (metadata.namespace or "", owner.name or ""), view)
        return None

    def pods_in(self, namespace: str) -> list[LivePod]:
        return list(self._pods_in.get(namespace, {}).values())

    def pods_on(self, node: str) -> list[LivePod]:
        return list(self._on_node.get(node, {}).values())


def _viewed(found: dict[Key, Any], resource: Resource, view: type[_V]) -> list[_V]:
    if VIEWS.get(resource) is not view:
        raise TypeError(view)
    return list(found.values())


def take(index: dict[_N, dict[_K, Any]], name: _N, key: _K) -> None:
    """Remove a key from one of the inner indexes, and the inner index if it is empty then."""
    inner = index.get(name)
    if inner is not None:
        inner.pop(key, None)
        if not inner:
            del index[name]
