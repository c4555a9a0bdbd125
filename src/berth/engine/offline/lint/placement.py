"""What placing the pods shows: preemption, evictions without a way out, dropped rules, and pods left over."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import nsmallest

from berth.engine.offline.lint.findings import Hit, Severity, check, hit
from berth.engine.offline.lint.selectors import RequiredTerms, candidates, required_terms
from berth.engine.offline.lint.spread import keeps_own_apart, places
from berth.engine.offline.lint.subjects import DAEMON_SET, Subject
from berth.engine.offline.lint.world import World, subject_check
from berth.engine.offline.simulation import UnplacedPod, simulate
from berth.engine.rules.changes import short
from berth.engine.state.matching import wanted_by
from berth.engine.state.pod_class import Term
from berth.kube.affinity.annotations import IN_SPEC, stated_affinity
from berth.kube.gates import (
    DEFAULT_GATES,
    EVEN_PODS_SPREAD,
    NODE_AFFINITY_EVICTION,
    POD_AFFINITY_EVICTION,
    FeatureGates,
)
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import Pod, PriorityClass
from berth.kube.text.near import near_word
from berth.kube.well_known import REQUIRED_DURING_EXECUTION, UNSCHEDULABLE

_NEVER = "Never"


# --- priorities ------------------------------------------------------------------------------------


def _priority(subject: Subject) -> int | None:
    """None if its class is not known."""
    spec = subject.pod.spec
    return spec.priority if spec.priority is not None or spec.priority_class_name else 0


@subject_check("BERTH120")
def preempts_its_peers(world: World, subject: Subject) -> Iterator[Hit]:
    priorities, priority = world.once(_Priorities), _priority(subject)
    if priority is None or subject.pod.spec.preemption_policy == _NEVER:
        return
    terms = required_terms(world, subject)
    if terms and not wanted_by(terms, subject.label_set):
        peer = priorities.strongest(terms)
        if peer is not None and (_priority(peer) or 0) < priority:
            why = f"{_named(peer, priority)}: making room for this pod would evict the peer it needs"
            yield subject.hit(terms[0][1].path, why, "give the peers at least the same priority")
    for owned in subject.pod_class.required_anti_affinity:
        others = [other for other in priorities.weakest(world.term(owned)) if other is not subject]
        if others and (_priority(others[0]) or 0) < priority:
            why = f"{_named(others[0], priority)}: it evicts them wherever the rule stands in its way"
            fix = "give them the same priority, set preemptionPolicy: Never, or prefer it only"
            yield subject.hit(owned.path, why, fix)


@subject_check("BERTH127")
def unknown_priority_class(world: World, subject: Subject) -> Iterator[Hit]:
    known, name = world.once(_priority_classes), subject.pod.spec.priority_class_name
    if not known or not name or name in known or name.startswith("system-"):
        return
    near = near_word(name, known)
    why = f"there is no PriorityClass {name}, so that the API server refuses the pods"
    fix = f"did you mean {near}?" if near else "make the class, or take it out"
    yield subject.hit("spec.priorityClassName", why, fix)


def _priority_classes(world: World) -> set[str]:
    return {m.name for m in world.manifests if isinstance(m.object, PriorityClass)}


class _Priorities:
    """How important those are that terms select, asked once for a term: thousands may have the same."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._weakest: dict[Term, list[Subject]] = {}
        self._strongest: dict[tuple[Term, ...], Subject | None] = {}

    def weakest(self, term: Term) -> list[Subject]:
        """The two weakest that a term selects: one of them may be who asks."""
        if term not in self._weakest:
            known = (s for each in term.selected for s in self._world.makers.get(each, ()))
            ranked = ((priority, i, s) for i, s in enumerate(known) if (priority := _priority(s)) is not None)
            self._weakest[term] = [subject for _, _, subject in nsmallest(2, ranked)]
        return self._weakest[term]

    def strongest(self, terms: RequiredTerms) -> Subject | None:
        """The strongest that all terms select; None if there is none, or the priority of one is not known."""
        key = tuple(term for term, _ in terms)
        if key not in self._strongest:
            makers = [self._world.makers.get(each) for each in candidates(self._world, terms)]
            known = [subject for those in makers for subject in those or ()]
            told = all(makers) and all(_priority(subject) is not None for subject in known)
            best = max(known, key=lambda subject: _priority(subject) or 0, default=None) if told else None
            self._strongest[key] = best
        return self._strongest[key]


def _named(other: Subject, priority: int) -> str:
    return f"the rule selects {other.title}, of priority {_priority(other)} below {priority}"


