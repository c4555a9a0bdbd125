"""Selecting clusters from so many regions: first the regions, then the best cluster of each, then others.

Karmada does this for regions only; here it works for every topology in which a cluster has one domain.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import numpy as np

from berth.engine.state.arrays import IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection, in_order
from berth.fleet.selection.spread_domains import SpreadLimit, domains
from berth.fleet.selection.spread_groups import SpreadGroup, best_groups
from berth.fleet.state.errors import PlacementError
from berth.kube.well_known import SCHEDULER_ERROR

TOO_FEW_CLUSTERS = "the number of clusters is less than the cluster spreadConstraint.MinGroups"
# A replica, or a cluster with room, is worth more than any score, which is 100 at most in Karmada.
_UNIT = 1000


@dataclass(frozen=True, slots=True)
class ReplicaDemand:
    """What the clusters of a group are weighed by.

    Attributes:
        replicas: How many there are.
        duplicated: Whether each cluster needs room for all of them.
        least_clusters: How many clusters are wanted at least.
    """

    replicas: int
    duplicated: bool
    least_clusters: int


def too_few(topology: str) -> PlacementError:
    message = f"the number of feasible {topology} is less than spreadConstraint.MinGroups"
    return PlacementError(SCHEDULER_ERROR, message)


def select_by_group(
    ranking: ClusterSelection, limit: SpreadLimit, cluster_limit: SpreadLimit, demand: ReplicaDemand
) -> IndexArray:
    """Positions of the selected clusters in the ranking."""
    members = GroupMembers(ranking, limit)
    if len(members.names) < limit.least:
        raise too_few(limit.topology)
    weights = members.weights(ranking, limit.least, demand).tolist()
    groups = [
        SpreadGroup(name, size, weight, index)
        for index, (name, size, weight) in enumerate(
            zip(members.names, members.sizes.tolist(), weights, strict=True)
        )
    ]
    chosen = best_groups(groups, limit.least, limit.most, cluster_limit.least)
    if not chosen:
        raise PlacementError(SCHEDULER_ERROR, TOO_FEW_CLUSTERS)
    inside = [members.positions_of(group.index) for group in chosen]
    first = np.array([positions[0] for positions in inside])
    others = np.concatenate([positions[1:] for positions in inside])
    missing = min(cluster_limit.most, len(first) + len(others)) - len(first)
    if missing > 0:
        others = others[in_order(ranking.take(others))]
        return np.concatenate([first, others[:missing]])
    return first


class GroupMembers:
    """Which of the ranked clusters are in which domain, domain by domain and the best cluster first.

    Attributes:
        names: The domains that have clusters.
        sizes: How many each has.
        positions: The places in the ranking of all those clusters.
    """

    def __init__(self, ranking: ClusterSelection, limit: SpreadLimit) -> None:
        found = domains(ranking.clusters, limit)
        columns, positions = found.inside[ranking.slots].T.nonzero()
        self.positions: IndexArray = positions
        self._starts: IndexArray = np.flatnonzero(np.diff(columns, prepend=-1))
        self.sizes: IndexArray = np.diff(self._starts, append=len(positions))
        self.names = [found.names[column] for column in columns[self._starts].tolist()]

    def positions_of(self, index: int) -> IndexArray:
        start = self._starts[index]
        return self.positions[start : start + self.sizes[index]]

    def weights(self, ranking: ClusterSelection, least_groups: int, demand: ReplicaDemand) -> Int64Array:
        """How good each group is: how much of the demand it can bear, then how well it is liked."""
        if not self.names:
            return np.zeros(0, dtype=np.int64)
        score, available = ranking.score[self.positions], ranking.available[self.positions]
        if not demand.duplicated:
            return self._weights_of_shares(score, available, least_groups, demand)
        roomy = available >= demand.replicas
        number = self.sums(roomy.astype(np.int64))
        liked = self.sums(np.where(roomy, score, 0)) // np.maximum(number, 1)
        return np.where(number > 0, number * _UNIT + liked, 0)

    def _weights_of_shares(
        self, score: Int64Array, available: Int64Array, least_groups: int, demand: ReplicaDemand
    ) -> Int64Array:
        # Karmada divides by the least number of groups even if it is 0, and what it gets counts for nothing.
        share = ceil(demand.replicas / least_groups) if least_groups else 0
        least_clusters = max(demand.least_clusters, least_groups)
        room, liked = self._running_sums(available), self._running_sums(score)
        nth = np.arange(1, len(score) + 1) - np.repeat(self._starts, self.sizes)
        # How long the shortest run of best clusters is that has the clusters and the room wanted.
        suffices = (nth >= least_clusters) & (room >= share)
        used = np.minimum.reduceat(np.where(suffices, nth, len(score)), self._starts)
        used = np.minimum(used, self.sizes)
        last = self._starts + self.sizes - 1
        return np.where(
            room[last] < share,
            room[last] * _UNIT + liked[last] // self.sizes,
            share * _UNIT + liked[self._starts + used - 1] // used,
        )

    def sums(self, values: Int64Array) -> Int64Array:
        """Domain -> the sum of the values of its clusters, given in the order of `positions`."""
        return np.add.reduceat(values, self._starts)

    def _running_sums(self, values: Int64Array) -> Int64Array:
        """Within each group, the sum of each value and those before it."""
        sums = np.cumsum(values)
        return sums - np.repeat(sums[self._starts] - values[self._starts], self.sizes)
