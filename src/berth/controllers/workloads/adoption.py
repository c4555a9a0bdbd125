"""Who owns what: controllers adopt what their selector matches and release what it no longer does."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

import msgspec

from berth.controllers.actions import patch
from berth.kube.api_resources import Resource
from berth.kube.objects import Key, LiveWorkload, RawObject, key_of
from berth.kube.ownership import owner_reference
from berth.kube.selectors import parse_label_selector
from berth.machines.cache import Cache
from berth.machines.contract import Action

_V = TypeVar("_V")


class Adoption:
    """What one controller object owns of a resource, and the patches that make it so."""

    def __init__(self, cache: Cache, resource: Resource, item: LiveWorkload, dependents: Resource) -> None:
        self._cache = cache
        self._resource = resource
        self._metadata = item.metadata
        self._selector = parse_label_selector(item.spec.selector)
        self._dependents = dependents

    def owned(self, view: type[_V]) -> list[_V]:
        """What it owns and selects."""
        return [item for item in self._all(view) if self._selects(item)]

    def actions(self, view: type[_V]) -> Iterator[Action]:
        """Adoptions and releases."""
        for item in self._all(view):
            if not self._selects(item) and not _going(item):
                yield self._release(item)
        if self._metadata.deletion_timestamp or self._selector.everything or self._selector.nothing:
            return
        for item in self._cache.orphans(self._dependents, self._metadata.namespace, view):
            if self._selects(item) and not _going(item):
                yield self._adopt(item)

    def _all(self, view: type[_V]) -> list[_V]:
        return self._cache.owned(self._dependents, self._metadata.uid, view)

    def _selects(self, item: Any) -> bool:  # noqa: ANN401 - a view
        return self._selector.matches(item.metadata.labels or {})

    def _adopt(self, item: Any) -> Action:  # noqa: ANN401
        kept = [msgspec.to_builtins(owner) for owner in item.metadata.owner_references or ()]
        owners = [*kept, owner_reference(self._resource, self._metadata)]
        return self._patch(item, owners, "adopted: it matches the selector")

    def _release(self, item: Any) -> Action:  # noqa: ANN401
        owners = [
            msgspec.to_builtins(owner)
            for owner in item.metadata.owner_references or ()
            if owner.uid != self._metadata.uid
        ]
        return self._patch(item, owners, "released: it no longer matches the selector")

    def _patch(self, item: Any, owners: list[RawObject], cause: str) -> Action:  # noqa: ANN401
        body = {"metadata": {"ownerReferences": owners or None}}
        return patch(self._dependents, item, body, cause, key=key_of(self._metadata))


def _going(item: Any) -> bool:  # noqa: ANN401
    return item.metadata.deletion_timestamp is not None


def selecting(
    cache: Cache, resource: Resource, namespace: str | None, labels: dict[str, str] | None
) -> Iterable[Key]:
    """The workloads of a namespace whose selector matches: who may adopt an orphan."""
    for item in cache.all(resource, LiveWorkload):
        if item.metadata.namespace == namespace and parse_label_selector(item.spec.selector).matches(
            labels or {}
        ):
            yield key_of(item.metadata)
