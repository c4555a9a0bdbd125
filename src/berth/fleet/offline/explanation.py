"""Why a binding goes where it goes: every cluster with every reason, and what is broken now."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from berth.engine.state.columns import Int64Array
from berth.fleet.offline.relaxations import FleetRelaxation, relaxations
from berth.fleet.offline.simulation import PLACED, STAYS, SUSPENDED, FleetSimulation, FleetWorkload
from berth.fleet.placement.decision import PlacementAttempt, PlacementDecision
from berth.fleet.placement.fleet import Fleet
from berth.fleet.selection.estimation import UNLIMITED, estimate
from berth.fleet.state.topology import domains_of
from berth.kube.amounts.quantity import QuantityError
from berth.kube.karmada import Binding, TargetCluster

FITS, DOES_NOT_FIT = "Fits", "DoesNotFit"


@dataclass(frozen=True, slots=True)
class ClusterRuleVerdict:
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterExplanation:
    """One cluster.

    Attributes:
        feasible: No rule rejects it.
        selected: It was taken before replicas were assigned.
        replicas: What it gets; None if it gets nothing.
        current: What it has now; None if the binding is not there.
        score: How well it is liked; None where it did not come to that.
        room: For how many replicas more it has room; None for any number.
    """

    name: str
    region: str | None = None
    zones: tuple[str, ...] = ()
    feasible: bool = False
    selected: bool = False
    replicas: int | None = None
    current: int | None = None
    score: int | None = None
    room: int | None = None
    rejections: tuple[ClusterRuleVerdict, ...] = ()


@dataclass(slots=True)
class FleetExplanation:
    """Why a workload goes where it goes, or nowhere.

    Attributes:
        state: `RUNS`, `FITS`, `DOES_NOT_FIT`, or `SUSPENDED`.
        reason: The class of the failure, as in the Scheduled condition; None if it fits.
        attempts: The names of the cluster affinities tried, with the message of each that failed.
        broken: What does not hold where it is now.
    """

    workload: FleetWorkload
    state: str
    reason: str | None
    message: str
    attempts: list[tuple[str, str | None]]
    clusters: list[ClusterExplanation]
    broken: list[str]
    relaxations: list[FleetRelaxation] = field(default_factory=list)


def explain(simulation: FleetSimulation, workload: FleetWorkload) -> FleetExplanation:
    """The decision about a workload that the simulation was stopped at."""
    fleet = simulation.fleet
    decision = workload.decision or fleet.decide(workload.key)
    error = decision.error
    return FleetExplanation(
        workload=workload,
        state=_state(workload),
        reason=error.reason if error is not None else None,
        message=_message(workload, decision),
        attempts=[
            (attempt.affinity_name, attempt.error.message if attempt.error is not None else None)
            for attempt in decision.attempts
        ],
        clusters=_verdicts(fleet, workload.binding, decision),
        broken=fleet.violations(workload.key) if workload.binding.spec.clusters else [],
        relaxations=relaxations(fleet, workload, simulation.workloads) if error is not None else [],
    )


def _state(workload: FleetWorkload) -> str:
    if workload.state == SUSPENDED:
        return SUSPENDED
    if workload.binding.spec.clusters:
        return PLACED
    return FITS if workload.state in (PLACED, STAYS) else DOES_NOT_FIT


def _message(workload: FleetWorkload, decision: PlacementDecision) -> str:
    if workload.state == SUSPENDED:
        return "Its scheduling is suspended (spec.suspension.scheduling)."
    if decision.error is not None:
        return decision.error.message
    bare = not workload.binding.spec.replicas
    told = spelled(decision.targets or (), bare=bare) or "no cluster"
    if not workload.binding.spec.clusters:
        return f"It goes to {told}."
    now = spelled(workload.binding.spec.clusters, bare=bare)
    if now == told:
        return f"It is on {now}."
    return f"It is on {now}; scheduled now it would be on {told}."


def spelled(targets: Iterable[TargetCluster], *, bare: bool) -> str:
    """Clusters with the replicas of each; without replicas there is only a name to tell."""
    return ", ".join(target.name if bare else f"{target.name}:{target.replicas}" for target in targets)


def _verdicts(fleet: Fleet, binding: Binding, decision: PlacementDecision) -> list[ClusterExplanation]:
    attempt = decision.decisive
    selected = set(attempt.selection.names) if attempt.selection is not None else set()
    targets = {t.name: t.replicas for t in decision.targets or ()}
    current = {t.name: t.replicas for t in binding.spec.clusters or ()}
    room = _room(fleet, binding)
    found = []
    for slot in np.flatnonzero(fleet.clusters.exists).tolist():
        view, name = fleet.clusters.views[slot], fleet.clusters.names[slot]
        if view is None:
            continue
        feasible = bool(attempt.feasible[slot])
        free = None if room is None else int(room[slot])
        found.append(
            ClusterExplanation(
                name=name,
                region=view.spec.region,
                zones=tuple(domains_of(view, "zone")),
                feasible=feasible,
                selected=name in selected,
                replicas=targets.get(name),
                current=current.get(name),
                score=int(attempt.score[slot]) if feasible and attempt.score is not None else None,
                room=None if free is None or free >= UNLIMITED else free,
                rejections=_rejections(fleet, attempt, slot),
            )
        )
    found += [_gone(name, replicas) for name, replicas in current.items() if not _exists(fleet, name)]
    return sorted(found, key=_rank)


def _rank(verdict: ClusterExplanation) -> tuple[object, ...]:
    """Those that get something first, then the other feasible ones, then the rest."""
    return (verdict.replicas is None, not verdict.selected, not verdict.feasible, -(verdict.score or 0))


def _rejections(fleet: Fleet, attempt: PlacementAttempt, slot: int) -> tuple[ClusterRuleVerdict, ...]:
    found: dict[ClusterRuleVerdict, None] = {}
    if fleet.clusters.deleting[slot]:
        found[ClusterRuleVerdict("Cluster", "the cluster is being deleted")] = None
    for rule, verdict in attempt.verdicts:
        if verdict.rejected[slot]:
            found[ClusterRuleVerdict(rule, verdict.why(slot))] = None
    return tuple(found)


def _exists(fleet: Fleet, name: str) -> bool:
    slot = fleet.clusters.slot_of.get(name)
    return slot is not None and bool(fleet.clusters.exists[slot])


def _gone(name: str, replicas: int) -> ClusterExplanation:
    """A cluster that the binding names though there is none of that name."""
    missing = (ClusterRuleVerdict("Cluster", "there is no such cluster"),)
    return ClusterExplanation(name, current=replicas, rejections=missing)


def _room(fleet: Fleet, binding: Binding) -> Int64Array | None:
    try:
        return estimate(fleet.clusters, binding)
    except QuantityError:
        return None
