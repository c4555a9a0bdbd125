"""Deciding one binding: which clusters are feasible, which of them are taken, how many replicas each gets."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.assignment import assign
from berth.fleet.errors import NO_CLUSTER_FIT, PlacementError
from berth.fleet.rules import RULES
from berth.fleet.rules.workload_affinity import founding
from berth.fleet.selection import Selection, select
from berth.fleet.times import reschedule_required

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.engine.state.arrays import BoolArray, Int64Array
    from berth.fleet.clusters import Clusters
    from berth.fleet.rules.base import Ask, Objection
    from berth.fleet.terms import WorkloadRule
    from berth.kube.karmada import TargetCluster

# Of those in the way so many are named.
_NAMED = 3


@dataclass(slots=True)
class Attempt:
    """One try to place a binding: with its only cluster affinity, or with one term of several.

    Attributes:
        feasible: The clusters no rule rejects.
        objections: What each rule rejects, in the order of the rules.
        score: Slot -> how well each is liked; None if it did not come to that.
        selection: The clusters taken; None if it did not come to that.
        targets: The outcome; None if it failed, and then `error` says why.
        founding: Affinity rules of which no peer is placed yet.
    """

    affinity_name: str
    feasible: BoolArray
    objections: list[tuple[str, Objection]]
    score: Int64Array | None = None
    selection: Selection | None = None
    targets: list[TargetCluster] | None = None
    error: PlacementError | None = None
    founding: list[WorkloadRule] = field(default_factory=list)

    def reasons(self, slot: int) -> list[str]:
        """Everything that speaks against a cluster, one reason a rule."""
        found: dict[str, str] = {}
        for rule, objection in self.objections:
            if rule not in found and objection.rejected[slot]:
                found[rule] = objection.why(slot)
        return list(found.values())

    def first_objection(self, slot: int) -> Objection:
        return next(objection for _, objection in self.objections if objection.rejected[slot])


@dataclass(slots=True)
class Decision:
    """What is to become of a binding.

    Attributes:
        attempts: Every term tried, in order.
        decisive: The attempt that succeeded, or else the first one.
    """

    attempts: list[Attempt]
    decisive: Attempt

    @property
    def targets(self) -> list[TargetCluster] | None:
        return self.decisive.targets

    @property
    def error(self) -> PlacementError | None:
        return self.decisive.error


def decide(ask: Ask) -> Decision:
    """Try the placement, or the terms of its cluster affinities from the one observed last."""
    attempts: list[Attempt] = []
    for name in _affinity_names(ask):
        attempt = _attempt(replace(ask, affinity_name=name))
        attempts.append(attempt)
        if attempt.error is None:
            return Decision(attempts, attempt)
    return Decision(attempts, attempts[0])


def _affinity_names(ask: Ask) -> list[str]:
    terms = ask.placement.cluster_affinities
    if not terms:
        return [ask.binding.status.scheduler_observing_affinity_name or ""]
    names = [term.affinity_name or "" for term in terms]
    observed = ask.binding.status.scheduler_observing_affinity_name or ""
    if observed and observed in names and not reschedule_required(ask.binding):
        return names[names.index(observed) :]
    return names


def _attempt(ask: Ask) -> Attempt:
    objections = [(rule.name, objection) for rule in RULES for objection in rule.objections(ask)]
    feasible = ask.clusters.schedulable
    for _, objection in objections:
        feasible &= ~objection.rejected
    attempt = Attempt(ask.affinity_name, feasible, objections)
    if not feasible.any():
        attempt.error = PlacementError(NO_CLUSTER_FIT, _no_cluster(ask.clusters, attempt))
        return attempt
    attempt.score = _score(ask)
    try:
        attempt.selection = select(
            ask.clusters, feasible, attempt.score, ask.binding, ask.affinity_name, ask.options
        )
        attempt.targets = assign(attempt.selection, ask.binding, ask.affinity_name, ask.options)
        attempt.founding = founding(ask)
    except PlacementError as error:
        attempt.error = error
    return attempt


def _score(ask: Ask) -> Int64Array:
    total = np.zeros(ask.clusters.size, dtype=np.int64)
    for rule in RULES:
        score = rule.score(ask)
        if score is not None:
            total += score
    return total


def _no_cluster(clusters: Clusters, attempt: Attempt) -> str:
    """How many clusters each reason keeps out, with a few of the peers that are the cause."""
    slots = [int(slot) for slot in np.flatnonzero(clusters.schedulable)]
    counts: Counter[str] = Counter()
    peers: dict[str, dict[str, None]] = {}
    for slot in slots:
        objection = attempt.first_objection(slot)
        reason = objection.reason(slot)
        counts[reason] += 1
        named = peers.setdefault(reason, {})
        if objection.peer is not None and len(named) <= _NAMED:
            named[objection.peer(slot)] = None
    said = sorted(f"{number} {reason}{_some(peers[reason])}" for reason, number in counts.items())
    return f"0/{clusters.number} clusters are available: {', '.join(said or ['no cluster exists'])}."


def _some(names: Iterable[str]) -> str:
    known = [name for name in names if name]
    more = ", …" if len(known) > _NAMED else ""
    return f" ({', '.join(known[:_NAMED])}{more})" if known else ""
