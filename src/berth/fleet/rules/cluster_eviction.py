"""A binding does not return to a cluster while it is being evicted from it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery

REASON = "cluster(s) is in the process of eviction"


class ClusterEvictionRule(ClusterRule):
    name = "ClusterEviction"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if query.entry.leaving:
            rejected = np.zeros(query.clusters.size, dtype=np.bool_)
            rejected[list(query.entry.leaving)] = True
            yield ClusterVerdict(rejected, lambda _: REASON)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for slot in query.entry.leaving:
            if query.targets[slot]:
                yield f"{query.clusters.names[slot]} is a target while the binding is being evicted from it"
