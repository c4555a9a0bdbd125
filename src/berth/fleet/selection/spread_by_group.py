"""Selecting clusters from so many regions: first the regions, then the best cluster of each, then others.

Karmada does this for regions only; here it works for every topology in which a cluster has one domain.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection, in_order
from berth.fleet.state.cluster_affinity import Domains, domains
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import PlacementError
from berth.kube.karmada import SpreadConstraint
from berth.kube.well_known import SCHEDULER_ERROR

# --- limits ---------------------------------------------------------------------------------------
# How many domains (regions, zones, providers, values of a label) the selected clusters are to be in.

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SpreadLimit:
    """How many domains of a topology are selected.

    Attributes:
        topology: "cluster", "region", "zone", "provider", or a cluster label if `label` is set.
    """

    topology: str
    least: int
    most: int
    label: bool = False

    def domains(self, clusters: Clusters) -> Domains:
        return domains(clusters, self.topology, label=self.label)


ANY_NUMBER = SpreadLimit("cluster", 0, _NO_LIMIT)


def karmadas_limits(constraints: Iterable[SpreadConstraint]) -> dict[str, SpreadLimit]:
    """By field and as written: no maximum is a maximum of 0, and spreading by label is not understood."""
    return {
        c.spread_by_field or "": SpreadLimit(c.spread_by_field or "", c.min_groups or 0, c.max_groups or 0)
        for c in constraints
    }


def limits(constraints: Iterable[SpreadConstraint]) -> dict[str, SpreadLimit]:
    """By topology: one domain at least, and no maximum unless there is one.

    A constraint that names neither field nor label is about clusters.
    """
    found = {}
    for c in constraints:
        topology = c.spread_by_field or c.spread_by_label or "cluster"
        label = not c.spread_by_field and bool(c.spread_by_label)
        found[topology] = SpreadLimit(topology, c.min_groups or 1, c.max_groups or _NO_LIMIT, label)
    return found


# --- groups ---------------------------------------------------------------------------------------

TOO_FEW_CLUSTERS = "the number of clusters is less than the cluster spreadConstraint.MinGroups"
# A replica, or a cluster with room, is worth more than any score, which is 100 at most in Karmada.
_UNIT = 1000


@dataclass(frozen=True, slots=True)
class ReplicaDemand:
    """The replicas by which groups of clusters are weighed.

    Attributes:
        replicas: How many there are.
        duplicated: Whether each cluster needs room for all of them.
    """

    replicas: int
    duplicated: bool


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
    weights = members.weights(ranking, limit, cluster_limit, demand).tolist()
    described = zip(members.names, members.sizes.tolist(), weights, range(len(weights)), strict=True)
    groups = [SpreadGroup(*each) for each in described]
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
        found = limit.domains(ranking.clusters)
        columns, positions = found.inside[ranking.slots].T.nonzero()
        self.positions: IndexArray = positions
        self._starts: IndexArray = np.flatnonzero(np.diff(columns, prepend=-1))
        self.sizes: IndexArray = np.diff(self._starts, append=len(positions))
        self.names = [found.names[column] for column in columns[self._starts].tolist()]

    def positions_of(self, index: int) -> IndexArray:
        start = self._starts[index]
        return self.positions[start : start + self.sizes[index]]

    def weights(
        self, ranking: ClusterSelection, limit: SpreadLimit, cluster_limit: SpreadLimit, demand: ReplicaDemand
    ) -> Int64Array:
        """The weight of each group: how many of the replicas it has room for, then its score."""
        if not self.names:
            return np.zeros(0, dtype=np.int64)
        score, available = ranking.score[self.positions], ranking.available[self.positions]
        if not demand.duplicated:
            least_clusters = max(cluster_limit.least, limit.least)
            # Karmada divides by the least number of groups even if it is 0; what it gets counts for nothing.
            share = ceil(demand.replicas / limit.least) if limit.least else 0
            return self._weights_of_shares(score, available, least_clusters, share)
        roomy = available >= demand.replicas
        number = self.sums(roomy.astype(np.int64))
        liked = self.sums(np.where(roomy, score, 0)) // np.maximum(number, 1)
        return np.where(number > 0, number * _UNIT + liked, 0)

    def _weights_of_shares(
        self, score: Int64Array, available: Int64Array, least_clusters: int, share: int
    ) -> Int64Array:
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


# --- which groups ---------------------------------------------------------------------------------
# Karmada searches all combinations of groups, from the smallest group to the largest, each only until it
# suffices.  Of the combinations found the heaviest is best, then the one with the most clusters, then the
# first found; but if the heaviest groups of it were found by themselves as well, the fewest of them that
# were.  `best_groups` gives the same answer by dynamic programming, because the number of combinations
# grows without bounds.

_IMPOSSIBLE = -(2**62)
# Beyond this many states, or with weights beyond an int64, groups are taken by weight alone: it takes many
# hundreds of groups to get there, and Karmada does not.
_MAX_STATES = 50_000_000


@dataclass(frozen=True, slots=True)
class SpreadGroup:
    name: str
    clusters: int
    weight: int
    index: int = 0  # of the caller


def best_groups(groups: Sequence[SpreadGroup], least: int, most: int, clusters: int) -> list[SpreadGroup]:
    """From `least` to `most` groups with so many `clusters` at least, the heaviest first; none if none do."""
    search = _Search(
        sorted(groups, key=lambda g: (g.clusters, -g.weight, g.name)), least, min(most, len(groups)), clusters
    )
    found = search.best()
    found.sort(key=_heaviest_first)
    for length in range(1, len(found)):
        if search.would_find(found[:length]):
            return found[:length]
    return found


def _heaviest_first(group: SpreadGroup) -> tuple[int, str]:
    return (-group.weight, group.name)


class _Search:
    """A state is how many groups were taken and how many clusters they have, both as far as they matter."""

    def __init__(self, groups: list[SpreadGroup], least: int, most: int, clusters: int) -> None:
        self._groups = groups
        self._least, self._most, self._clusters = least, most, clusters
        # If all may be taken, it does not matter by how many more than the least.
        self._most_counted = max(least, 0) if most >= len(groups) else most

    def best(self) -> list[SpreadGroup]:
        least, most, wanted = self._least, self._most, max(self._clusters, 0)
        groups, counted = self._groups, self._most_counted
        if most <= 0 or least > most or (least <= 0 and wanted == 0):
            return []
        # Weight and clusters in one number, so that the heavier is greater, then the one with more clusters.
        unit = 1 + sum(group.clusters for group in groups)
        heaviest = unit * (1 + sum(abs(group.weight) for group in groups))
        if len(groups) * (counted + 1) * (wanted + 1) > _MAX_STATES or heaviest > -_IMPOSSIBLE // 2:
            return self._first_to_suffice(sorted(groups, key=_heaviest_first)[:most])
        taken, clusters = (a.ravel() for a in np.indices((counted + 1, wanted + 1)))
        done: BoolArray = (taken >= least) & (clusters >= wanted)
        may_take = ~done & ((taken < counted) | (counted != most))
        next_taken = np.minimum(taken + 1, counted) * (wanted + 1)
        best = np.where(done, 0, _IMPOSSIBLE)
        after = {
            size: next_taken + np.minimum(clusters + size, wanted) for size in {g.clusters for g in groups}
        }
        choices: list[BoolArray] = []
        for group in reversed(groups):
            with_it = best[after[group.clusters]] + (group.weight * unit + group.clusters)
            # Of equals the first found is the one that has this group.
            taking = may_take & (with_it > _IMPOSSIBLE // 2) & (with_it >= best)
            best = np.where(taking, with_it, best)
            choices.append(taking)
        return self._follow(choices[::-1])

    def _follow(self, choices: list[BoolArray]) -> list[SpreadGroup]:
        wanted = max(self._clusters, 0)
        taken, clusters = 0, 0
        found = []
        for group, choice in zip(self._groups, choices, strict=True):
            if choice[min(taken, self._most_counted) * (wanted + 1) + min(clusters, wanted)]:
                found.append(group)
                taken, clusters = taken + 1, clusters + group.clusters
        return found if self._suffices(taken, clusters) else []

    def would_find(self, groups: list[SpreadGroup]) -> bool:
        """Whether the search ends with exactly these groups, and not with fewer of them."""
        chosen = set(groups)
        ordered = [group for group in self._groups if group in chosen]
        return self._first_to_suffice(ordered) == ordered

    def _first_to_suffice(self, groups: list[SpreadGroup]) -> list[SpreadGroup]:
        """As many of these groups, from the first on, as suffice; none if not even all do."""
        clusters = 0
        for taken, group in enumerate(groups, start=1):
            clusters += group.clusters
            if self._suffices(taken, clusters):
                return groups[:taken]
        return []

    def _suffices(self, taken: int, clusters: int) -> bool:
        return clusters >= self._clusters and self._least <= taken <= self._most
