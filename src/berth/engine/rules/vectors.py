"""From counts per domain to vectors over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.arrays import BLOCKED, BoolArray, IndexArray, Int32Array
from berth.engine.state.columns import LabelColumn
from berth.engine.state.counts import Counter
from berth.engine.state.tables import NodeTable

# Of up to so many, comparing the bytes is faster than comparing arrays.
_FEW_DOMAINS = 64
_Number = TypeVar("_Number", np.int32, np.float64)


def spread_over_nodes(table: NDArray[_Number], column: LabelColumn | None, count: int) -> NDArray[_Number]:
    """Each node's entry of a table by domain."""
    if _by_node(table, column, count):
        return table[1 : count + 1]
    assert column is not None  # noqa: S101 - a table by node is never too short
    return table.take(column.ids[:count])


def _by_node(table: NDArray[_Number], column: LabelColumn | None, count: int) -> bool:
    """Whether entry i + 1 of the table is that of node i. Slots emptied at the end may lie beyond it."""
    return column is None or (column.identity and len(table) > count)


def _same(one: Int32Array, other: Int32Array) -> bool:
    if len(one) != len(other):
        return False
    return one.tobytes() == other.tobytes() if len(one) <= _FEW_DOMAINS else np.array_equal(one, other)


class Projection:
    """A table by domain seen from the nodes, gathered again only when it or the nodes have changed."""

    __slots__ = ("_column", "_memory", "_nodes", "_nodes_version", "_table", "_vector")

    def __init__(self, nodes: NodeTable, column: LabelColumn | None) -> None:
        self._nodes = nodes
        self._column = column
        self._table: Int32Array | None = None
        self._vector: Int32Array | None = None
        self._memory: Int32Array = np.zeros(0, dtype=np.int32)
        self._nodes_version = -1

    def of(self, table: Int32Array) -> Int32Array:
        """A new object if it is not what it was."""
        column = self._column
        if column is None or _by_node(table, column, self._nodes.count):
            return table[1 : self._nodes.count + 1]
        if (
            self._vector is None
            or self._nodes_version != self._nodes.version
            or self._table is None
            or not _same(self._table, table)
        ):
            if len(self._memory) != self._nodes.count:
                self._memory = np.empty(self._nodes.count, dtype=np.int32)
            table.take(column.ids[: self._nodes.count], out=self._memory, mode="clip")
            self._vector = self._memory[:]
            self._table = table
            self._nodes_version = self._nodes.version
        return self._vector


class FeasibleDomains:
    """Which domains hold a feasible node, looked up again only when the feasible nodes have changed."""

    __slots__ = ("_blocked", "_column", "_counts", "_found", "_nodes", "_nodes_version", "_seen")

    def __init__(self, nodes: NodeTable, column: LabelColumn) -> None:
        self._nodes = nodes
        self._column = column
        self._seen: Int32Array | None = None
        self._blocked: Int32Array | None = None
        self._counts: IndexArray = np.zeros(0, dtype=np.intp)
        self._found: BoolArray = np.zeros(0, dtype=np.bool_)
        self._nodes_version = -1

    def of(self, blocked: Int32Array) -> BoolArray:
        """Domain id -> does a node of it have `blocked` 0? Entry 0 stands for nodes without the label.

        The same array, if it cannot be written to, has the same content as last time.
        """
        if blocked is self._seen and self._nodes_version == self._nodes.version:
            return self._found
        self._seen = None if blocked.flags.writeable else blocked
        if (
            self._blocked is None
            or self._nodes_version != self._nodes.version
            or not np.array_equal(self._blocked, blocked)
        ):
            self._blocked = blocked.copy()
            self._nodes_version = self._nodes.version
            feasible = self._column.ids[np.flatnonzero(blocked == 0)]
            self._counts = np.bincount(feasible, minlength=self._column.capacity)
            self._found = self._counts > 0
        return self._found

    def counts(self, blocked: Int32Array) -> IndexArray:
        """Domain id -> how many nodes of it have `blocked` 0."""
        self.of(blocked)
        return self._counts


def blocked_where(condition: BoolArray) -> Int32Array:
    return np.multiply(condition, np.int32(BLOCKED), dtype=np.int32)


def blocked_by(counters: Sequence[Counter], out: Int32Array) -> Int32Array:
    """BLOCKED where any of these counts somebody; as a view of `out` that is a new object."""
    counts = counters[0].counts
    for counter in counters[1:]:
        counts = counts | counter.counts
    np.copyto(out, counts != 0)
    np.multiply(out, np.int32(BLOCKED), out=out)
    return out[:]
