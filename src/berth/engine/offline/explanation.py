"""Why a pod goes where it goes, or nowhere: every node, every reason, every score, and what would help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import partial

from berth.engine.offline.explaining.nodes import (
    NodeGroup,
    NodeVerdict,
    QueuePlace,
    Wait,
    decision_of,
    group_nodes,
    nodes_of,
    queue_place,
    waits_of,
)
from berth.engine.offline.explaining.reasons import ROOM_EVENTS, Workloads, reason_of
from berth.engine.offline.explaining.replicas import FurtherReplicas
from berth.engine.offline.relaxations import Relaxation, fitting, relaxations, rollout_clue
from berth.engine.offline.scheduling.placements import GroupFailure, GroupSite, PodPlacement
from berth.engine.offline.scheduling.preemption import PreemptionRoom
from berth.engine.offline.simulation import OTHER_SCHEDULER, Simulation, group_failure, members_of
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.evaluation import Evaluation, evaluate, fit_error
from berth.engine.placement.plan import plan_for
from berth.engine.placement.preemption import Preemption
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.changes import Question, with_effective_affinity
from berth.engine.rules.verdicts import RuleVerdict
from berth.engine.state.cluster import Cluster
from berth.kube.objects import Condition
from berth.kube.pods import is_finished, is_terminating, phase
from berth.kube.taints import unready
from berth.kube.text.words import first_of
from berth.kube.well_known import PENDING, SCHEDULER_ERROR, UNKNOWN

RUNS, FITS, STUCK, NODE_NOT_READY = "Running", "Fits", "DoesNotFit", "NodeNotReady"
TERMINATING, NODE_NOT_FOUND = "Terminating", "NodeNotFound"


@dataclass(frozen=True, slots=True)
class Explanation:
    """Everything about one pod.

    Attributes:
        node: Where it runs, or where it would go.
        message: The verdict in a sentence; kube-scheduler's own if there is no feasible node.
        nodes: Feasible nodes from best to worst, then the others in order.
        decision: What decided between the best node and the next.
        broken: The rules that do not hold where a running pod is.
        clues: What to look at first if the pod fits nowhere.
        preemption: Whom the scheduler would evict to make room for it.
        no_preemption: Why making room does not help, in kube-scheduler's words; empty if nobody asked.
            Of a group, that it does not preempt.
        beside: By node, how many pods of its group are counted there, where they would go.
        groups: The nodes that are refused, those with the same reasons as one, the decisive ones first.
        waits: What would let it fit, if it fits nowhere.
        workloads: Whose the pods are that are in the way.
    """

    entry: Entry
    state: str
    node: str | None
    message: str
    nodes: list[NodeVerdict]
    decision: str | None = None
    broken: tuple[RuleVerdict, ...] = ()
    relaxations: list[Relaxation] = field(default_factory=list)
    clues: list[str] = field(default_factory=list)
    preemption: Preemption | None = None
    no_preemption: str = ""
    beside: Counter[str] = field(default_factory=Counter)
    groups: list[NodeGroup] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    queue: QueuePlace | None = None
    further: FurtherReplicas | None = None
    workloads: Workloads = field(default_factory=Workloads)


def explain(simulation: Simulation, entry: Entry) -> Explanation:
    """Explain a pod of a snapshot whose pending pods were placed.

    A running pod is judged as if it came back now, beside the other running ones.  One that has ended,
    or is being deleted, is not judged, and any other at its turn.
    """
    if is_finished(entry.pod):
        return _explain_ended(entry)
    if is_terminating(entry.pod):
        return _explain_deleted(simulation.snapshot, entry)
    queue, snapshot = queue_place(simulation, entry), simulation.snapshot
    explanation = _judged(simulation, entry)
    workloads = Workloads(snapshot.pods, entry.namespace)
    refused = [(node.name, node.verdicts) for node in explanation.nodes if not node.feasible]
    groups, waits = group_nodes(refused, snapshot.nodes), explanation.waits
    if explanation.state == STUCK and not waits:
        waits = waits_of(groups, workloads)
    return replace(explanation, queue=queue, groups=groups, waits=waits, workloads=workloads)


def _judged(simulation: Simulation, entry: Entry) -> Explanation:
    cluster = simulation.snapshot.cluster
    if not entry.pod.spec.node_name:
        node = _at_its_turn(simulation, entry)
        return _explain_pending(simulation, entry, node)
    heir = next((heir for gone, heir in simulation.preemptions() if gone.entry.key == entry.key), None)
    simulation.rewind()
    cluster.remove_pod(entry.key)
    try:
        explanation = _explain_running(simulation, entry)
    finally:
        cluster.add_pod(entry.pod)
    if heir is None:
        return explanation
    goes = f"It is preempted for {heir.key}, which has priority {heir.priority} and finds no other room."
    return replace(explanation, message=f"{explanation.message} {goes}")


def _explain_ended(entry: Entry) -> Explanation:
    node, status = entry.pod.spec.node_name, entry.manifest.to_dict().get("status") or {}
    why = ": ".join(filter(None, (status.get("reason"), (status.get("message") or "").rstrip("."))))
    where = f" on {node}" if node else ""
    result = f"{phase(entry.pod)}{f' ({why})' if why else ''}"
    message = f"{entry.key} has ended{where}: {result}. It is not placed again."
    return Explanation(entry, phase(entry.pod), node, message, [])


def _explain_deleted(snapshot: Snapshot, entry: Entry) -> Explanation:
    node = entry.pod.spec.node_name
    if not node:
        message = f"{entry.key} is being deleted before it was given a node. It is not placed."
        return Explanation(entry, TERMINATING, None, message, [])
    if node not in snapshot.nodes:
        message = f"{entry.key} is being deleted; its node {node} is not {snapshot.origin.words}."
        return Explanation(entry, NODE_NOT_FOUND, node, message, [])
    message = f"{entry.key} is being deleted; it is on {node} until it has stopped"
    failing = unready(snapshot.nodes[node])
    if failing is None:
        return Explanation(entry, TERMINATING, node, f"{message}.", [])
    return Explanation(entry, NODE_NOT_READY, node, f"{message}, but that node {_failure(failing)}.", [])


def _at_its_turn(simulation: Simulation, entry: Entry) -> str | None:
    """Go back to the pod's turn; the node it was given then, None if it was not placed."""
    for placement in simulation.placements:
        if placement.entry.key == entry.key:
            simulation.rewind(placement.number)
            return None if placement.victims else placement.node
    _without_those_behind(simulation, entry)
    return None