# --- rules that must hold while pods run ---------------------------------------------------------------


@subject_check("BERTH123")
def no_other_place(world: World, subject: Subject) -> Iterator[Hit]:
    if subject.kind == DAEMON_SET or not subject.pod_class.has_execution_rules:
        return
    nodes, usable = world.cluster.nodes, world.usable(subject)
    execution_rules = [each for each in subject.pod_class.required_nodes if each.execution]
    if execution_rules and usable.sum() == 1:
        name = nodes.names[int(usable.argmax())]
        why = f"only {name} meets it: when it stops to, the pods are evicted and fit nowhere else"
        yield subject.hit(execution_rules[0].path, why, "let a second node meet it")
    for owned in keeps_own_apart(world, subject):
        most = places(world, subject, owned.topology_key) if owned.execution else None
        if most is not None and subject.replicas == most:
            key = short(owned.topology_key)
            why = f"its {most} pods hold all {most} values of {key}: one that is evicted fits nowhere else"
            yield subject.hit(owned.path, why, "have fewer replicas, or more domains")


@subject_check("BERTH124")
def gate_drops_rule(world: World, subject: Subject) -> Iterator[Hit]:
    for path, gate in _gated(subject.written, world.options.gates):
        why = f"with {gate}=false the rule is dropped, and the pods go anywhere"
        yield subject.hit(path, why, f"enable {gate}, or use a rule without it")


def _gated(pod: Pod, gates: FeatureGates) -> Iterator[tuple[str, str]]:
    """The rules of a pod that belong to a disabled gate."""
    if gates.all_enabled:
        return
    for path, is_about_nodes in _execution_rules(pod):
        on = gates.node_affinity_eviction if is_about_nodes else gates.pod_affinity_eviction
        if not on:
            yield path, NODE_AFFINITY_EVICTION if is_about_nodes else POD_AFFINITY_EVICTION
    if pod.spec.topology_spread_constraints and not gates.even_pods_spread:
        yield "spec.topologySpreadConstraints", EVEN_PODS_SPREAD


def _execution_rules(pod: Pod) -> Iterator[tuple[str, bool]]:
    """Where rules stand that must hold while the pod runs, and whether each is about nodes."""
    for where, rules in stated_affinity(pod, DEFAULT_GATES):
        for name, part in (
            ("nodeAffinity", rules.node_affinity),
            ("podAffinity", rules.pod_affinity),
            ("podAntiAffinity", rules.pod_anti_affinity),
        ):
            if part is not None and part.required_during_scheduling_required_during_execution is not None:
                yield f"{where}.{name}.{REQUIRED_DURING_EXECUTION}", name == "nodeAffinity"


@subject_check("BERTH125")
def stock_server_drops_rule(_world: World, subject: Subject) -> Iterator[Hit]:
    if subject.manifest.object is not None and subject.manifest.object.metadata.uid:
        return  # a server has kept it
    for path, _ in _execution_rules(subject.written):
        if path.startswith(f"{IN_SPEC}."):
            why = "berth up keeps this field, but a stock API server drops it, and the rule with it"
            fix = "for other servers, write it into the annotation berth.dev/affinity"
            yield subject.hit(path, why, fix)


# --- trying it -----------------------------------------------------------------------------------------


@check("BERTH126")
def finds_no_node(world: World) -> Iterator[Hit]:
    """Asked last: it places pods in the world's cluster."""
    if all(id(subject.manifest) in world.blamed for subject in world.linted):
        return
    for subject in world.beyond:
        if world.is_judged(subject.manifest):
            why = f"{subject.replicas} pods are more than any cluster has, so they are not even tried"
            yield hit(subject.manifest, "spec.replicas", why, "have fewer replicas")
    left: dict[int, list[UnplacedPod]] = {}
    for unplaced in simulate(world.snapshot).unplaced:
        if unplaced.reason == UNSCHEDULABLE:
            left.setdefault(id(unplaced.entry.manifest), []).append(unplaced)
    for manifest in world.manifests:
        found = left.get(id(manifest))
        if found and world.is_judged(manifest) and id(manifest) not in world.blamed:
            yield _left_over(manifest, found)


def _left_over(manifest: Manifest, found: list[UnplacedPod]) -> Hit:
    number = f"{len(found)} of its pods find" if len(found) > 1 else "a pod of it finds"
    who = "it finds" if isinstance(manifest.object, Pod) else number
    why = f"{who} no node now: {found[0].message.rstrip('.')}"
    return hit(manifest, "spec", why, "ask berth explain what would help", Severity.WARNING)
