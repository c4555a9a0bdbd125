"""What the watches have shown so far, indexed for the controllers, which all read this one copy."""

from __future__ import annotations

from collections import defaultdict
from typing import Any, TypeVar

from berth.kube.api_resources import PODS, VIEWS, Resource
from berth.kube.objects import Key, LivePod, ObjectMeta
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
        known = self._objects[resource].get(key)
        if known is not None:
            self._unindex(resource, key, known)
        if event.change == DELETED:
            self._objects[resource].pop(key, None)
            return
        self._objects[resource][key] = event.object
        self._index(resource, key, event.object)

    def _index(self, resource: Resource, key: Key, item: Any) -> None:  # noqa: ANN401 - a view
        index, name = self._owners_of(resource, item.metadata)
        index.setdefault(name, {})[key] = item
        if resource == PODS:
            self._pods_in.setdefault(key[0], {})[key] = item
            if item.spec.node_name:
                self._on_node.setdefault(item.spec.node_name, {})[key] = item

    def _unindex(self, resource: Resource, key: Key, item: Any) -> None:  # noqa: ANN401 - a view
        index, name = self._owners_of(resource, item.metadata)
        take(index, name, key)
        if resource == PODS:
            take(self._pods_in, key[0], key)
            if item.spec.node_name:
                take(self._on_node, item.spec.node_name, key)

    def _owners_of(self, resource: Resource, metadata: ObjectMeta) -> tuple[dict[str, dict[Key, Any]], str]:
        """The index an object is in, and under which name there."""
        owner = controller_of(metadata)
        if owner is None:
            return self._orphans[resource], metadata.namespace or ""
        return self._owned[resource], owner.uid or ""

    # --- asking -----------------------------------------------------------------------------------

    def get(self, resource: Resource, key: Key, view: type[_V]) -> _V | None:
        found = self._objects[resource].get(key)
        return found if isinstance(found, view) else None

    def look(self, resource: Resource, key: Key) -> Any:  # noqa: ANN401 - a view of any kind
        """An object of any kind, None if there is none."""
        return self._objects.get(resource, {}).get(key)

    def keys(self, resource: Resource) -> list[Key]:
        return list(self._objects.get(resource, ()))

    def all(self, resource: Resource, view: type[_V]) -> list[_V]:
        if VIEWS.get(resource) is not view:
            raise TypeError(view)
        return list(self._objects[resource].values())

    def owned(self, resource: Resource, uid: str | None, view: type[_V]) -> list[_V]:
        """What a controller owns, by its uid."""
        if VIEWS.get(resource) is not view:
            raise TypeError(view)
        return list(self._owned[resource].get(uid or "", {}).values())

    def orphans(self, resource: Resource, namespace: str | None, view: type[_V]) -> list[_V]:
        """What no controller owns in a namespace."""
        if VIEWS.get(resource) is not view:
            raise TypeError(view)
        return list(self._orphans[resource].get(namespace or "", {}).values())

    def pods_in(self, namespace: str) -> list[LivePod]:
        return list(self._pods_in.get(namespace, {}).values())

    def pods_on(self, node: str) -> list[LivePod]:
        return list(self._on_node.get(node, {}).values())


def take(index: dict[_N, dict[_K, Any]], name: _N, key: _K) -> None:
    """Take a key from one of the inner indexes, and the inner one away if that was the last."""
    inner = index.get(name)
    if inner is not None:
        inner.pop(key, None)
        if not inner:
            del index[name]
