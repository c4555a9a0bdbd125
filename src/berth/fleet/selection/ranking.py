"""The feasible clusters in the order of preference in which they are selected."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int64Array
from berth.fleet.selection.estimation import estimate
from berth.fleet.state.cluster_affinity import affinity_tiers, matching
from berth.fleet.state.clusters import Clusters
from berth.kube.karmada import Binding

# --- by name --------------------------------------------------------------------------------------


def name_ranks(clusters: Clusters) -> Int64Array:
    """Slot -> how many names come before this one. As long as `clusters.names`."""
    names = clusters.names

    def ranks() -> Int64Array:
        found = np.empty(len(names), dtype=np.int64)
        found[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return found

    return clusters.remembered(("names", len(names)), ranks)


# --- by score -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ClusterSelection:
    """Clusters in order, the most preferred first.

    Attributes:
        slots: Which clusters.
        score: Its score; greater is better.
        allocatable: The replicas it could take besides those it has.
        available: The same, plus those it has.
        tier: 0 for the clusters of the affinity itself, n for those of its n-th overflow affinity.
    """

    clusters: Clusters
    slots: IndexArray
    score: Int64Array
    allocatable: Int64Array
    available: Int64Array
    tier: Int64Array

    def __len__(self) -> int:
        return len(self.slots)

    @property
    def names(self) -> list[str]:
        names = self.clusters.names
        return [names[slot] for slot in self.slots.tolist()]

    def take(self, which: IndexArray | slice | BoolArray) -> ClusterSelection:
        """The clusters at these positions, in this order."""
        return ClusterSelection(
            self.clusters,
            self.slots[which],
            self.score[which],
            self.allocatable[which],
            self.available[which],
            self.tier[which],
        )


def ranked(
    clusters: Clusters, feasible: BoolArray, score: Int64Array, binding: Binding, affinity_name: str
) -> ClusterSelection:
    """The feasible clusters by tier, score, room and name."""
    slots = np.flatnonzero(feasible)
    allocatable = estimate(clusters, binding)[slots]
    available = allocatable
    if binding.spec.clusters:
        available = allocatable + current_replicas(clusters, binding)[slots]
    affinities = affinity_tiers(binding.spec, affinity_name)
    tier = np.zeros(len(slots), dtype=np.int64)
    if len(affinities) > 1:
        for number, affinity in reversed(list(enumerate(affinities))):
            tier[matching(clusters, affinity)[slots]] = number
    found = ClusterSelection(clusters, slots, score[slots], allocatable, available, tier)
    return found.take(in_order(found))


def in_order(found: ClusterSelection) -> IndexArray:
    """The positions of clusters from the most preferred to the least."""
    ranks = name_ranks(found.clusters)[found.slots]
    return np.lexsort((ranks, -found.available, -found.score, found.tier))


def current_replicas(clusters: Clusters, binding: Binding) -> Int64Array:
    """Slot -> the replicas that the binding has there."""
    replicas = np.zeros(clusters.size, dtype=np.int64)
    # Should a name be there twice, the first one counts.
    for target in reversed(binding.spec.clusters or ()):
        slot = clusters.slot_of.get(target.name)
        if slot is not None:
            replicas[slot] = target.replicas
    return replicas
