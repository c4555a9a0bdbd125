"""How much a pod would like to be on a node, by its preferences and by those of the pods that run."""

from __future__ import annotations

import numpy as np

from berth.engine.rules.base import MAX_SCORE
from berth.engine.rules.inter_pod_affinity.counts import AffinityCounts
from berth.engine.rules.vectors import FeasibleDomains, Projection, spread_over_nodes
from berth.engine.state.arrays import Int32Array, Int64Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.counts import Counter

# Up to so many different scores, looking the result up is faster than computing it for every node.
_LOOKED_UP = 4096


class AffinityScore:
    """The counts of preferences as scores."""

    def __init__(self, counts: AffinityCounts, cluster: Cluster) -> None:
        self._counts, self._cluster = counts, cluster
        self._projections: dict[str, Projection] = {}
        self._feasible_domains: dict[str, FeasibleDomains] = {}

    @property
    def counts(self) -> bool:
        """Whether any pod matters to it."""
        counts = self._counts
        return counts.scored and any(self._contributes(counter) for counter in counts.score.values())

    def _contributes(self, counter: Counter) -> bool:
        """Whether any pod counts at all; weights may still cancel out."""
        return bool(counter.total) or self._cluster.any_pod(counter.classes, counter.column)

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
        if len(counters) == 1:
            ((key, counter),) = counters.items()
            if counter.column is not None and not counter.column.identity:
                return self._weighted_by_domain(key, counter, blocked, weight)
        raw = self.raw(blocked)
        low, high = int((raw + blocked).min()), int((raw - blocked).max())
        return None if high <= low else _scaled(raw, low, high, weight)

    def _weighted_by_domain(
        self, key: str, counter: Counter, blocked: Int32Array, weight: int
    ) -> Int32Array | None:
        """The common case of one topology: score its domains, then look the nodes' up."""
        present = counter.counts[self._domains(key).of(blocked)]
        if not len(present):
            return None
        low, high = int(present.min()), int(present.max())
        if high <= low:
            return None
        return self._projection(key).of(_scaled(counter.counts, low, high, weight))

    def _domains(self, key: str) -> FeasibleDomains:
        found = self._feasible_domains.get(key)
        if found is None:
            found = self._feasible_domains[key] = FeasibleDomains(
                self._cluster.nodes, self._cluster.nodes.column(key)
            )
        return found

    def _projection(self, key: str) -> Projection:
        found = self._projections.get(key)
        if found is None:
            nodes = self._cluster.nodes
            found = self._projections[key] = Projection(nodes, nodes.column(key))
        return found


def _scaled(raw: Int32Array, low: int, high: int, weight: int) -> Int32Array:
    """`weight` times the normalized scores; entries outside of `low` to `high` belong to refused nodes."""
    if high - low < min(_LOOKED_UP, len(raw)):
        steps = np.arange(low, high + 1, dtype=np.int64)
        table = (weight * exactly_scaled(steps, low, high)).astype(np.int32)
        return table.take(raw - np.int32(low), mode="clip")
    inside = np.clip(raw, low, high).astype(np.int64)
    return (weight * exactly_scaled(inside, low, high)).astype(np.int32)


def exactly_scaled(raw: Int64Array, low: int, high: int) -> Int64Array:
    """0 for the lowest to 100 for the highest score, in upstream's floating-point arithmetic."""
    if high <= low:
        return np.zeros_like(raw)
    return (MAX_SCORE * ((raw - low).astype(np.float64) / (high - low))).astype(np.int64)
