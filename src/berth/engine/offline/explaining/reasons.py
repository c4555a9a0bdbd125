"""Reasons as data: a stable code, the rule, the field, whose pods are in the way, and on how many nodes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from berth.engine.offline.explaining.nodes import NodeGroup
from berth.engine.offline.scheduling.placements import GroupFailure, group_key, refused_on
from berth.engine.offline.simulation import Simulation
from berth.engine.offline.snapshot import Entry
from berth.engine.offline.workloads import unpinned
from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.plan import plan_for
from berth.engine.rules.verdicts import (
    MOST_PEERS,
    Cause,
    Reason,
    RuleVerdict,
    RuleViolation,
    merged,
    words_of,
)
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodDeleted
from berth.engine.state.pod_class import PodClass

# More reasons than this are taken together where they differ in a name only.
_MOST = 20

GROUP_INCOMPLETE = Reason("PodGroupIncomplete", "")
GROUP_WITHOUT_ROOM = Reason("PodGroupWithoutRoom", "")
# Reasons that belong to no rule: a pod waits for the others of its group.
GROUP_REASONS = (GROUP_INCOMPLETE, GROUP_WITHOUT_ROOM)
# What may make room for a group.
ROOM_EVENTS = (PodDeleted.__name__, NodeAdded.__name__, NodeUpdated.__name__)
# A rule that refuses nodes, and why on each of them, as far as these reasons are alike.
_Refusal = tuple[str, list[Cause]]


class UnplacedReasons:
    """The reasons of pods that a simulation left without a node; they are asked once a class."""

    def __init__(self, simulation: Simulation, workloads: Workloads) -> None:
        self._simulation = simulation
        self._workloads = workloads
        self._cluster = simulation.snapshot.cluster
        self._known: dict[PodClass, list[_Refusal]] = {}

    def documents(self, entry: Entry) -> list[dict[str, Any]]:
        """Each reason with the number of nodes it keeps from a pod; none if it is not tried at all."""
        if self._simulation.held_back(entry) is not None:
            return []
        key = group_key(entry)
        if key is not None and (failure := self._simulation.failed_groups.get(key)):
            cause = Cause(reason_of(failure), {"podGroup": failure.state.name}, said=failure.message)
            nodes = self._cluster.nodes.live
            return [{**detail_document(None, (cause,), self._workloads), "nodes": nodes}]
        return [
            {**detail_document(rule, causes, self._workloads), "nodes": len(causes)}
            for rule, causes in self._refusals(entry)
        ]

    def _refusals(self, entry: Entry) -> list[_Refusal]:
        if entry.daemon_of is not None:  # the other nodes are none of its business
            plan = plan_for(self._cluster, self._cluster.class_of(unpinned(entry.pod, entry.manifest)))
            return _summed([refused_on(plan, self._cluster.nodes.slot_of[entry.daemon_of])])
        pod_class = self._cluster.class_of(entry.pod)
        if pod_class not in self._known:
            verdicts = evaluate(plan_for(self._cluster, pod_class)).verdicts
            self._known[pod_class] = _summed(verdicts.values())
        return self._known[pod_class]


def reason_of(failure: GroupFailure) -> Reason:
    return GROUP_INCOMPLETE if failure.most is None else GROUP_WITHOUT_ROOM


def _summed(verdicts: Iterable[Iterable[RuleVerdict]]) -> list[_Refusal]:
    found: dict[tuple[str, Hashable], list[Cause]] = {}
    for said in verdicts:
        for verdict in said:
            for cause in verdict.because:
                found.setdefault((verdict.rule, cause.likeness), []).append(cause)
    if len(found) > _MOST:
        coarse: dict[tuple[str, Hashable], list[Cause]] = {}
        for (rule, _), causes in found.items():
            coarse.setdefault((rule, causes[0].code), []).extend(causes)
        found = coarse
    return [(rule, causes) for (rule, _), causes in found.items()]


class Workloads:
    """What people know pods by: their workloads, as they are called beside a pod of some namespace."""

    def __init__(self, entries: Iterable[Entry] = (), namespace: str | None = None) -> None:
        self._owners = {entry.key: entry.owner for entry in entries if entry.owner is not None}
        self._namespace = namespace

    def __call__(self, pod: str) -> str | None:
        """How a sentence calls the workload of a pod, ``namespace/name``; None if it has none."""
        owner, namespace = self._owners.get(pod), pod.partition("/")[0]
        return owner if owner is None or namespace == self._namespace else f"{owner} in {namespace}"

    def of(self, pods: Iterable[str]) -> list[tuple[str, str]]:
        """The workloads of some pods, each with its namespace, once."""
        known = ((pod.partition("/")[0], self._owners.get(pod)) for pod in pods)
        return list(dict.fromkeys((namespace, owner) for namespace, owner in known if owner is not None))


def shared_document(causes: Sequence[Cause], workloads: Workloads) -> dict[str, Any]:
    """What causes with one reason are told with, each of another node or of one running pod."""
    first = causes[0]
    peers = list(dict.fromkeys(peer for cause in causes for peer in cause.peers))
    domains = {cause.topology for cause in causes}
    topology = None
    if first.topology is not None:
        topology = [first.topology[0], first.topology[1] if len(domains) == 1 else None]
    return {
        "code": first.code,
        "topology": topology,
        "peers": peers[:MOST_PEERS],
        "workloads": [{"namespace": space, "owner": owner} for space, owner in workloads.of(peers)],
        "values": {name: merged(c.values.get(name, "") for c in causes) for name in first.values},
    }


def detail_document(rule: str | None, causes: Sequence[Cause], workloads: Workloads) -> dict[str, Any]:
    """A reason to refuse a node, or several, in full."""
    first = causes[0]
    return {
        "code": first.code,
        "rule": rule,
        "reason": first.sentence,
        "message": words_of(causes, workloads),
        "path": first.path,
        "ofPeer": first.of_peer,
        "execution": first.execution,
        **shared_document(causes, workloads),
    }


def verdict_document(verdict: RuleVerdict, workloads: Workloads) -> dict[str, Any]:
    return {
        "rule": verdict.rule,
        "code": verdict.code,
        "reasons": list(verdict.reasons),
        "causes": list(verdict.causes),
        "details": [detail_document(verdict.rule, (cause,), workloads) for cause in verdict.because],
    }


def violation_document(entry: Entry, violation: RuleViolation, workloads: Workloads) -> dict[str, Any]:
    """A rule that a running pod breaks."""
    return {
        **entry.named,
        "node": violation.node,
        "rule": violation.rule,
        "reason": violation.reason,
        "cause": violation.cause,
        "path": violation.path,
        "ofPeer": violation.of_peer,
        "hard": violation.hard,
        "execution": violation.execution,
        **shared_document((violation.because,), workloads),
    }


def group_document(group: NodeGroup, workloads: Workloads) -> dict[str, Any]:
    return {
        "count": len(group.names),
        "nodes": list(group.names),
        "labels": dict(group.labels),
        "details": [detail_document(shared.rule, shared.causes, workloads) for shared in group.causes],
    }
