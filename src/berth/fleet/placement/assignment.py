"""How many replicas each selected cluster gets.

Targets come in order of preference if they all get the same, and by name if replicas were divided.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from berth.engine.state.columns import BoolArray, FloatArray, IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection, current_replicas, name_ranks
from berth.fleet.state.cluster_affinity import matching, term_named
from berth.fleet.state.errors import PlacementError
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import STATIC_WEIGHT, DivisionStrategy, reschedule_required, strategy_of
from berth.kube.karmada import AGGREGATED, DUPLICATED, Binding, ClusterPreferences, Placement, TargetCluster
from berth.kube.well_known import SCHEDULER_ERROR, UNSCHEDULABLE

NO_CLUSTERS = "no clusters available to schedule"
TOO_LITTLE_ROOM = "Clusters available replicas are not enough to schedule."


def assign(
    selection: ClusterSelection, binding: Binding, affinity_name: str, options: FleetOptions
) -> list[TargetCluster]:
    """The clusters that the binding is placed on, and with how many replicas.

    Raises:
        PlacementError: Nothing is selected, or there is not enough room for the replicas.
    """
    try:
        targets = _assign(selection, binding, affinity_name, options)
    except PlacementError as error:
        raise error.within("failed to assign replicas") from None
    if options.empty_workload_propagation:
        having = {target.name for target in targets}
        targets += [TargetCluster(name=name) for name in selection.names if name not in having]
    return targets


def _assign(
    selection: ClusterSelection, binding: Binding, affinity_name: str, options: FleetOptions
) -> list[TargetCluster]:
    if not len(selection):
        raise PlacementError(SCHEDULER_ERROR, NO_CLUSTERS)
    spec = binding.spec
    replicas = spec.replicas or 0
    if (not replicas and spec.replica_requirements is None) or len(spec.components or ()) > 1:
        return [TargetCluster(name=name) for name in selection.names]
    placement = spec.placement or Placement()
    work = _Work(binding, strategy_of(placement, options))
    one_of_several = affinity_name and placement.cluster_affinity is None
    term = term_named(placement, affinity_name) if one_of_several else None
    if term is None or term.overflow_affinities is None:
        return work.assigned(selection, replicas)
    return _assign_by_tier(work, selection, replicas)


def _assign_by_tier(work: _Work, selection: ClusterSelection, replicas: int) -> list[TargetCluster]:
    """Fill each tier as far as it has room before going on to the next."""
    targets: list[TargetCluster] = []
    left = replicas
    for tier in np.unique(selection.tier):
        clusters = selection.take(selection.tier == tier)
        share = min(left, int(clusters.available.sum()))
        targets += work.assigned(clusters, share)
        left -= share
        if left <= 0:
            return targets
    raise PlacementError(UNSCHEDULABLE, TOO_LITTLE_ROOM)


@dataclass(frozen=True, slots=True)
class _Work:
    """The replicas to divide, and how."""

    binding: Binding
    strategy: DivisionStrategy

    def assigned(self, selection: ClusterSelection, replicas: int) -> list[TargetCluster]:
        kind = self.strategy.kind
        if kind is None:
            raise PlacementError(
                SCHEDULER_ERROR,
                f"unsupported replica scheduling strategy, replicaSchedulingType: {self.strategy.type}, "
                f"replicaDivisionPreference: {self.strategy.preference}, "
                "please try another scheduling strategy",
            )
        if kind == DUPLICATED:
            names = selection.names if replicas > 0 else ()
            return [TargetCluster(name=name, replicas=replicas) for name in names]
        if kind == STATIC_WEIGHT:
            weights = _static_weights(selection, self.strategy.weights)
            return _targets(selection, self._divided(selection, replicas, weights))
        return self._by_room(selection, replicas)

    def _by_room(self, selection: ClusterSelection, replicas: int) -> list[TargetCluster]:
        present = self._present(selection)
        assigned = int(present.sum())
        if reschedule_required(self.binding):
            room = selection.allocatable + present
            return self._spread(selection, replicas, room, np.zeros_like(room), "failed to do fresh scale")
        if assigned > replicas:
            # Ties stay in the order in which they are listed.
            listed = self._as_listed(selection)
            room = self._present(listed)
            return self._spread(listed, replicas, room, np.zeros_like(room), "failed to scale down")
        if assigned < replicas:
            more = replicas - assigned
            return self._spread(selection, more, selection.allocatable, present, "failed to scale up")
        return _targets(selection, present)

    def _present(self, selection: ClusterSelection) -> Int64Array:
        return current_replicas(selection.clusters, self.binding)[selection.slots]

    def _as_listed(self, selection: ClusterSelection) -> ClusterSelection:
        """The selected clusters that are targets already, in the order of `spec.clusters`."""
        place = {slot: position for position, slot in enumerate(selection.slots.tolist())}
        slots = (selection.clusters.slot_of.get(target.name) for target in self.binding.spec.clusters or ())
        listed = dict.fromkeys(place[slot] for slot in slots if slot in place)
        return selection.take(np.fromiter(listed, dtype=np.intp))

    def _spread(
        self, selection: ClusterSelection, replicas: int, room: Int64Array, keep: Int64Array, step: str
    ) -> list[TargetCluster]:
        """Divide replicas in proportion to the room, on top of those to `keep`."""
        total = int(room.sum())
        if total < replicas:
            message = f"{step}: Clusters available replicas {total} are not enough to schedule."
            raise PlacementError(UNSCHEDULABLE, message)
        if self.strategy.kind == AGGREGATED:
            room = np.where(_fewest(replicas, room, keep), room, 0)
        return _targets(selection, self._divided(selection, replicas, room) + keep)

    def _divided(self, selection: ClusterSelection, replicas: int, weights: Int64Array) -> Int64Array:
        ranks = name_ranks(selection.clusters)[selection.slots]
        return divide(replicas, weights, ranks, self.binding.spec.resource.uid or "")


def _fewest(replicas: int, room: Int64Array, keep: Int64Array) -> BoolArray:
    """The clusters that have enough room together: those in use before others, then the roomiest first."""
    order: IndexArray = np.lexsort((-room, keep <= 0))
    number = int(np.searchsorted(np.cumsum(room[order]), replicas)) + 1
    used = np.zeros(len(room), dtype=np.bool_)
    used[order[:number]] = True
    return used


def _static_weights(selection: ClusterSelection, preferences: ClusterPreferences | None) -> Int64Array:
    """For each cluster the greatest weight of a rule that matches; equal weights if no rule matches any."""
    weights = np.zeros(len(selection), dtype=np.int64)
    for rule in (preferences.static_weight_list if preferences is not None else None) or ():
        matched = matching(selection.clusters, rule.target_cluster)[selection.slots]
        weights[matched] = np.maximum(weights[matched], rule.weight or 0)
    return weights if weights.any() else np.ones_like(weights)


def _targets(selection: ClusterSelection, replicas: Int64Array) -> list[TargetCluster]:
    """Those that have replicas, by name."""
    having = np.flatnonzero(replicas > 0)
    slots = selection.slots[having]
    order = np.argsort(name_ranks(selection.clusters)[slots])
    names = selection.clusters.names
    return [
        TargetCluster(name=names[slot], replicas=number)
        for slot, number in zip(slots[order].tolist(), replicas[having][order].tolist(), strict=True)
    ]


# --- division by weight ---------------------------------------------------------------------------
# The Webster (Sainte-Laguë) method, as Karmada applies it.
#
# Replicas are given out one by one, each to the cluster with the greatest ``weight / (2 * replicas + 1)``
# in 64-bit floating point.  Of equals the one with fewer replicas is next, then the one whose name comes
# first, or last if the FNV-1a hash of the resource's UID is odd.
#
# What a cluster is given comes in falling order of that quotient, so the replicas given out are a prefix
# of all quotients in order.  `divide` guesses the quotient at which the prefix ends, counts, and sorts only
# the few that lie about the end.

_FNV_OFFSET, _FNV_PRIME = 0x811C9DC5, 0x01000193


def last_name_first(uid: str) -> bool:
    """Whether ties of the resource with this UID go to the last name instead of the first."""
    digest = _FNV_OFFSET
    for byte in uid.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return bool(uid) and digest & 1 == 1


def divide(replicas: int, weights: Int64Array, name_ranks: Int64Array, uid: str) -> Int64Array:
    """The share of each cluster. All are 0 if no cluster has a weight."""
    shares = np.zeros(len(weights), dtype=np.int64)
    weighty = np.flatnonzero(weights > 0)
    if replicas <= 0 or not len(weighty):
        return shares
    votes = weights[weighty].astype(np.float64)
    # Where the prefix ends if all rounding cancels out: every quota is rounded to the nearest integer.
    end = float(votes.sum()) / (2 * replicas)
    seats = _seats(votes, end)
    surplus = int(seats.sum()) - replicas
    if surplus:
        lower, upper = _bracket(votes, seats, surplus)
        ranks = name_ranks[weighty]
        ranks = -ranks if last_name_first(uid) else ranks
        seats = _first_between(lower, upper, votes, ranks, replicas - int(lower.sum()))
    shares[weighty] = seats
    return shares


def _bracket(votes: FloatArray, seats: Int64Array, surplus: int) -> tuple[Int64Array, Int64Array]:
    """What each cluster has at least and at most, when `seats` are so many too many (or, negative, too few).

    Rounding to the nearest is off by half a replica a cluster at most, so there are that many to choose from.
    """
    if surplus > 0:
        last = np.where(seats > 0, _quotient(votes, seats - 1), np.inf)
        end = np.partition(last, surplus - 1)[surplus - 1]
        return _seats(votes, float(np.nextafter(end, np.inf))), seats
    nearest = _quotient(votes, seats)
    end = np.partition(nearest, surplus)[surplus]
    return seats, _seats(votes, float(end))


def _first_between(
    lower: Int64Array, upper: Int64Array, votes: FloatArray, ranks: Int64Array, number: int
) -> Int64Array:
    """`lower`, and the `number` next replicas given out up to `upper`."""
    extra = upper - lower
    owners = np.repeat(np.arange(len(votes)), extra)
    nth: IndexArray = np.arange(len(owners)) - np.repeat(np.cumsum(extra) - extra, extra)
    having = lower[owners] + nth
    first = np.lexsort((ranks[owners], having, -_quotient(votes[owners], having)))[:number]
    return lower + np.bincount(owners[first], minlength=len(votes))


def _quotient(votes: FloatArray, seats: Int64Array) -> FloatArray:
    return votes / (2 * seats + 1)


def _seats(votes: FloatArray, end: float) -> Int64Array:
    """How many quotients of each cluster are `end` or greater."""
    seats = ((votes / end + 1) / 2).astype(np.int64)
    # Floating point may have put a quotient beside `end` on the wrong side.
    while (short := _quotient(votes, seats) >= end).any():
        seats += short
    while (over := (seats > 0) & (_quotient(votes, seats - 1) < end)).any():
        seats -= over
    return seats
