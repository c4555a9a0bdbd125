"""Reasons as data: a stable code, the rule, the field, and whose pods are in the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from berth.engine.offline.explaining.node_groups import NodeGroup
from berth.engine.offline.explaining.refusals import Refusal
from berth.engine.offline.snapshot import Entry
from berth.engine.rules.verdicts import MOST_PEERS, Cause, RuleVerdict, RuleViolation, merged, words_of


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


def refusal_documents(refusals: Iterable[Refusal], workloads: Workloads) -> list[dict[str, Any]]:
    return [
        {**detail_document(refusal.rule, refusal.causes, workloads), "nodes": refusal.nodes}
        for refusal in refusals
    ]
