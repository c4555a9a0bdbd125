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


class _Topology:
    """A limit, and which of the clusters in order are in which domain.

    Attributes:
        bounded: Whether the maximum can be exceeded at all.
        covered: The domains of the clusters that are chosen.
    """

    def __init__(self, limit: SpreadLimit, inside: BoolArray) -> None:
        self.limit = limit
        self.inside = inside
        self.bounded = limit.most < int(inside.any(axis=0).sum())
        self.covered: BoolArray = np.zeros(inside.shape[1], dtype=np.bool_)

    @property
    def missing(self) -> int:
        """How many domains more the chosen clusters have to cover."""
        return max(self.limit.least - int(self.covered.sum()), 0)

    def within(self) -> BoolArray:
        """Which clusters may be chosen, too."""
        number: Int64Array = (self.inside | self.covered).sum(axis=1)
        return number <= self.limit.most

    def gain(self) -> Int64Array:
        """How many missing domains each cluster would add."""
        added: Int64Array = (self.inside & ~self.covered).sum(axis=1)
        return np.minimum(added, self.missing)


def select_by_cover(
    ranking: ClusterSelection,
    limits: Sequence[SpreadLimit],
    cluster_limit: SpreadLimit,
    demand: ReplicaDemand,
) -> IndexArray:
    """Positions of the selected clusters in the ranking."""
    limited = []
    eligible = np.ones(len(ranking), dtype=np.bool_)
    for limit in limits:
        inside = limit.domains(ranking.clusters).inside[ranking.slots]
        limited.append((limit, inside))
        eligible &= inside.any(axis=1)
        if int(inside.any(axis=0).sum()) < limit.least:
            raise too_few(limit.topology)
    if not demand.duplicated:
        for limit in limits:
            _check_room(ranking, limit, cluster_limit, demand.replicas)
    failure = PlacementError(SCHEDULER_ERROR, NO_COMBINATION)
    exchanges = _EXCHANGES
    for order, start in _orders(ranking, limits, cluster_limit, demand):
        attempt = _Attempt(limited, order[eligible[order]], cluster_limit)
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
        self, limited: list[tuple[SpreadLimit, BoolArray]], order: IndexArray, cluster_limit: SpreadLimit
    ) -> None:
        self.chosen: list[int] = []
        self._order = order
        self._topologies = [_Topology(limit, inside[order]) for limit, inside in limited]
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
        while any(topology.missing for topology in self._topologies):
            if len(self.chosen) >= self._most:
                return False
            gain: Int64Array = np.sum([t.gain() for t in self._topologies if t.missing], axis=0)
            gain[~self._allowed()] = 0
            best = int(gain.argmax()) if len(gain) else 0
            if not len(gain) or not gain[best]:
                return False
            self._choose(best)
        return True

    def fill(self) -> None:
        """Choose the next clusters in order, up to the maximum."""
        if not any(topology.bounded for topology in self._topologies):
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
        for topology in self._topologies:
            new = new or bool((topology.inside[index] & ~topology.covered).any())
            topology.covered |= topology.inside[index]
        return new

    def _allowed(self) -> BoolArray:
        allowed = self._left.copy()
        for topology in self._topologies:
            if topology.bounded:
                allowed &= topology.within()
        return allowed