def _without_those_behind(simulation: Simulation, entry: Entry) -> None:
    """Take back who comes after a pod that was not placed: they are not what keeps it from a node.

    They stay if one of them may be the peer it seeks, and all of them if it would fit without them: then
    it was its lack of a peer that let them go first.
    """
    cluster = simulation.snapshot.cluster
    turns = {waiting.key: turn for turn, waiting in enumerate(simulation.snapshot.pending)}
    own = turns.get(entry.key)
    pod_class = cluster.class_of(entry.pod)

    def behind(other: Entry) -> bool:
        if own is None:  # it does not exist yet, so it is the last of its priority
            return other.priority < entry.priority
        return turns.get(other.key, len(turns)) > own  # replacements of victims come last

    def later(placement: PodPlacement) -> bool:
        return behind(placement.entry) and not any(
            rule.seeks(pod_class, cluster.class_of(placement.entry.pod)) for rule in TOPOLOGY_RULES
        )

    undone: list[list[PodPlacement]] = []
    while found := list(filter(later, simulation.placements)):  # whom they preempted may be behind it, too
        undone.append(simulation.take_back(found))
    if not undone or simulation.held_back(entry) is not None or group_failure(simulation, entry) is not None:
        return
    if not plan_for(cluster, pod_class).blocked().all():
        for placements in reversed(undone):
            simulation.put_back(placements)


def _explain_running(simulation: Simulation, entry: Entry) -> Explanation:
    snapshot, cluster = simulation.snapshot, simulation.snapshot.cluster
    evaluation = evaluate(plan_for(cluster, cluster.class_of(entry.pod)))
    node = entry.node
    nodes = nodes_of(snapshot, evaluation)
    if node not in snapshot.nodes:
        message = f"{entry.key} is assigned to {node}, which is not {snapshot.origin.words}."
        return _advised(simulation, Explanation(entry, NODE_NOT_FOUND, node, message, nodes), evaluation)
    broken = tuple(evaluation.verdicts.get(cluster.nodes.slot_of[node], ()))
    failing = unready(snapshot.nodes[node])
    state = RUNS if failing is None else NODE_NOT_READY
    message = _about_running(entry, broken, failing)
    decision = decision_of(nodes, f"; the pod stays on {node}")
    explanation = Explanation(entry, state, node, message, nodes, decision, broken)
    return _advised(simulation, explanation, evaluation) if broken else explanation


