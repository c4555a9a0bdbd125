"""Why a binding goes where it goes: every cluster with every reason, what is broken, and what would help."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
from msgspec.structs import replace

from berth.engine.state.columns import Int64Array
from berth.fleet.offline.simulation import PLACED, STAYS, SUSPENDED, FleetSimulation, FleetWorkload
from berth.fleet.placement.fleet import Fleet, PlacementAttempt, PlacementDecision
from berth.fleet.selection.estimation import UNLIMITED, estimate
from berth.fleet.state.cluster_affinity import domains_of
from berth.fleet.state.terms import CLUSTER, WorkloadRules, topology_of
from berth.kube.amounts.quantity import QuantityError
from berth.kube.karmada import (
    Binding,
    Placement,
    TargetCluster,
    WorkloadAffinity,
    WorkloadAntiAffinity,
    WorkloadTerm,
)
from berth.kube.objects import Key, Toleration
from berth.kube.selectors import parse_label_selector
from berth.kube.taints import described, untolerated
from berth.kube.well_known import UNSCHEDULABLE

FITS, DOES_NOT_FIT = "Fits", "DoesNotFit"


@dataclass(frozen=True, slots=True)
class ClusterRuleVerdict:
    rule: str
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterExplanation:
    """One cluster.

    Attributes:
        feasible: No rule refuses it.
        selected: It was selected to be assigned replicas.
        replicas: What it gets; None if it gets nothing.
        current: What it has now; None if the binding is not there.
        score: Its score; None if it was not scored.
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
    verdicts: tuple[ClusterRuleVerdict, ...] = ()


@dataclass(slots=True)
class FleetExplanation:
    """Why a workload goes where it goes, or nowhere.

    Attributes:
        state: `RUNS`, `FITS`, `DOES_NOT_FIT`, or `SUSPENDED`.
        reason: The class of the failure, as in the Scheduled condition; None if it fits.
        attempts: The names of the cluster affinities tried, with the message of each that failed.
        broken: The rules that are broken where it is now, in words.
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
    """Explain the decision about the workload at which the simulation was stopped."""
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
                verdicts=_refused_by(fleet, attempt, slot),
            )
        )
    there = {each.name for each in found}
    missing = ClusterRuleVerdict("Cluster", "there is no such cluster")
    found += [
        ClusterExplanation(name, current=replicas, verdicts=(missing,))
        for name, replicas in current.items()
        if name not in there
    ]
    return sorted(found, key=_rank)


def _rank(verdict: ClusterExplanation) -> tuple[object, ...]:
    """The order of clusters: those that get replicas, then the other feasible ones, then the rest."""
    return (verdict.replicas is None, not verdict.selected, not verdict.feasible, -(verdict.score or 0))


def _refused_by(fleet: Fleet, attempt: PlacementAttempt, slot: int) -> tuple[ClusterRuleVerdict, ...]:
    found = [(rule, verdict.why(slot)) for rule, verdict in attempt.refusals(slot)]
    if fleet.clusters.deleting[slot]:
        found.insert(0, ("Cluster", "the cluster is being deleted"))
    return tuple(ClusterRuleVerdict(*each) for each in dict.fromkeys(found))


def _room(fleet: Fleet, binding: Binding) -> Int64Array | None:
    try:
        return estimate(fleet.clusters, binding)
    except QuantityError:
        return None


# --- what would help ------------------------------------------------------------------------------
# Single changes after which a binding would fit, each tried out before it is named.

_MOST, _PEERS = 200, 20  # changes that are tried, and peers whose rules are taken away for a try


@dataclass(frozen=True, slots=True)
class FleetRelaxation:
    """A change that would help.

    Attributes:
        change: What would have to be different, in words.
        clusters: Where the binding would go then.
        fits: How many clusters would be feasible.
    """

    change: str
    clusters: tuple[str, ...]
    fits: int

    @property
    def sentence(self) -> str:
        where = ", ".join(self.clusters) or "no cluster"
        number = f"{self.fits} cluster{'s' if self.fits != 1 else ''}"
        return f"{self.change} it would fit on {number} and go to {where}"


_Change = tuple[str, dict[Key, Binding]]


def relaxations(
    fleet: Fleet, workload: FleetWorkload, workloads: Iterable[FleetWorkload]
) -> list[FleetRelaxation]:
    """The single changes that were tried and let the workload fit, among them changes of a peer's rules."""
    known = {w.key: w for w in workloads}
    found: list[FleetRelaxation] = []
    for change, variants in islice(_variants(fleet, workload), _MOST):
        before = {key: fleet.known(key).binding for key in variants}
        try:
            for key, binding in variants.items():
                fleet.set_binding(key, binding, known[key].labels)
            decision = fleet.decide(workload.key)
        finally:
            for key, binding in before.items():
                fleet.set_binding(key, binding, known[key].labels, known[key].annotations)
        if decision.targets is not None:
            names = tuple(target.name for target in decision.targets)
            found.append(FleetRelaxation(change, names, int(decision.decisive.feasible.sum())))
    return found


