"""Nodes as a pod finds them: what the rules say of each, who is refused alike, and what is waited for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry, Snapshot
from berth.engine.placement.evaluation import Evaluation
from berth.engine.rules.verdicts import UNRESOLVABLE, Cause, RuleVerdict, WorkloadOf, waiting_words
from berth.kube.objects import Node
from berth.kube.well_known import HOSTNAME

# Groups that a person reads; if there are more, nodes are taken together that differ in a name only.
_MOST_GROUPS = 8
# Groups of nodes, the decisive ones, whose coming free is worth telling of.
_MOST_WAITS = 3


@dataclass(frozen=True, slots=True)
class RuleScore:
    rule: str
    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        return self.weight * self.normalized


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node: why it is refused, or how good it is."""

    name: str
    zone: str | None
    verdicts: tuple[RuleVerdict, ...] = ()
    scores: tuple[RuleScore, ...] = ()
    total: int | None = None
    feasible: bool = False


def nodes_of(snapshot: Snapshot, evaluation: Evaluation) -> list[NodeVerdict]:
    """Feasible nodes from best to worst, then the others in order."""
    names = snapshot.cluster.nodes.names
    feasible = {int(slot): i for i, slot in enumerate(evaluation.feasible.tolist())}
    found = []
    for slot in evaluation.nodes.tolist():
        name = names[slot] or ""
        zone = snapshot.zone_of(name)
        if slot not in feasible:
            found.append(NodeVerdict(name, zone, tuple(evaluation.verdicts.get(slot, ()))))
            continue
        i = feasible[slot]
        scores = tuple(
            RuleScore(rule, int(s.raw[i]), int(s.normalized[i]), s.weight)
            for rule, s in evaluation.scores.items()
        )
        total = int(evaluation.totals[i]) if evaluation.error is None else None
        found.append(NodeVerdict(name, zone, (), scores, total, feasible=True))
    found.sort(key=lambda node: (not node.feasible, -(node.total or 0)))
    return found


def decision_of(nodes: list[NodeVerdict], outcome: str = "") -> str | None:
    """Which rules put the best node before the runner-up; for a pod that runs, if it were placed again.

    `outcome` is what becomes of a tie: nothing yet, if the pod is not placed.
    """
    ranked = [node for node in nodes if node.total is not None]
    if not ranked:
        return None
    if len(ranked) == 1:
        return f"{ranked[0].name} is the only node that fits."
    best, second = ranked[0], ranked[1]
    if best.total == second.total:
        ties = sum(node.total == best.total for node in ranked)
        return f"{ties} nodes have the highest total, {best.total}{outcome}."
    behind = {score.rule: score.weighted for score in second.scores}
    ahead = {score.rule: score.weighted - behind[score.rule] for score in best.scores}
    decisive = max(ahead, key=lambda rule: ahead[rule])
    others = ", ".join(f"{rule} {points:+d}" for rule, points in ahead.items() if points and rule != decisive)
    also = f" ({others})" if others else ""
    order = f"{best.name} ({best.total}) is ahead of {second.name} ({second.total})"
    return f"{order}, mostly by {decisive}: {ahead[decisive]:+d}{also}."