def _about_running(entry: Entry, broken: tuple[RuleVerdict, ...], failing: Condition | None) -> str:
    """The explanation of a pod that has a node; `failing` is why that node is not ready."""
    node = entry.pod.spec.node_name
    doing = {PENDING: "is starting", UNKNOWN: "is, in phase Unknown,"}.get(
        (entry.pod.status and entry.pod.status.phase) or "", "runs"
    )
    where = f"{entry.key} {doing} on {node}"
    rules = ", ".join(verdict.rule for verdict in broken)
    again = f", where it would not be placed again: {rules}." if broken else ", and all its rules hold there."
    if failing is None:
        return where + again
    return f"{entry.key} is assigned to {node}, which {_failure(failing)}{again if broken else '.'}"


def _failure(failing: Condition) -> str:
    """What is to be said of a node by the condition that is why it is not ready."""
    since = f" since {failing.last_transition_time}" if failing.last_transition_time else ""
    why = ": ".join(filter(None, (failing.reason, (failing.message or "").rstrip("."))))
    state = "has not been heard of" if failing.status == UNKNOWN else "is NotReady"
    return f"{state}{since}{f' ({why})' if why else ''}"


def _explain_pending(simulation: Simulation, entry: Entry, placed_on: str | None) -> Explanation:
    snapshot, preempting = simulation.snapshot, simulation.setup.preempting
    cluster, held_back = snapshot.cluster, simulation.held_back(entry)
    if held_back is None and placed_on is None and (failure := group_failure(simulation, entry)):
        return _explain_member(simulation, entry, failure)
    plan = plan_for(cluster, cluster.class_of(entry.pod))
    evaluation = evaluate(plan)
    nodes = nodes_of(snapshot, evaluation)
    if evaluation.error is not None:
        return Explanation(entry, SCHEDULER_ERROR, None, evaluation.error, nodes)
    slot = plan.choose() if placed_on is None else cluster.nodes.slot_of[placed_on]
    if slot is None:
        state, message = held_back or (STUCK, fit_error(plan)[0])
        room = None if held_back else PreemptionRoom(snapshot, preempting).make(entry, plan.pod_class)
        helps = room if room is not None and room.node is not None else None
        refused = room.message if room is not None else ""
        explanation = Explanation(entry, state, None, message, nodes, preemption=helps, no_preemption=refused)
        return _advised(simulation, explanation, evaluation)
    node = cluster.nodes.names[slot] or ""
    nodes.sort(key=lambda n: n.name != node)  # stable: the chosen one first among equals
    if held_back is not None:
        state, message = held_back
        decision = decision_of(nodes) if state != OTHER_SCHEDULER else None  # that one decides by itself
        return Explanation(entry, state, None, message, nodes, decision)
    decision = decision_of(nodes, f"; {node} is taken")
    count = f"{len(evaluation.feasible)}/{len(evaluation.nodes)} nodes are available"
    message = f"{count}: {entry.key} goes to {node}{_after_preemption(simulation, node)}."
    return Explanation(entry, FITS, node, message, nodes, decision)


def _after_preemption(simulation: Simulation, node: str) -> str:
    """Who leaves the node before for another pod of the queue: until then there may be no room."""
    left = {victim.entry.key: heir.key for victim, heir in simulation.preemptions() if victim.node == node}
    if not left:
        return ""
    first, heir = next(iter(left.items()))
    return f" once {first}{f' and {len(left) - 1} more' if len(left) > 1 else ''} went for {heir}"


def _explain_member(simulation: Simulation, entry: Entry, failure: GroupFailure) -> Explanation:
    """A pod whose group finds too few nodes: it is judged beside as many of the others as do find one."""
    cluster = simulation.snapshot.cluster
    others = [member for member in members_of(simulation, entry) if member.key != entry.key]
    most = failure.most or 0
    placed = GroupSite(cluster).fill(others, most) if most else []
    simulation.placements += placed
    try:
        evaluation = evaluate(plan_for(cluster, cluster.class_of(entry.pod)))
        room = f" There is room for {most} of them." if failure.most is not None else ""
        nodes = nodes_of(simulation.snapshot, evaluation)
        waits = [_for_its_group(failure, tuple(node.name for node in nodes))]
        message, beside = f"{failure.message}{room}", Counter(each.node for each in placed)
        explanation = Explanation(entry, STUCK, None, message, nodes, beside=beside, waits=waits)
        if failure.most is not None:
            clues = _members_without_node(cluster, others, placed) if len(evaluation.feasible) else []
            refused = _no_preemption_for_groups(simulation, [entry, *others], placed)
            explanation = replace(explanation, clues=clues, no_preemption=refused)
            explanation = _advised(simulation, explanation, evaluation)
    finally:
        simulation.take_back(placed)
    # What helps one pod helps the group only if one is all it lacks.
    found = explanation.relaxations if failure.state.needed - most == 1 else []
    if (smaller := failure.smaller()) is not None:
        names = list(dict.fromkeys(each.node for each in placed))
        found = [*found, Relaxation((smaller,), names, f"{most} of its pods find a node")]
    return replace(explanation, relaxations=found)