def _plain(fleet: Fleet, key: Key) -> Binding:
    """The binding with the rules of its annotations in its placement, and without the annotations."""
    known = fleet.known(key)
    spec = replace(known.binding.spec, placement=known.placement)
    return replace(known.binding, metadata=replace(known.binding.metadata, annotations=None), spec=spec)


def _variants(fleet: Fleet, workload: FleetWorkload) -> Iterator[_Change]:
    key, binding = workload.key, _plain(fleet, workload.key)
    yield from _apart(fleet, key, binding)
    for change, variant in _alone(fleet, workload, binding):
        yield change, {key: variant}


def _apart(fleet: Fleet, key: Key, binding: Binding) -> Iterator[_Change]:
    """Variants without one anti-affinity term: the workload's own (and its peers'), or that of a peer."""
    own, peers = _terms(binding), _owners(fleet, key)
    for term in own:
        having = {key: binding, **{peer: theirs for peer, theirs in peers.items() if term in _terms(theirs)}}
        variants = {each: _without(variant, term) for each, variant in having.items()}
        yield f"without the anti-affinity to {_spelled(term)}", variants
    for peer, theirs in peers.items():
        if any(term not in own for term in _terms(theirs)):
            words = f"without the anti-affinity of {fleet.known(peer).entry.name}"
            yield words, {peer: _placed(theirs, workload_anti_affinity=None)}


def _owners(fleet: Fleet, key: Key) -> dict[Key, Binding]:
    """Some of the workloads whose anti-affinity selects this one."""
    entry = fleet.known(key).entry
    found: dict[Key, Binding] = {}
    for term, topology, _ in fleet.index.owners(entry.label_set):
        for owner in fleet.index.owners_of(term, topology):
            if owner is not entry and len(found) < _PEERS:
                found[owner.key] = _plain(fleet, owner.key)
    return found


def _without(binding: Binding, term: WorkloadTerm) -> Binding:
    """The binding without an anti-affinity term."""
    rest = [other for other in _terms(binding) if other != term]
    left = replace(_anti_affinity(binding), required_during_scheduling_ignored_during_execution=rest or None)
    return _placed(binding, workload_anti_affinity=left)


def _anti_affinity(binding: Binding) -> WorkloadAntiAffinity:
    return (binding.spec.placement or Placement()).workload_anti_affinity or WorkloadAntiAffinity()


def _terms(binding: Binding) -> list[WorkloadTerm]:
    return _anti_affinity(binding).required_during_scheduling_ignored_during_execution or []


