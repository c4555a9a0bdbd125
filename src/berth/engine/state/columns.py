"""Array types and small tools that the engine shares, and node labels as integer columns.

A label key in use has one column: node slot -> id of its value, 0 where the node lacks the
label.  The same column answers node selectors (a table over values, gathered over nodes) and
is the topology of that key (a value is a domain).  Columns are made on first use, from the
labels kept per node, so labels nobody asks about cost nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.kube.selectors import Requirement

BoolArray = NDArray[np.bool_]
Int32Array = NDArray[np.int32]
Int64Array = NDArray[np.int64]
IntArray = NDArray[np.integer[Any]]
IndexArray = NDArray[np.intp]
FloatArray = NDArray[np.float64]

# Node slots a rule is asked about: all of them (a slice, so columns are viewed, not copied) or a few.
Slots = slice | IndexArray

# Set for a node that a rule refuses, and subtracted from its score: larger than any score can be, and a
# single bit, so that several rules may set it.
BLOCKED = 1 << 30
# What vectors over nodes are before anybody asked for them.
EMPTY: Int32Array = np.zeros(0, dtype=np.int32)

T = TypeVar("T", bound=Hashable)
_V = TypeVar("_V")


def grown(array: NDArray[Any], size: int) -> NDArray[Any]:
    """A copy of `array` whose last axis has `size` entries, new ones zero."""
    bigger = np.zeros((*array.shape[:-1], size), dtype=array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger


def take_out(tables: dict[T, dict[_V, Any]], key: T, entry: _V) -> None:
    """Remove an entry from the table of a key, and the table with its last entry."""
    table = tables[key]
    del table[entry]
    if not table:
        del tables[key]


class Growable(Protocol):
    def grow(self, size: int) -> None: ...


class LabelColumn:
    """One label key over all node slots.

    Attributes:
        ids: Node slot -> value id.
        values: Value id -> value; entry 0 stands for "no such label".
        nodes: Value id -> how many live nodes have it.
        identity: Every node's id is its slot plus one, so that counts per value *are* counts
            per node and need no gather.
        dependents: Arrays by value id that must grow with the column.
    """

    __slots__ = ("_free", "_index", "_strays", "dependents", "ids", "nodes", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: IndexArray = np.zeros(capacity, dtype=np.intp)
        self.values: list[str | None] = [None]
        self._index: dict[str, int] = {}
        self.nodes: Int32Array = np.zeros(8, dtype=np.int32)
        self._free: set[int] = set()
        self._strays = 0
        self.dependents: dict[Growable, None] = {}

    @property
    def capacity(self) -> int:
        return len(self.nodes)

    @property
    def identity(self) -> bool:
        return not self._strays

    def id_of(self, value: str) -> int:
        """The id of `value`, 0 if no node ever had it."""
        return self._index.get(value, 0)

    def occupy(self) -> None:
        """A node has come, as yet without the label."""
        self._strays += 1

    def set(self, slot: int, value: str | None) -> None:
        old = int(self.ids[slot])
        new = 0 if value is None else self._intern(value, slot + 1)
        self.ids[slot] = new
        self._strays += (new != slot + 1) - (old != slot + 1)
        if new:
            self.nodes[new] += 1
        if old:
            self._leave(old)

    def clear(self, slot: int) -> None:
        """The node at `slot` has gone."""
        self.set(slot, None)
        self._strays -= 1

    def _leave(self, value_id: int) -> None:
        self.nodes[value_id] -= 1
        if not self.nodes[value_id]:
            # No node has the value, so no pod is counted for it, and its id may stand for another.
            del self._index[self.values[value_id] or ""]
            self.values[value_id] = None
            self._free.add(value_id)

    def grow_slots(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity)

    def table(self, requirement: Requirement) -> BoolArray:
        """Value id -> whether a node with that value satisfies `requirement`."""
        match requirement.operator:
            case "In" | "NotIn":
                listed = np.zeros(len(self.values), dtype=np.bool_)
                listed[[i for v in requirement.values if (i := self.id_of(v))]] = True
                return listed if requirement.operator == "In" else ~listed
            case "Exists" | "DoesNotExist":
                exists = np.ones(len(self.values), dtype=np.bool_)
                exists[0] = False
                return exists if requirement.operator == "Exists" else ~exists
        return np.fromiter(map(requirement.matches_value, self.values), np.bool_, len(self.values))

    def _intern(self, value: str, wanted: int) -> int:
        """The id of a value; a new one gets `wanted` if that is free."""
        found = self._index.get(value)
        if found is not None:
            return found
        if self._free:
            found = wanted if wanted in self._free else min(self._free)
            self._free.remove(found)
            self.values[found] = value
        else:
            found = len(self.values)
            self.values.append(value)
            if found >= len(self.nodes):
                self.nodes = grown(self.nodes, 2 * found)
                for dependent in self.dependents:
                    dependent.grow(2 * found)
        self._index[value] = found
        return found


class InternedColumn(Generic[T]):
    """Any hashable property of nodes that few distinct values cover: node slot -> value id."""

    __slots__ = ("_index", "ids", "values")

    def __init__(self, capacity: int, default: T) -> None:
        self.ids: IndexArray = np.zeros(capacity, dtype=np.intp)
        self.values: list[T] = [default]
        self._index: dict[T, int] = {default: 0}

    def set(self, slot: int, value: T) -> None:
        found = self._index.setdefault(value, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        self.ids[slot] = found

    def at(self, slot: int) -> T:
        return self.values[self.ids.item(slot)]

    def grow_slots(self, capacity: int) -> None:
        self.ids = grown(self.ids, capacity)


def column_from(labels: Sequence[dict[str, str] | None], key: str, capacity: int) -> LabelColumn:
    """The column of `key` over nodes whose labels are given by slot (None: empty slot)."""
    column = LabelColumn(capacity)
    for slot, have in enumerate(labels):
        if have is not None:
            column.occupy()
            column.set(slot, have.get(key))
    return column
