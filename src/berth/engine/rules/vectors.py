"""From counts per domain to vectors over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.arrays import BLOCKED, BoolArray, Int32Array
from berth.engine.state.columns import LabelColumn
from berth.engine.state.counts import Counter
from berth.engine.state.tables import NodeTable

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


class Projection:
    """A table by domain seen from the nodes, gathered again only when it or the nodes have changed."""

    __slots__ = ("_column", "_nodes", "_nodes_version", "_table", "_vector")

    def __init__(self, nodes: NodeTable, column: LabelColumn | None) -> None:
        self._nodes = nodes
        self._column = column
        self._table: Int32Array | None = None
        self._vector: Int32Array | None = None
        self._nodes_version = -1

    def of(self, table: Int32Array) -> Int32Array:
        column = self._column
        if column is None or _by_node(table, column, self._nodes.count):
            return table[1 : self._nodes.count + 1]
        if (
            self._vector is None
            or self._nodes_version != self._nodes.version
            or self._table is None
            or not np.array_equal(self._table, table)
        ):
            self._vector = table.take(column.ids[: self._nodes.count])
            self._table = table
            self._nodes_version = self._nodes.version
        return self._vector


class FeasibleDomains:
    """Which domains hold a feasible node, looked up again only when the feasible nodes have changed."""

    __slots__ = ("_blocked", "_column", "_found", "_nodes", "_nodes_version")

    def __init__(self, nodes: NodeTable, column: LabelColumn) -> None:
        self._nodes = nodes
        self._column = column
        self._blocked: Int32Array | None = None
        self._found: BoolArray = np.zeros(0, dtype=np.bool_)
        self._nodes_version = -1

    def of(self, blocked: Int32Array) -> BoolArray:
        """Domain id -> does a node of it have `blocked` 0? Entry 0 stands for nodes without the label."""
        if (
            self._blocked is None
            or self._nodes_version != self._nodes.version
            or not np.array_equal(self._blocked, blocked)
        ):
            self._blocked = blocked.copy()
            self._nodes_version = self._nodes.version
            found = np.bincount(
                self._column.ids[np.flatnonzero(blocked == 0)], minlength=self._column.capacity
            )
            self._found = found > 0
        return self._found


def blocked_where(condition: BoolArray) -> Int32Array:
    return condition.astype(np.int32) * np.int32(BLOCKED)


def summed(counters: Sequence[Counter]) -> Int32Array:
    if len(counters) == 1:
        return counters[0].counts
    return counters[0].counts + counters[1].counts
