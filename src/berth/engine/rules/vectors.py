"""From counts per domain to vectors over nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from berth.engine.state.classes import Counter
from berth.engine.state.columns import BLOCKED, EMPTY, BoolArray, IndexArray, Int32Array, LabelColumn
from berth.engine.state.tables import NodeTable

# Of up to so many, comparing the bytes is faster than comparing arrays.
_FEW_DOMAINS = 64
# Up to so many nodes that changed, correcting counts is faster than counting all.
_FEW_CHANGES = 8
_BLOCKED = np.int32(BLOCKED)
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
        self._memory = EMPTY
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
        self._blocked = EMPTY
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
        if self._nodes_version == self._nodes.version and len(self._blocked) == len(blocked):
            changed = (self._blocked != blocked).nonzero()[0]
            if len(changed) <= _FEW_CHANGES:
                self._correct(blocked, changed.tolist())
                return self._found
        self._count(blocked)
        return self._found

    def _count(self, blocked: Int32Array) -> None:
        self._blocked = blocked.copy()
        self._nodes_version = self._nodes.version
        if blocked.any():
            feasible = self._column.ids[np.flatnonzero(blocked == 0)]
            self._counts = np.bincount(feasible, minlength=self._column.capacity)
        else:
            self._counts = self._column.nodes.astype(np.intp)
            self._counts[0] = len(blocked) - self._counts.sum()
        self._found = self._counts > 0

    def _correct(self, blocked: Int32Array, slots: list[int]) -> None:
        """Count again the nodes at some slots, which are all whose `blocked` is another than before."""
        for slot in slots:
            domain, before, now = self._column.ids.item(slot), self._blocked.item(slot), blocked.item(slot)
            self._blocked[slot] = now
            if before and now:
                continue
            self._counts[domain] += 1 if before else -1
            self._found[domain] = self._counts.item(domain) > 0

    def counts(self, blocked: Int32Array) -> IndexArray:
        """Domain id -> how many nodes of it have `blocked` 0."""
        self.of(blocked)
        return self._counts


def blocked_where(condition: BoolArray) -> Int32Array:
    return np.multiply(condition, _BLOCKED, dtype=np.int32)


class BlockedDomains:
    """BLOCKED for the nodes of some domains."""

    __slots__ = ("_bytes", "_nodes", "_nodes_version", "_projection", "_vector")

    def __init__(self, nodes: NodeTable, column: LabelColumn) -> None:
        self._nodes = nodes
        self._projection = Projection(nodes, column)
        self._vector = EMPTY
        self._bytes = b""
        self._nodes_version = -1

    def of(self, domains: BoolArray) -> Int32Array:
        """A new object if it is not what it was."""
        found = domains.tobytes()
        if found != self._bytes or self._nodes_version != self._nodes.version:
            self._vector = self._projection.of(blocked_where(domains))
            self._bytes, self._nodes_version = found, self._nodes.version
        return self._vector


class OccupiedDomains:
    """BLOCKED for the nodes in whose domain one of some counters counts somebody.

    Where a domain is a node, the table is long, so it is corrected where a count changed.
    """

    __slots__ = ("_column", "_counted", "_nodes", "_projection", "_table", "_vector", "_versions")

    def __init__(self, nodes: NodeTable, column: LabelColumn) -> None:
        self._nodes = nodes
        self._column = column
        self._projection = Projection(nodes, column)
        self._table = EMPTY
        self._vector: Int32Array | None = None
        self._counted: Sequence[Counter] = ()
        self._versions: tuple[int, ...] = ()

    def of(self, counters: Sequence[Counter]) -> Int32Array | None:
        """A new object if it is not what it was; None if nobody is counted."""
        versions = (self._nodes.version, *[counter.version for counter in counters])
        if versions == self._versions and counters == self._counted:
            return self._vector
        if not any(counter.total for counter in counters):
            self._vector = None
        elif (changed := self._changed(counters, versions[0])) is None:
            self._fill(counters)
            self._vector = self._projection.of(self._table)
        elif self._correct(counters, changed):
            self._vector = self._projection.of(self._table)
        self._counted, self._versions = counters, versions
        return self._vector

    def _changed(self, counters: Sequence[Counter], nodes_version: int) -> set[int] | None:
        """The domains whose counts changed since the last time; None to look at all."""
        if self._vector is None or counters != self._counted or self._versions[0] != nodes_version:
            return None
        if not self._column.identity or len(self._table) != len(counters[0].counts):
            return None
        found: set[int] = set()
        for counter, version in zip(counters, self._versions[1:], strict=True):
            changed = counter.changed_since(version)
            if changed is None:
                return None
            found.update(changed)
        return found

    def _fill(self, counters: Sequence[Counter]) -> None:
        counts = counters[0].counts
        for counter in counters[1:]:
            counts = counts | counter.counts
        # What was handed out where domains are no nodes is compared with what comes next: it stays as it is.
        if len(self._table) != len(counts) or not self._column.identity:
            self._table = np.empty(len(counts), dtype=np.int32)
        np.multiply(counts != 0, _BLOCKED, out=self._table)

    def _correct(self, counters: Sequence[Counter], domains: set[int]) -> bool:
        """Whether any of these domains was corrected."""
        corrected = False
        for domain in domains:
            blocked = 0
            for counter in counters:
                if counter.counts.item(domain):
                    blocked = BLOCKED
            if self._table.item(domain) != blocked:
                self._table[domain] = blocked
                corrected = True
        return corrected
