"""How much storage is left where, as drivers say in CSIStorageCapacity objects.

An object is about one storage class and the nodes of one topology.  Which nodes have room for a volume of
some size is a column over all nodes, made once for the class and the size and again when nodes change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from berth.engine.state.arrays import BoolArray, IndexArray, Int64Array
from berth.engine.state.tables import NodeTable
from berth.kube import objects
from berth.kube.amounts import quantity
from berth.kube.objects import Key
from berth.kube.selectors import IN, NOTHING, Selector, parse_label_selector

_NO_ROOM = -1


@dataclass(frozen=True, slots=True)
class CapacityRecord:
    """A CSIStorageCapacity; amounts are in bytes.

    Attributes:
        nodes: Those that reach the storage, None for none.
        amount: How much is left.
        largest: The largest volume that can be made, None if nobody knows.
    """

    key: Key
    storage_class: str
    nodes: Selector | None
    amount: int
    largest: int | None

    def has_room(self, wanted: int) -> bool:
        return self.nodes is not None and self.largest is not None and self.largest >= wanted


class StorageRoom:
    """The nodes for which a volume of one class and size can be made.

    Attributes:
        storage_class: Of the volume.
        found: Whether any driver says that it has so much left, for whichever node.
    """

    def __init__(self, nodes: NodeTable, storage_class: str, enough: list[CapacityRecord]) -> None:
        self.storage_class = storage_class
        self.found = bool(enough)
        self._nodes = nodes
        self._enough = enough
        self._amounts: Int64Array = np.zeros(0, dtype=np.int64)
        self._version = -1

    def amounts(self) -> Int64Array:
        """By slot, how much is left in the storage that a node would use; negative if there is none."""
        if self._version != self._nodes.version or len(self._amounts) != self._nodes.capacity:
            self._amounts = self._filled()
            self._version = self._nodes.version
        return self._amounts

    def slots(self) -> IndexArray:
        return np.flatnonzero(self.amounts()[: self._nodes.count] >= 0)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node has room; its labels are those it is known with."""
        del labels
        slot = self._nodes.slot_of.get(name)
        return slot is not None and bool(self.amounts()[slot] >= 0)

    def _filled(self) -> Int64Array:
        amounts = np.full(self._nodes.capacity, _NO_ROOM, dtype=np.int64)
        by_value: dict[str, Int64Array] = {}
        # Where several would do upstream takes any; here it is the first by name.
        for record in reversed(self._enough):
            selector = record.nodes or NOTHING
            only = next(iter(selector.requirements)) if len(selector.requirements) == 1 else None
            if only is None or only.operator != IN:
                amounts[self._matching(selector)] = record.amount
                continue
            # One object a node is usual, so these are not each compared with all nodes.
            column = self._nodes.column(only.key)
            if only.key not in by_value:
                by_value[only.key] = np.full(len(column.values), _NO_ROOM, dtype=np.int64)
            for value in only.values:
                by_value[only.key][column.id_of(value)] = record.amount
        for key, found in by_value.items():
            found[0] = _NO_ROOM  # what no node has
            of_label = found[self._nodes.column(key).ids]
            amounts = np.where(of_label >= 0, of_label, amounts)
        amounts[~self._nodes.alive] = _NO_ROOM
        return amounts

    def _matching(self, selector: Selector) -> BoolArray:
        matches = self._nodes.alive.copy()
        for requirement in selector.requirements:
            column = self._nodes.column(requirement.key)
            matches &= column.table(requirement)[column.ids]
        return matches

    def __str__(self) -> str:
        return f"nodes with enough storage of class {self.storage_class}"


class StorageCapacities:
    """All CSIStorageCapacity objects."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._records: dict[Key, CapacityRecord] = {}
        self._by_class: dict[str, dict[Key, CapacityRecord]] = {}
        self._rooms: dict[str, dict[int, StorageRoom]] = {}

    def put(self, capacity: objects.CSIStorageCapacity) -> set[str]:
        """Take over an object; the storage classes for which something is different now."""
        new = _record_of(capacity)
        if self._records.get(new.key) == new:
            return set()
        changed = self.drop(new.key)
        self._records[new.key] = self._by_class.setdefault(new.storage_class, {})[new.key] = new
        self._rooms.pop(new.storage_class, None)
        return {*changed, new.storage_class}

    def drop(self, key: Key) -> set[str]:
        old = self._records.pop(key, None)
        if old is None:
            return set()
        del self._by_class[old.storage_class][key]
        if not self._by_class[old.storage_class]:
            del self._by_class[old.storage_class]
        self._rooms.pop(old.storage_class, None)
        return {old.storage_class}

    def room(self, storage_class: str, wanted: int) -> StorageRoom:
        """Where there is room for so many bytes; the same object until something changes."""
        rooms = self._rooms.setdefault(storage_class, {})
        if wanted not in rooms:
            records = sorted(self._by_class.get(storage_class, {}).items())
            enough = [record for _, record in records if record.has_room(wanted)]
            rooms[wanted] = StorageRoom(self._nodes, storage_class, enough)
        return rooms[wanted]


def _record_of(view: objects.CSIStorageCapacity) -> CapacityRecord:
    meta = view.metadata
    amount = None if view.capacity is None else quantity.value(view.capacity)
    largest = None if view.maximum_volume_size is None else quantity.value(view.maximum_volume_size)
    return CapacityRecord(
        key=(meta.namespace or "default", meta.name or ""),
        storage_class=view.storage_class_name or "",
        nodes=None if view.node_topology is None else parse_label_selector(view.node_topology),
        amount=amount or 0,
        largest=amount if largest is None else largest,
    )
