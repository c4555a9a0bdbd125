"""Which clusters a placement asks for: one affinity, or the term of several that is tried."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.cluster_affinity import matching
from berth.fleet.rules.base import Ask, ClusterRule, Objection

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from berth.kube.karmada import ClusterAffinity as Affinity

REASON = "cluster(s) did not match the placement cluster affinity constraint"


class ClusterAffinity(ClusterRule):
    name = "ClusterAffinity"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        affinities = _affinities(ask)
        if affinities is not None:
            wanted = np.logical_or.reduce([matching(ask.clusters, affinity) for affinity in affinities])
            yield Objection(~wanted, lambda _: REASON)

    def violated(self, ask: Ask) -> Iterable[str]:
        for objection in self.objections(ask):
            for slot in np.flatnonzero(objection.rejected & ask.targets & ask.clusters.exists):
                yield f"{ask.clusters.names[slot]} does not match the placement's cluster affinity"


def _affinities(ask: Ask) -> Sequence[Affinity] | None:
    """The affinities of which one must match; None where every cluster does.

    What has no replicas takes no room, so it never overflows.
    """
    if ask.placement.cluster_affinity is not None:
        return [ask.placement.cluster_affinity]
    for term in ask.placement.cluster_affinities or ():
        if (term.affinity_name or "") == ask.affinity_name:
            return [term, *(term.overflow_affinities or ())] if ask.is_workload else [term]
    return None