def _alone(fleet: Fleet, workload: FleetWorkload, binding: Binding) -> Iterator[tuple[str, Binding]]:
    """Variants of the binding alone."""
    placement = binding.spec.placement or Placement()
    yield from _without_groups(fleet.known(workload.key).entry.rules, binding, placement)
    near = placement.workload_affinity or WorkloadAffinity()
    terms = near.required_during_scheduling_ignored_during_execution or []
    for i, term in enumerate(terms):
        rest = [*terms[:i], *terms[i + 1 :]]
        left = replace(near, required_during_scheduling_ignored_during_execution=rest or None)
        yield f"without the affinity to {_spelled(term)}", _placed(binding, workload_affinity=left)
    if placement.cluster_affinity is not None:
        yield "without its clusterAffinity", _placed(binding, cluster_affinity=None)
    if placement.cluster_affinities:
        yield "without its clusterAffinities", _placed(binding, cluster_affinities=None)
    for i, constraint in enumerate(placement.spread_constraints or ()):
        by = constraint.spread_by_label or constraint.spread_by_field or CLUSTER
        others = [c for j, c in enumerate(placement.spread_constraints or ()) if j != i]
        yield f"without the spread constraint by {by}", _placed(binding, spread_constraints=others or None)
    yield from _with_tolerations(fleet, binding, placement)
    yield from _with_fewer_replicas(workload, binding)


def _without_groups(
    rules: WorkloadRules, binding: Binding, placement: Placement
) -> Iterator[tuple[str, Binding]]:
    """Variants without one of Karmada's groups, which the binding names and the placement makes a rule of."""
    groups, terms = binding.spec.workload_affinity_groups, placement.workload_affinity
    for name in ("affinity", "anti_affinity"):
        for rule in getattr(rules, name):
            if rule.group is None:
                continue
            spec = binding.spec
            if groups is not None:
                spec = replace(spec, workload_affinity_groups=replace(groups, **{f"{name}_group": None}))
            if terms is not None:
                changed = replace(placement, workload_affinity=replace(terms, **{name: None}))
                spec = replace(spec, placement=changed)
            yield f"without the {name.replace('_', '-')} group {rule.group}", replace(binding, spec=spec)


def _spelled(term: WorkloadTerm) -> str:
    topology = topology_of(term.topology_key)
    where = "" if topology == CLUSTER else f" by {topology}"
    if term.affinity_enabled:
        return f"workloads with the same labels{where}"
    keys = f" with the same {', '.join(term.match_label_keys)}" if term.match_label_keys else ""
    return f"workloads {parse_label_selector(term.label_selector)}{keys}{where}"


def _with_tolerations(fleet: Fleet, binding: Binding, placement: Placement) -> Iterator[tuple[str, Binding]]:
    tolerations = placement.cluster_tolerations or []
    given = [taint for view in fleet.clusters.views if view is not None for taint in view.spec.taints or ()]
    for words, taint in {described(taint): taint for taint in untolerated(tolerations, given)}.items():
        operator = "Equal" if taint.value else "Exists"
        added = Toleration(key=taint.key, operator=operator, value=taint.value or None, effect=taint.effect)
        changed = _placed(binding, cluster_tolerations=[*tolerations, added])
        yield f"with a toleration for the taint {words}", changed


def _with_fewer_replicas(workload: FleetWorkload, binding: Binding) -> Iterator[tuple[str, Binding]]:
    """The binding with as many replicas as there is room for, if room is what it lacks."""
    decision = workload.decision
    if decision is None or decision.error is None or decision.error.reason != UNSCHEDULABLE:
        return
    selection = decision.decisive.selection
    room = int(np.minimum(selection.available, 2**31).sum()) if selection is not None else 0
    if 0 < room < (binding.spec.replicas or 0):
        yield f"with at most {room} replicas", replace(binding, spec=replace(binding.spec, replicas=room))


def _placed(binding: Binding, **changes: Any) -> Binding:  # noqa: ANN401 - fields of the placement
    placement = replace(binding.spec.placement or Placement(), **changes)
    return replace(binding, spec=replace(binding.spec, placement=placement))