# --- nodes that are refused for the same reasons ----------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SharedCause:
    """One reason that all nodes of a group are refused for, and what it is on each."""

    rule: str
    causes: tuple[Cause, ...]


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Nodes that are refused for the same reasons.

    Attributes:
        names: In the order of the nodes.
        labels: Those that all of them have and some other node has not; such as no other has come first.
        causes: Why they are refused, in the order of the rules.
        resolvable: Whether evicting other pods might help.
    """

    names: tuple[str, ...]
    labels: tuple[tuple[str, str], ...]
    causes: tuple[SharedCause, ...]
    resolvable: bool


_Refused = tuple[str, Sequence[RuleVerdict]]
_Alike = Callable[[Cause], Hashable]
# A node's name, and its causes by rule, by whether preemption could help, and by what they are alike in.
_Member = tuple[str, dict[tuple[str, str, Hashable], list[Cause]]]


def group_nodes(refused: Iterable[_Refused], nodes: Mapping[str, Node]) -> list[NodeGroup]:
    """The refused nodes, each with what the rules say, in groups; the decisive ones first.

    Those are decisive that come closest to taking the pod: where only other pods are in the way, and the
    fewest rules refuse.
    """
    refused = list(refused)
    found = _grouped(refused, lambda cause: cause.likeness)
    if len(found) > _MOST_GROUPS:
        found = _grouped(refused, lambda cause: cause.code)
    everywhere = Counter(label for node in nodes.values() for label in _labels(node))
    groups = [_group(members, nodes, everywhere) for members in found]
    return sorted(
        groups, key=lambda g: (not g.resolvable, len({cause.rule for cause in g.causes}), -len(g.names))
    )


def _grouped(refused: Iterable[_Refused], alike: _Alike) -> list[list[_Member]]:
    groups: dict[Hashable, list[_Member]] = {}
    for name, verdicts in refused:
        causes: dict[tuple[str, str, Hashable], list[Cause]] = {}
        for verdict in verdicts:
            for cause in verdict.because:
                causes.setdefault((verdict.rule, verdict.code, alike(cause)), []).append(cause)
        groups.setdefault(tuple(causes), []).append((name, causes))
    return list(groups.values())


def _group(
    members: list[_Member], nodes: Mapping[str, Node], everywhere: Counter[tuple[str, str]]
) -> NodeGroup:
    kinds = list(members[0][1])
    shared = tuple(
        SharedCause(kind[0], tuple(cause for _, causes in members for cause in causes[kind]))
        for kind in kinds
    )
    names = tuple(name for name, _ in members)
    resolvable = all(code != UNRESOLVABLE for _, code, _ in kinds)
    return NodeGroup(names, _in_common(names, nodes, everywhere), shared, resolvable)


def _in_common(
    names: Sequence[str], nodes: Mapping[str, Node], everywhere: Counter[tuple[str, str]]
) -> tuple[tuple[str, str], ...]:
    if len(names) == 1:
        return ()  # it is known by its name
    there = Counter(label for name in names for label in _labels(nodes[name]))
    common = [
        label for label, count in there.items() if count == len(names) and everywhere[label] < len(nodes)
    ]
    return tuple(sorted(common, key=lambda label: (everywhere[label] > len(names), label)))


def _labels(node: Node) -> Iterable[tuple[str, str]]:
    return (label for label in (node.metadata.labels or {}).items() if label[0] != HOSTNAME)


# --- what a pod waits for: its turn, and the events that would let it fit --------------------------------


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """The pod's place among those that wait, the highest priority and the oldest first, from 1."""

    place: int
    waiting: int


@dataclass(frozen=True, slots=True)
class Wait:
    """What would make some nodes take the pod.

    Attributes:
        sentence: What has to happen, to be read after "It waits for".
        nodes: Those that would then.
        codes: Of the reasons that go.
        events: The names of the cluster events that it takes.
    """

    sentence: str
    nodes: tuple[str, ...]
    codes: tuple[str, ...]
    events: tuple[str, ...]


def queue_place(simulation: Simulation, entry: Entry) -> QueuePlace | None:
    waiting = [other.key for other in simulation.snapshot.pending if simulation.held_back(other) is None]
    return QueuePlace(waiting.index(entry.key) + 1, len(waiting)) if entry.key in waiting else None


def waits_of(groups: Sequence[NodeGroup], workload_of: WorkloadOf) -> list[Wait]:
    """What a pod waits for that no node takes, as the rules that refuse it know it."""
    found: dict[str, Wait] = {}
    told: list[set[str]] = []
    # Nodes do not become the one that a pod is for by name; if it is not there, it is waited for.
    others = [group for group in groups if not any(c.elsewhere for s in group.causes for c in s.causes)]
    for group in (others or groups)[:_MOST_WAITS]:
        wanted = dict.fromkeys(waiting_words(shared.causes, workload_of) for shared in group.causes)
        sentence = ", and ".join(filter(None, wanted))
        # What needs more than another group does is not worth a word.
        if not sentence or any(less < wanted.keys() for less in told):
            continue
        told.append(set(wanted))
        reasons = [shared.causes[0].reason for shared in group.causes]
        known = found.get(sentence)
        found[sentence] = Wait(
            sentence,
            (*(known.nodes if known else ()), *group.names),
            _once(reason.code for reason in reasons),
            _once(event.__name__ for reason in reasons for event in reason.events),
        )
    return list(found.values())


def _once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
