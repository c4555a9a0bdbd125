"""Which clusters a placement asks for: one affinity, or the term of several that is tried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.state.cluster_affinity import matching
from berth.fleet.state.strategy import is_workload
from berth.kube.karmada import ClusterAffinity as Affinity

REASON = "cluster(s) did not match the placement cluster affinity constraint"


class ClusterAffinityRule(ClusterRule):
    name = "ClusterAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        affinities = _affinities(query)
        if affinities is not None:
            wanted = np.logical_or.reduce([matching(query.clusters, affinity) for affinity in affinities])
            yield ClusterVerdict(~wanted, lambda _: REASON)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for verdict in self.verdicts(query):
            for slot in np.flatnonzero(verdict.rejected & query.targets & query.clusters.exists):
                yield f"{query.clusters.names[slot]} does not match the placement's cluster affinity"


def _affinities(query: PlacementQuery) -> Sequence[Affinity] | None:
    """The affinities of which one must match; None where every cluster does.

    What has no replicas takes no room, so it never overflows.
    """
    if query.placement.cluster_affinity is not None:
        return [query.placement.cluster_affinity]
    for term in query.placement.cluster_affinities or ():
        if (term.affinity_name or "") == query.affinity_name:
            return [term, *(term.overflow_affinities or ())] if is_workload(query.binding.spec) else [term]
    return None
