"""Which execution-time rules running pods break where they run, and what broke them.

A rule that must hold during execution is judged by the same code that refuses nodes at scheduling
time, as if the pod were placed where it runs now:

- A node selector looks at the node's labels as they are now.
- Affinity wants some *other* pod in the domain that matches all execution-time affinity terms.  A pod
  that is a peer of its own group may be alone as long as no other peer runs anywhere.  Where the node
  has lost the topology's label the rule is broken.
- Anti-affinity is broken by every other pod of the domain that matches.  It is the violation of the pod
  that has the rule; the pods it must not be with are its peers.

A peer that is terminating counts until it is gone, for good or ill, as it does at scheduling time.  A
terminating pod is not judged itself: it is going already.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import nsmallest

import numpy as np

from berth.engine.rules.inter_pod_affinity.execution import ExecutionAffinity, Standing
from berth.engine.rules.inter_pod_affinity.terms import name_pods, no_peer
from berth.engine.rules.node_affinity.matching import match_terms, why_unmet
from berth.engine.state.arrays import IndexArray
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass, RequiredNodes
from berth.engine.state.pods import NOWHERE

NODE, AFFINITY, ANTI_AFFINITY = "node", "affinity", "anti-affinity"
MOST_PEERS = 10


@dataclass(frozen=True, slots=True)
class Violation:
    """An execution-time rule that a running pod breaks where it runs.

    Attributes:
        pod: ``namespace/name``.
        kind: NODE, AFFINITY or ANTI_AFFINITY.
        path: Where the rule stands in the pod.
        cause: What broke it, in one clause: the label and its value, or the peers.
        topology: Key and value of the domain, for rules about pods; no value if the node has no such label.
        peers: The pods it must not be with, sorted, at most `MOST_PEERS` of them.
    """

    pod: str
    node: str
    kind: str
    path: str
    cause: str
    topology: tuple[str, str] | None = None
    peers: tuple[str, ...] = ()


def is_in_the_way(cluster: Cluster, violation: Violation, pod: str) -> bool:
    """Whether a pod is one of those, named or not, that a violation of anti-affinity is about."""
    owner, other = cluster.find_pod(violation.pod), cluster.pods.index.get(pod)
    if violation.kind != ANTI_AFFINITY or owner is None or other is None or violation.pod == pod:
        return False
    asked = np.array([cluster.pods.index[violation.pod]], dtype=np.intp)
    if NOWHERE in (cluster.pods.node[other], cluster.pods.node[asked[0]]):
        return False
    return any(
        standing.owned.path == violation.path
        and bool(standing.broken[0])
        and standing.column.ids[cluster.pods.node[other]] == standing.domain[0]
        and bool((standing.peers == other).any())
        for standing in ExecutionAffinity(cluster, owner[0]).anti_affinity(asked)
    )


def violations_of(cluster: Cluster, pod: str) -> list[Violation]:
    """The violations of one pod; none if it is not there, not on a node, or terminating."""
    return violations_among(cluster, (pod,))


def node_violations(cluster: Cluster, node: str) -> list[Violation]:
    """The node rules that the pods of one node break; every class is asked once."""
    slot = cluster.nodes.slot_of.get(node)
    if slot is None:
        return []
    labels = cluster.nodes.labels[slot] or {}
    unmet: dict[PodClass, list[tuple[RequiredNodes, str]]] = {}
    found: list[Violation] = []
    for pod, pod_class in cluster.pods_on(node):
        if (
            pod_class not in cluster.classes.with_execution_rules
            or cluster.pods.terminating[cluster.pods.index[pod]]
        ):
            continue
        if pod_class not in unmet:
            unmet[pod_class] = [
                (rule, why_unmet(rule.selector, labels))
                for rule in pod_class.required_nodes
                if rule.execution and not rule.selector.matches(labels, node)
            ]
        found += [Violation(pod, node, NODE, rule.path, cause) for rule, cause in unmet[pod_class]]
    return sorted(found, key=_order)


def violations_among(cluster: Cluster, pods: Iterable[str]) -> list[Violation]:
    """The violations of some pods; all pods of a class are judged together."""
    index = cluster.pods.index
    wanted = {index[pod] for pod in pods if pod in index}
    return _judge(cluster, np.array(sorted(wanted), dtype=np.intp))


def all_violations(cluster: Cluster) -> list[Violation]:
    """The violations of all pods."""
    return _judge(cluster, cluster.pods_of(cluster.classes.with_execution_rules))


def _order(violation: Violation) -> str:
    return violation.pod


# --- a class at a time ------------------------------------------------------------


def _judge(cluster: Cluster, pods: IndexArray) -> list[Violation]:
    table = cluster.pods
    pods = pods[(table.node[pods] != NOWHERE) & ~table.terminating[pods]]
    pods = pods[np.argsort(table.pod_class[pods], kind="stable")]
    found: list[Violation] = []
    for group in np.split(pods, np.flatnonzero(np.diff(table.pod_class[pods])) + 1) if len(pods) else ():
        counted = cluster.find_pod(table.keys[group[0]] or "")
        if counted is not None and counted[0].has_execution_rules:
            found += _of_class(cluster, counted[0], group)
    return sorted(found, key=_order)


def _of_class(cluster: Cluster, pod_class: PodClass, pods: IndexArray) -> Iterator[Violation]:
    yield from _node_violations(cluster, pod_class, pods)
    rules = ExecutionAffinity(cluster, pod_class)
    names, keys, node = cluster.nodes.names, cluster.pods.keys, cluster.pods.node
    for standing in rules.affinity(pods):
        owned = standing.owned
        for i in np.flatnonzero(standing.broken).tolist():
            pod = pods.item(i)
            value = standing.column.values[standing.domain.item(i)]
            yield Violation(
                keys[pod] or "",
                names[node.item(pod)] or "",
                AFFINITY,
                owned.path,
                no_peer(rules.wanted, owned.topology_key, value),
                (owned.topology_key, value or ""),
            )
    for standing in rules.anti_affinity(pods):
        yield from _conflicts(cluster, pods, standing)


def _node_violations(cluster: Cluster, pod_class: PodClass, pods: IndexArray) -> Iterator[Violation]:
    nodes = cluster.nodes
    for rule in pod_class.required_nodes:
        if not rule.execution:
            continue
        slots: IndexArray = cluster.pods.node[pods].astype(np.intp)
        broken = ~match_terms(nodes, rule.selector, slots)
        for pod, slot in zip(pods[broken].tolist(), slots[broken].tolist(), strict=True):
            cause = why_unmet(rule.selector, nodes.labels[slot] or {})
            yield Violation(cluster.pods.keys[pod] or "", nodes.names[slot] or "", NODE, rule.path, cause)


def _conflicts(cluster: Cluster, pods: IndexArray, standing: Standing) -> Iterator[Violation]:
    broken = np.flatnonzero(standing.broken)
    if not len(broken):
        return
    names, keys, node = cluster.nodes.names, cluster.pods.keys, cluster.pods.node
    owned = standing.owned
    in_domain = _Residents(cluster, standing)
    for i in broken.tolist():
        pod, domain = pods.item(i), standing.domain.item(i)
        key = keys[pod] or ""
        peers = tuple(peer for peer in in_domain.first(domain) if peer != key)[:MOST_PEERS]
        value = standing.column.values[domain] or ""
        where = f"{owned.topology_key}={value}"
        cause = f"{name_pods(peers)} in {where} matches {owned.term.selector}"
        topology = (owned.topology_key, value)
        yield Violation(key, names[node.item(pod)] or "", ANTI_AFFINITY, owned.path, cause, topology, peers)


class _Residents:
    """The peers of a term by domain: the first few of each, one more than are shown."""

    def __init__(self, cluster: Cluster, standing: Standing) -> None:
        self._keys = cluster.pods.keys
        domains = standing.column.ids[cluster.pods.node[standing.peers]]
        order = np.argsort(domains, kind="stable")
        self._domains, self._peers = domains[order], standing.peers[order]
        self._known: dict[int, list[str]] = {}

    def first(self, domain: int) -> list[str]:
        found = self._known.get(domain)
        if found is None:
            begin, end = np.searchsorted(self._domains, (domain, domain + 1))
            there = (self._keys[peer] or "" for peer in self._peers[begin:end].tolist())
            found = self._known[domain] = nsmallest(MOST_PEERS + 1, there)
        return found
