"""Which rules running pods break where they run, and whom a cluster event may have concerned.

Two questions are asked, and the rules answer both; there is no second implementation of any of them:

- What breaks a rule that must hold during execution (`all_violations` and its kin)?  Whoever breaks one
  is evicted.  All pods of a class are judged together.
- What would refuse the pod's own node, were it placed there now (`placement_violations`)?  That is every
  rule, those too that only matter when a pod is placed.

A peer that is terminating counts until it is gone, for good or ill, as it does at scheduling time.  A
terminating pod is not judged itself: it is going already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from berth.engine.rules import EVICTING_RULES, filtering_rules
from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.verdicts import RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent
from berth.engine.state.columns import IndexArray
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NOWHERE

_EVICTING_BY_NODE = tuple(rule for rule in EVICTING_RULES if issubclass(rule, NodeRule))

# --- what must hold during execution ----------------------------------------------------


def violations_of(cluster: Cluster, pod: str) -> list[RuleViolation]:
    """The violations of one pod; none if it is not there, not on a node, or terminating."""
    return violations_among(cluster, (pod,))


def violations_among(cluster: Cluster, pods: Iterable[str]) -> list[RuleViolation]:
    """The violations of some pods, in the order of their names."""
    index = cluster.pods.index
    wanted = {index[pod] for pod in pods if pod in index}
    return _judged(cluster, np.array(sorted(wanted), dtype=np.intp), EVICTING_RULES)


def all_violations(cluster: Cluster) -> list[RuleViolation]:
    """The violations of all pods, in the order of their names."""
    return _judged(cluster, cluster.pods_of(cluster.classes.with_execution_rules), EVICTING_RULES)


def node_violations(cluster: Cluster, node: str) -> list[RuleViolation]:
    """What the pods of one node break of the rules that look at their node alone."""
    if node not in cluster.nodes.slot_of:
        return []
    index, classes = cluster.pods.index, cluster.classes.with_execution_rules
    pods = [index[pod] for pod, pod_class in cluster.pods_on(node) if pod_class in classes]
    return _judged(cluster, np.array(pods, dtype=np.intp), _EVICTING_BY_NODE)


def _judged(cluster: Cluster, pods: IndexArray, rules: Sequence[type[Rule]]) -> list[RuleViolation]:
    table = cluster.pods
    pods = pods[(table.node[pods] != NOWHERE) & ~table.terminating[pods]]
    pods = pods[np.argsort(table.pod_class[pods], kind="stable")]
    found: list[RuleViolation] = []
    bounds = np.flatnonzero(np.diff(table.pod_class[pods], prepend=-1)).tolist()
    for begin, end in pairwise([*bounds, len(pods)]):
        alike = pods[begin:end]
        pod_class = cluster.class_at(alike[0])
        if pod_class.has_execution_rules:
            for rule in rules:
                found += rule.execution_violations(cluster, pod_class, alike)
    return sorted(found, key=lambda violation: violation.pod)


def is_in_the_way(cluster: Cluster, violation: RuleViolation, pod: str) -> bool:
    """Whether a pod is one of those, named or not, that a violation says must not be there."""
    return any(rule.is_in_the_way(cluster, violation, pod) for rule in EVICTING_RULES)


def affected_pods(cluster: Cluster, event: ClusterEvent) -> set[str]:
    """The pods whose rules about other pods are to be judged again; the cluster has seen the event by now.

    Rules about the node itself are not looked at: after a change of its labels ask `node_violations`.
    """
    return set[str]().union(*(rule.affected_pods(cluster, event) for rule in EVICTING_RULES))


# --- what would refuse a pod where it runs ------------------------------------------------


def placement_violations(
    cluster: Cluster, pods: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> dict[str, list[RuleViolation]]:
    """By pod, the rules that would refuse its own node, were it placed there now; in the order of the rules.

    Pods of one class on one node are alike, so the rules are asked about a class and all its nodes at
    once, with one such pod imagined gone from each; only where one is refused, the pods are looked at one
    by one.  Pods that are not there, or whose node is not, break nothing.  The cluster is left as it was.

    Args:
        progress: Told how many pods were judged, and of how many.
    """
    groups: dict[PodClass, dict[int, list[str]]] = {}
    for pod in pods:
        known = cluster.find_pod(pod)
        if known is not None and known[1] in cluster.nodes.slot_of:
            slot = cluster.nodes.slot_of[known[1]]
            groups.setdefault(known[0], {}).setdefault(slot, []).append(pod)
    found: dict[str, list[RuleViolation]] = {}
    done = 0
    for pod_class, members in groups.items():
        found.update(_refusals(cluster, pod_class, members))
        done += sum(map(len, members.values()))
        if progress is not None:
            progress(done, len(pods))
    return found


def _refusals(
    cluster: Cluster, pod_class: PodClass, members: dict[int, list[str]]
) -> Iterator[tuple[str, list[RuleViolation]]]:
    """What the pods of a class break; `members` are their keys by the slots they run on."""
    rules = filtering_rules(cluster, pod_class)
    # Taking the pod of a class of its own (a DaemonSet's) out is faster than imagining it gone.
    doubted = _refusing(cluster, rules, members) if len(members) > 1 else dict.fromkeys(members, rules)
    for slot, refusing in doubted.items():
        node = cluster.nodes.names[slot] or ""
        # What the node object alone decides is the same for all pods of the class.
        shared = {rule.name: list(rule.violations(slot)) for rule in refusing if rule.static}
        for key in members[slot]:
            if len(shared) == len(refusing):
                found = list(shared.values())
            else:
                with cluster.without(key):
                    found = [shared[r.name] if r.static else list(r.violations(slot)) for r in refusing]
            yield key, [replace(violation, pod=key, node=node) for part in found for violation in part]
    for rule in rules:
        if isinstance(rule, TopologyRule):
            rule.release()


def _refusing(cluster: Cluster, rules: list[Rule], members: dict[int, list[str]]) -> dict[int, list[Rule]]:
    """By slot, the rules that the pods of a class break there."""
    slots: IndexArray = np.fromiter(members, dtype=np.intp, count=len(members))
    pods: IndexArray = np.array([cluster.pods.index[keys[0]] for keys in members.values()], dtype=np.intp)
    gone = HypotheticalRemoval(RemovablePods(cluster, pods), np.ones(len(pods), dtype=np.bool_))
    found: dict[int, list[Rule]] = {}
    for rule in rules:
        refused = {slot for verdict in rule.verdicts(slots, gone) for slot in verdict.slots.tolist()}
        for slot in sorted(refused):
            found.setdefault(slot, []).append(rule)
    return found