def _no_preemption_for_groups(
    simulation: Simulation, members: Iterable[Entry], placed: Iterable[PodPlacement]
) -> str:
    """Why nobody makes room for members that find no node; empty if nobody of lower priority could."""
    snapshot, there = simulation.snapshot, {placement.entry.key for placement in placed}
    for member in members:
        pod_class = snapshot.cluster.class_of(member.pod)
        if member.key in there or not plan_for(snapshot.cluster, pod_class).blocked().all():
            continue
        room = PreemptionRoom(snapshot, simulation.setup.preempting).make(member, pod_class)
        if room is None or room.node is None:
            return "" if room is None else room.message
        if there.issuperset(room.victims):
            return ""  # of its own group
        could = f"preemption: pods of lower priority could make room on {room.node}"
        return f"{could}, but a group does not preempt others as a unit."
    return ""


def _members_without_node(
    cluster: Cluster, members: Iterable[Entry], placed: Iterable[PodPlacement]
) -> list[str]:
    """Which members it is that keep the group waiting, and why, for one that would find a node itself."""
    there = {placement.entry.key for placement in placed}
    found: dict[str, list[str]] = {}
    for member in members:
        if member.key in there:
            continue
        plan = plan_for(cluster, cluster.class_of(member.pod))
        if not len(evaluate(plan).feasible):
            found.setdefault(fit_error(plan)[0], []).append(member.key)
    return [
        f"{first_of(keys, 1)} of its group find{'' if keys[1:] else 's'} no node: {message}"
        for message, keys in found.items()
    ]


def _for_its_group(failure: GroupFailure, nodes: tuple[str, ...]) -> Wait:
    code = reason_of(failure).code
    if not failure.state.known:
        return Wait(f"PodGroup {failure.state.name} to be created", nodes, (code,), ())
    if failure.most is None:
        return Wait(f"the other pods of pod group {failure.state.name}", nodes, (code,), ())
    lacking = failure.state.needed - failure.most
    more = f"room for {lacking} more pod{'s' if lacking > 1 else ''}"
    return Wait(f"{more} of pod group {failure.state.name} at once", nodes, (code,), ROOM_EVENTS)


def _advised(simulation: Simulation, explanation: Explanation, evaluation: Evaluation) -> Explanation:
    """With what to look at first, and what would help, for a pod that fits nowhere."""
    if len(evaluation.feasible):
        return explanation
    snapshot, cluster, entry = simulation.snapshot, simulation.snapshot.cluster, explanation.entry
    placed = {other.key: other.pod for other in snapshot.running if cluster.has_pod(other.key)}
    placed |= {placement.entry.key: placement.entry.pod for placement in simulation.placements}
    spelt_out = with_effective_affinity(entry.pod, cluster.options.gates)
    question = Question(
        cluster=cluster,
        pod_class=cluster.class_of(spelt_out),
        pod=spelt_out,
        written=entry.pod,
        nodes=snapshot.nodes,
        verdicts=evaluation.verdicts,
        fitting=partial(fitting, cluster, snapshot.nodes),
        running={key: pod for key, pod in placed.items() if key != entry.key},
        waiting={other.key: other.pod for other in snapshot.pending if other.key not in placed},
        ended={other.key: other.pod for other in snapshot.ended},
        workload_of=Workloads(snapshot.pods, entry.namespace),
    )
    refusing = {verdict.rule for verdicts in evaluation.verdicts.values() for verdict in verdicts}
    plan = plan_for(cluster, cluster.class_of(entry.pod))
    clues = dict.fromkeys(
        clue for rule in plan.rules if rule.name in refusing for clue in rule.clues(question)
    )
    if (rollout := rollout_clue(snapshot, entry)) is not None:
        clues = {rollout: None, **clues}
    found = relaxations(question, pinned=entry.daemon_of is not None)
    return replace(explanation, relaxations=found, clues=list(clues))
