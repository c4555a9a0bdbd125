"""Deciding one binding: which clusters are feasible, which of them are taken, how many replicas each gets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array
from berth.fleet.placement.assignment import assign
from berth.fleet.rules import PEER_RULES, RULES
from berth.fleet.rules.base import ClusterVerdict, PlacementQuery
from berth.fleet.rules.workload_affinity import founding
from berth.fleet.selection.ranking import ClusterSelection
from berth.fleet.selection.select import select
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import NO_CLUSTER_FIT, PlacementError
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import reschedule_required
from berth.fleet.state.terms import WorkloadRule
from berth.kube.karmada import Binding, TargetCluster

# Of those in the way so many are named.
_NAMED = 3


@dataclass(slots=True)
class PlacementAttempt:
    """One try to place a binding: with its only cluster affinity, or with one term of several.

    Attributes:
        feasible: The clusters no rule rejects.
        verdicts: What each rule rejects, in the order of the rules.
        score: Slot -> how well each is liked; None if it did not come to that.
        selection: The clusters taken; None if it did not come to that.
        targets: The outcome; None if it failed, and then `error` says why.
        founding: Affinity rules of which no peer is placed yet.
    """

    affinity_name: str
    feasible: BoolArray
    verdicts: list[tuple[str, ClusterVerdict]]
    score: Int64Array | None = None
    selection: ClusterSelection | None = None
    targets: list[TargetCluster] | None = None
    error: PlacementError | None = None
    founding: list[WorkloadRule] = field(default_factory=list)

    def reasons(self, slot: int) -> list[str]:
        """Everything that speaks against a cluster, one reason a rule."""
        found: dict[str, str] = {}
        for rule, verdict in self.verdicts:
            if rule not in found and verdict.rejected[slot]:
                found[rule] = verdict.why(slot)
        return list(found.values())

    def first_verdict(self, slot: int) -> ClusterVerdict:
        return next(verdict for _, verdict in self.verdicts if verdict.rejected[slot])


@dataclass(slots=True)
class PlacementDecision:
    """What is to become of a binding.

    Attributes:
        attempts: Every term tried, in order.
        decisive: The attempt that succeeded, or else the first one.
    """

    attempts: list[PlacementAttempt]
    decisive: PlacementAttempt

    @property
    def targets(self) -> list[TargetCluster] | None:
        return self.decisive.targets

    @property
    def error(self) -> PlacementError | None:
        return self.decisive.error

    def kept(self, binding: Binding, clusters: Clusters, options: FleetOptions) -> list[TargetCluster]:
        """The clusters that a binding keeps though it could not be placed.

        For want of room it keeps all.  If every cluster is refused it keeps those that only other workloads
        speak against, and none in Karmada's way: what cluster affinity no longer matches is left.
        """
        targets = list(binding.spec.clusters or ())
        if self.error is None or self.error.reason != NO_CLUSTER_FIT:
            return targets
        if not options.keep_when_unfit:
            return []
        return [target for target in targets if self._may_stay(clusters, clusters.slot_of.get(target.name))]

    def _may_stay(self, clusters: Clusters, slot: int | None) -> bool:
        if slot is None or not clusters.exists[slot]:
            return True  # who cleans up after a cluster needs to know who was there
        return any(
            all(rule in PEER_RULES for rule, verdict in attempt.verdicts if verdict.rejected[slot])
            for attempt in self.attempts
        )


def decide(query: PlacementQuery) -> PlacementDecision:
    """Try the placement, or the terms of its cluster affinities from the one observed last."""
    attempts: list[PlacementAttempt] = []
    for name in _affinity_names(query):
        attempt = _attempt(replace(query, affinity_name=name))
        attempts.append(attempt)
        if attempt.error is None:
            return PlacementDecision(attempts, attempt)
    return PlacementDecision(attempts, attempts[0])


def _affinity_names(query: PlacementQuery) -> list[str]:
    observed = query.binding.status.scheduler_observing_affinity_name or ""
    names = [term.affinity_name or "" for term in query.placement.cluster_affinities or ()]
    if not names:
        return [observed]
    if observed and observed in names and not reschedule_required(query.binding):
        return names[names.index(observed) :]
    return names


def _attempt(query: PlacementQuery) -> PlacementAttempt:
    verdicts = [(rule.name, verdict) for rule in RULES for verdict in rule.verdicts(query)]
    feasible = query.clusters.schedulable
    for _, verdict in verdicts:
        feasible &= ~verdict.rejected
    attempt = PlacementAttempt(query.affinity_name, feasible, verdicts)
    if not feasible.any():
        attempt.error = PlacementError(NO_CLUSTER_FIT, _no_cluster(query.clusters, attempt))
        return attempt
    attempt.score = _score(query)
    try:
        attempt.selection = select(
            query.clusters, feasible, attempt.score, query.binding, query.affinity_name, query.options
        )
        attempt.targets = assign(attempt.selection, query.binding, query.affinity_name, query.options)
        attempt.founding = founding(query)
    except PlacementError as error:
        attempt.error = error
    return attempt


def _score(query: PlacementQuery) -> Int64Array:
    total = np.zeros(query.clusters.size, dtype=np.int64)
    for rule in RULES:
        score = rule.score(query)
        if score is not None:
            total += score
    return total


def _no_cluster(clusters: Clusters, attempt: PlacementAttempt) -> str:
    """How many clusters each reason keeps out, with a few of the peers that are the cause."""
    slots = [int(slot) for slot in np.flatnonzero(clusters.schedulable)]
    counts: Counter[str] = Counter()
    peers: dict[str, dict[str, None]] = {}
    for slot in slots:
        verdict = attempt.first_verdict(slot)
        reason = verdict.reason(slot)
        counts[reason] += 1
        named = peers.setdefault(reason, {})
        if verdict.peer is not None and len(named) <= _NAMED:
            named[verdict.peer(slot)] = None
    said = sorted(f"{number} {reason}{_some(peers[reason])}" for reason, number in counts.items())
    return f"0/{clusters.number} clusters are available: {', '.join(said or ['no cluster exists'])}."


def _some(names: Iterable[str]) -> str:
    known = [name for name in names if name]
    more = ", …" if len(known) > _NAMED else ""
    return f" ({', '.join(known[:_NAMED])}{more})" if known else ""
