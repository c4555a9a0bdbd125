"""How much a pod would like to be on a node, by its preferences and by those of the pods that run."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from berth.engine.rules.base import MAX_SCORE
from berth.engine.rules.inter_pod_affinity.terms import AffinityCounts
from berth.engine.rules.vectors import FeasibleDomains, Projection, spread_over_nodes
from berth.engine.state.classes import Counter
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import EMPTY, Int32Array, Int64Array

# Up to so many different scores, looking the result up is faster than computing it for every node; to make
# a small table costs no more than to compute a few.
_LOOKED_UP, _SMALL = 4096, 512
# Of so many nodes, those that are less than this part of all are looked at one by one.
_MANY, _FEW = 20_000, 8
# Up to so many counts that changed, correcting their nodes' scores is faster than making all.
_FEW_CHANGES = 64


class NodeScores:
    """The scores of one count per node, corrected where it changed."""

    def __init__(self) -> None:
        self._scores: Int32Array = EMPTY
        self._counted: Counter | None = None
        self._version = -1
        self._by: tuple[int, int, int, int] | None = None

    def of(self, counter: Counter, raw: Int32Array, by: tuple[int, int, int, int]) -> Int32Array:
        """Of every node; `by` is the lowest and the highest, the weight, and the version of the nodes."""
        low, high, weight, _ = by
        same = counter is self._counted and by == self._by and len(raw) == len(self._scores)
        changed = counter.changed_since(self._version) if same else None
        if changed is None or len(changed) > _FEW_CHANGES:
            self._scores = _scaled(raw, low, high, weight)
        else:
            slots = [domain - 1 for domain in changed if 0 < domain <= len(raw)]
            self._scores[slots] = _each_scaled(raw[slots], low, high, weight)
        self._counted, self._version, self._by = counter, counter.version, by
        return self._scores


class AffinityScore:
    """The counts of preferences as scores."""

    def __init__(self, counts: AffinityCounts, cluster: Cluster) -> None:
        self._counts, self._cluster = counts, cluster
        self._by_topology: dict[str, tuple[FeasibleDomains, Projection]] = {}
        self._by_node = NodeScores()
        self._seen: Int32Array | None = None
        self._open = False

    @property
    def counts(self) -> bool:
        """Whether any pod matters to it."""
        counts = self._counts
        any_pod = self._cluster.any_pod  # weights may cancel out
        return counts.scored and any(c.total or any_pod(c.classes, c.column) for c in counts.score.values())

    def raw(self, blocked: Int32Array) -> Int32Array:
        total: Int32Array | None = None
        for counter in self._counts.score.values():
            scores = spread_over_nodes(counter.counts, counter.column, len(blocked))
            total = scores if total is None else total + scores
        return np.zeros(len(blocked), dtype=np.int32) if total is None else total

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        counters = self._counts.score
        if not counters:
            return None
        if len(counters) == 1 or len(blocked) > _MANY:
            by_domain = [key for key, c in counters.items() if c.column is not None and not c.column.identity]
            if len(by_domain) == 1:
                score = self._weighted_by_domain if len(counters) == 1 else self._weighted_by_both
                return score(by_domain[0], blocked, weight)
        raw = self.raw(blocked)
        if self._is_open_everywhere(blocked):
            low, high = _extremes(raw)
        else:
            low, high = int(np.minimum.reduce(raw + blocked)), int(np.maximum.reduce(raw - blocked))
        if high <= low:
            return None
        if len(counters) > 1:
            return _scaled(raw, low, high, weight)
        (counter,) = counters.values()
        return self._by_node.of(counter, raw, (low, high, weight, self._cluster.nodes.version))

    def _topology(self, key: str) -> tuple[FeasibleDomains, Projection]:
        found = self._by_topology.get(key)
        if found is None:
            nodes = self._cluster.nodes
            column = nodes.column(key)
            found = self._by_topology[key] = FeasibleDomains(nodes, column), Projection(nodes, column)
        return found

    def _is_open_everywhere(self, blocked: Int32Array) -> bool:
        if blocked is not self._seen:
            self._seen = None if blocked.flags.writeable else blocked
            self._open = not blocked.any()
        return self._open

    def _weighted_by_both(self, key: str, blocked: Int32Array, weight: int) -> Int32Array | None:
        """One topology, and counts per node, which are 0 on most: score the domains, and then these nodes."""
        count, counters = len(blocked), self._counts.score
        own = [spread_over_nodes(c.counts, c.column, count) for other, c in counters.items() if other != key]
        by_node = own[0] if len(own) == 1 else sum(own[1:], start=own[0])
        slots = np.flatnonzero(by_node != 0)
        table, (domains, projection) = counters[key].counts, self._topology(key)
        ids = self._cluster.nodes.column(key).ids[slots]
        raw = table[ids] + by_node[slots]
        feasible = blocked[slots] == 0
        others = domains.counts(blocked) - np.bincount(ids[feasible], minlength=len(table))
        low, high = _extremes(np.concatenate((table[others > 0], raw[feasible])))
        if high <= low:
            return None
        scores = projection.of(_scaled(table, low, high, weight)).copy()
        scores[slots] = _scaled(raw, low, high, weight)
        return scores

    def _weighted_by_domain(self, key: str, blocked: Int32Array, weight: int) -> Int32Array | None:
        """The common case of one topology: score its domains, then look the nodes' up."""
        domains, projection = self._topology(key)
        counts = self._counts.score[key].counts
        low, high = _extremes(counts[domains.of(blocked)])
        if high <= low:
            return None
        return projection.of(_scaled(counts, low, high, weight))


def _extremes(raw: Int32Array) -> tuple[int, int]:
    """The lowest and the highest; the same of nothing."""
    return (int(np.minimum.reduce(raw)), int(np.maximum.reduce(raw))) if len(raw) else (0, 0)


def _scaled(raw: Int32Array, low: int, high: int, weight: int) -> Int32Array:
    """`weight` times the normalized scores; entries outside of `low` to `high` belong to refused nodes."""
    for common in (low, high) if len(raw) > _MANY else ():
        others = raw != common
        if np.count_nonzero(others) * _FEW < len(raw):
            # Most nodes have the worst score, or the best one.
            scores = np.full(len(raw), weight * MAX_SCORE * (common == high), dtype=np.int32)
            slots = np.flatnonzero(others)
            scores[slots] = _each_scaled(raw[slots], low, high, weight)
            return scores
    return _each_scaled(raw, low, high, weight)


def _each_scaled(raw: Int32Array, low: int, high: int, weight: int) -> Int32Array:
    if high - low < min(_LOOKED_UP, max(len(raw), _SMALL)):
        return _table(high - low, weight).take(raw - np.int32(low) if low else raw, mode="clip")
    inside = np.minimum(np.maximum(raw, low), high).astype(np.int64)
    return (weight * exactly_scaled(inside, low, high)).astype(np.int32)


@lru_cache(maxsize=256)
def _table(high: int, weight: int) -> Int32Array:
    """`weight` times the normalized scores of 0 to `high`; read only."""
    return (weight * exactly_scaled(np.arange(high + 1, dtype=np.int64), 0, high)).astype(np.int32)


def exactly_scaled(raw: Int64Array, low: int, high: int) -> Int64Array:
    """0 for the lowest to 100 for the highest score, in upstream's floating-point arithmetic."""
    if high <= low:
        return np.zeros_like(raw)
    return (MAX_SCORE * ((raw - low) / (high - low))).astype(np.int64)
