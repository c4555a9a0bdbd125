"""Selecting clusters under several spread constraints, or under one about zones.

Each constraint is about the selected clusters as a whole: together they are in at least `least` and at
most `most` domains of its topology.  Constraints are independent: two regions and three zones may be
any three zones as long as there are two regions.  A cluster in several zones counts for each of them;
one without a domain of some topology is not selected.

No combination of clusters is searched for exhaustively.  Clusters are taken one by one: first those that
cover most of what is missing, then the most preferred ones that break no maximum, up to the greatest
number of clusters; if there is not enough room, the last are exchanged for roomier ones.  This is tried
in several orders: by how well the domains of each topology could bear the replicas, by preference alone,
and by room; then from the best cluster of each domain of the tightest constraint.  The first that
succeeds is the answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection
from berth.fleet.selection.spread_by_group import (
    TOO_FEW_CLUSTERS,
    GroupMembers,
    ReplicaDemand,
    SpreadLimit,
    too_few,
)
from berth.fleet.state.errors import PlacementError
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE

_STARTS = 16
# The most exchanges of clusters that are tried; only hopeless cases need as many.
_EXCHANGES = 256
NO_COMBINATION = "no combination of feasible clusters satisfies all spread constraints"


@dataclass(frozen=True, slots=True)
class _Topology:
    """A limit, and which of the ranked clusters are in which domain."""

    limit: SpreadLimit
    inside: BoolArray

    @property
    def bounded(self) -> bool:
        """Whether the maximum can be exceeded at all."""
        return self.limit.most < int(self.inside.any(axis=0).sum())

    def within(self, covered: BoolArray) -> BoolArray:
        """Which clusters may be added to a selection that covers this."""
        number: Int64Array = (self.inside | covered).sum(axis=1)
        return number <= self.limit.most

    def gain(self, covered: BoolArray) -> Int64Array:
        """How many missing domains each cluster would add."""
        missing = self.limit.least - int(covered.sum())
        if missing <= 0:
            return np.zeros(len(self.inside), dtype=np.int64)
        added: Int64Array = (self.inside & ~covered).sum(axis=1)
        return np.minimum(added, missing)


def select_by_cover(
    ranking: ClusterSelection,
    limits: Sequence[SpreadLimit],
    cluster_limit: SpreadLimit,
    demand: ReplicaDemand,
) -> IndexArray:
    """Positions of the selected clusters in the ranking."""
    topologies = []
    eligible = np.ones(len(ranking), dtype=np.bool_)
    for limit in limits:
        inside = limit.domains(ranking.clusters).inside[ranking.slots]
        topologies.append(_Topology(limit, inside))
        eligible &= inside.any(axis=1)
        if int(inside.any(axis=0).sum()) < limit.least:
            raise too_few(limit.topology)
    if not demand.duplicated:
        for limit in limits:
            _check_room(ranking, limit, cluster_limit, demand.replicas)
    failure = PlacementError(SCHEDULER_ERROR, NO_COMBINATION)
    exchanges = _EXCHANGES
    for order, start in _orders(ranking, limits, cluster_limit, demand):
        attempt = _Attempt(topologies, order[eligible[order]], cluster_limit)
        if not attempt.begin(start) or not attempt.cover():
            continue
        attempt.fill()
        if len(attempt.chosen) < cluster_limit.least:
            failure = PlacementError(SCHEDULER_ERROR, TOO_FEW_CLUSTERS)
        elif demand.duplicated or attempt.make_room(ranking.available, demand.replicas, exchanges):
            return np.array(attempt.chosen, dtype=np.intp)
        else:
            failure = _no_room(len(attempt.chosen))
            exchanges -= len(attempt.chosen)
    raise failure


def _no_room(number: int) -> PlacementError:
    """The error for lack of room, which Karmada finds only when it assigns replicas."""
    return PlacementError(UNSCHEDULABLE, f"no enough resource when selecting {number} clusters")


def _check_room(
    ranking: ClusterSelection, limit: SpreadLimit, cluster_limit: SpreadLimit, replicas: int
) -> None:
    """Raise if not even the roomiest domains and the roomiest clusters have room for the replicas."""
    members = GroupMembers(ranking, limit)
    room = members.sums(ranking.available[members.positions])
    roomiest = np.argsort(-room, kind="stable")[: limit.most]
    number = min(int(members.sizes[roomiest].sum()), cluster_limit.most)
    top = -np.sort(-ranking.available)[:number]
    if min(int(room[roomiest].sum()), int(top.sum())) < replicas:
        raise _no_room(number)


def _orders(
    ranking: ClusterSelection,
    limits: Sequence[SpreadLimit],
    cluster_limit: SpreadLimit,
    demand: ReplicaDemand,
) -> Iterator[tuple[IndexArray, int | None]]:
    """Positions in the order to try them in, and the one to begin with if it is not simply the best."""
    everyone = np.arange(len(ranking))
    for limit in limits:
        weight = np.zeros(len(ranking), dtype=np.int64)
        members = GroupMembers(ranking, limit)
        theirs = members.weights(ranking, limit, cluster_limit, demand)
        np.maximum.at(weight, members.positions, np.repeat(theirs, members.sizes))
        yield np.argsort(-weight, kind="stable"), None
    yield everyone, None
    if not demand.duplicated:
        yield np.argsort(-ranking.available, kind="stable"), None
    tightest = GroupMembers(ranking, min(limits, key=lambda limit: limit.most))
    for start in sorted(int(tightest.positions_of(i)[0]) for i in range(len(tightest.names)))[:_STARTS]:
        yield everyone, start


class _Attempt:
    """One try to choose clusters in a given order.

    Attributes:
        chosen: Positions in the ranking.
    """

    def __init__(
        self, topologies: Sequence[_Topology], order: IndexArray, cluster_limit: SpreadLimit
    ) -> None:
        self.chosen: list[int] = []
        self._order = order
        self._topologies = [_Topology(t.limit, t.inside[order]) for t in topologies]
        self._bounded = [t.bounded for t in self._topologies]
        self._covered = [np.zeros(t.inside.shape[1], dtype=np.bool_) for t in self._topologies]
        self._left = np.ones(len(order), dtype=np.bool_)
        self._most = cluster_limit.most

    def begin(self, start: int | None) -> bool:
        """Choose this cluster first, if it may be."""
        if start is None:
            return True
        allowed = self._allowed() & (self._order == start)
        if not allowed.any():
            return False
        self._choose(int(allowed.argmax()))
        return True

    def cover(self) -> bool:
        """Choose clusters until every constraint has its least number of domains."""
        while any(c.sum() < t.limit.least for t, c in self._with_covered()):
            if len(self.chosen) >= self._most:
                return False
            gain: Int64Array = sum(
                (t.gain(covered) for t, covered in self._with_covered()),
                start=np.zeros(len(self._order), dtype=np.int64),
            )
            gain[~self._allowed()] = 0
            best = int(gain.argmax()) if len(gain) else 0
            if not len(gain) or not gain[best]:
                return False
            self._choose(best)
        return True

    def fill(self) -> None:
        """Choose the next clusters in order, up to the maximum."""
        if not any(self._bounded):
            rest = np.flatnonzero(self._left)[: max(self._most - len(self.chosen), 0)]
            self.chosen += self._order[rest].tolist()
            self._left[rest] = False
            return
        allowed = self._allowed()
        for index in np.flatnonzero(allowed).tolist():
            if len(self.chosen) >= self._most:
                return
            if allowed[index] and self._choose(index):
                allowed = self._allowed()

    def make_room(self, available: Int64Array, replicas: int, exchanges: int) -> bool:
        """Exchange clusters, the last chosen first, until there is room for the replicas."""
        missing = replicas - int(available[self.chosen].sum())
        if missing <= 0:
            return True
        room = available[self._order]
        index_of = {int(position): index for index, position in enumerate(self._order)}
        for place in reversed(range(len(self.chosen))):
            if missing <= 0 or len(self.chosen) - place > exchanges:
                break
            old = index_of[self.chosen[place]]
            gain = np.where(self._exchangeable(old), room - room[old], 0)
            best = int(gain.argmax())
            if gain[best] > 0:
                missing -= int(gain[best])
                self._left[old], self._left[best] = True, False
                self.chosen[place] = int(self._order[best])
        return missing <= 0

    def _exchangeable(self, old: int) -> BoolArray:
        """For which of the others a chosen cluster may be exchanged."""
        may = self._left.copy()
        keeps = ~self._left
        keeps[old] = False
        for topology in self._topologies:
            number = (topology.inside | topology.inside[keeps].any(axis=0)).sum(axis=1)
            may &= (number >= topology.limit.least) & (number <= topology.limit.most)
        return may

    def _choose(self, index: int) -> bool:
        """Take a cluster; say whether it is in a domain that was not covered before."""
        self.chosen.append(int(self._order[index]))
        self._left[index] = False
        new = False
        for number, topology in enumerate(self._topologies):
            covered = self._covered[number] | topology.inside[index]
            new = new or bool((covered != self._covered[number]).any())
            self._covered[number] = covered
        return new

    def _allowed(self) -> BoolArray:
        allowed = self._left.copy()
        for (topology, covered), bounded in zip(self._with_covered(), self._bounded, strict=True):
            if bounded:
                allowed &= topology.within(covered)
        return allowed

    def _with_covered(self) -> list[tuple[_Topology, BoolArray]]:
        return list(zip(self._topologies, self._covered, strict=True))
