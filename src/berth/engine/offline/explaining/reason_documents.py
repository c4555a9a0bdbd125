"""Reasons as data: a stable code, the rule, the field, and whose pods are in the way."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from berth.engine.offline.explaining.node_groups import NodeGroup
from berth.engine.offline.explaining.refusals import Refusal
from berth.engine.offline.explaining.workloads import Workloads
from berth.engine.rules.reasons import MOST_PEERS, Cause, merged, words_of
from berth.engine.rules.verdicts import RuleVerdict


def cause_document(cause: Cause, workloads: Workloads) -> dict[str, Any]:
    """What every cause is told with, of a node or of a running pod."""
    return shared_document((cause,), workloads)


def shared_document(causes: Sequence[Cause], workloads: Workloads) -> dict[str, Any]:
    """The same of causes with one reason, each of another node."""
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
