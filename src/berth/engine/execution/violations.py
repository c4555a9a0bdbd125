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

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from berth.engine.rules import NODE_RULES, RULES, filtering_rules
from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.inter_pod_affinity.execution import ExecutionAffinity, owners
from berth.engine.rules.verdicts import ANTI_AFFINITY, RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
)
from berth.engine.state.columns import IndexArray
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, RemovablePods
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NOWHERE

_EVICTING = tuple(rule for rule in RULES if rule.evicts)
_EVICTING_BY_NODE = tuple(rule for rule in NODE_RULES if rule.evicts)

# --- what must hold during execution ----------------------------------------------------


def violations_of(cluster: Cluster, pod: str) -> list[RuleViolation]:
    """The violations of one pod; none if it is not there, not on a node, or terminating."""
    return violations_among(cluster, (pod,))


def violations_among(cluster: Cluster, pods: Iterable[str]) -> list[RuleViolation]:
    """The violations of some pods, in the order of their names."""
    index = cluster.pods.index
    wanted = {index[pod] for pod in pods if pod in index}
    return _judged(cluster, np.array(sorted(wanted), dtype=np.intp), _EVICTING)


def all_violations(cluster: Cluster) -> list[RuleViolation]:
    """The violations of all pods, in the order of their names."""
    return _judged(cluster, cluster.pods_of(cluster.classes.with_execution_rules), _EVICTING)


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
        counted = cluster.find_pod(table.keys[alike[0]] or "")
        if counted is not None and counted[0].has_execution_rules:
            for rule in rules:
                found += rule.execution_violations(cluster, counted[0], alike)
    return sorted(found, key=lambda violation: violation.pod)


def is_in_the_way(cluster: Cluster, violation: RuleViolation, pod: str) -> bool:
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


# --- what would refuse a pod where it runs ------------------------------------------------


def placement_violations(
    cluster: Cluster, pods: Sequence[str], progress: Callable[[int, int], None] | None = None
) -> dict[str, list[RuleViolation]]:
    """By pod, the rules that would refuse its own node, were it placed there now; in the order of the rules.

    Pods of one class on one node are alike, so the rules are asked about a class and all its nodes at
    once, with one such pod imagined gone from each; only where one is refused, the pods are looked at one
    by one.  Pods that are not there, or whose node is not, break nothing.

    Args:
        cluster: Where they run. It is left as it was.
        pods: ``namespace/name`` each.
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
        shared = {rule.name: list(rule.violations(slot)) for rule in refusing if _is_static(rule)}
        for key in members[slot]:
            if len(shared) == len(refusing):
                found = list(shared.values())
            else:
                with cluster.without(key):
                    found = [shared[r.name] if _is_static(r) else list(r.violations(slot)) for r in refusing]
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


def _is_static(rule: Rule) -> bool:
    return isinstance(rule, NodeRule) and rule.static


# --- whose rules about other pods an event may have broken or healed ------------------------------
# Whenever the answer of `violations_of` about some pod's affinity or anti-affinity is different after
# some cluster events, `affected_pods` names the pod for one of them, asked about each once the cluster
# has seen all of them.  What that rests on:
#
# - A pod that comes or goes matters to the pods that have a term that selects it, in the domain of its
#   node; the index of terms finds them.  One that comes has rules of its own, and as equal pods that
#   come may be announced by one event, all its equals are affected.
# - Where a pod came or went is read from its node as it is now.  If that node moved or left meanwhile,
#   the event of that affects all pods in the domain it left, whoever was on it.
# - A pod that is alone in its group is right anywhere until there is another one, wherever that is.
#   Such pods are the only ones of their class, so they are few.
#
# Rules about the node itself are not looked at: after a change of its labels ask `node_violations`.

_Labels = Mapping[str, str]


def affected_pods(cluster: Cluster, event: ClusterEvent) -> set[str]:
    """The pods whose affinity or anti-affinity is to be judged again.

    Args:
        cluster: With the event, and perhaps later ones, applied.
        event: What happened.
    """
    found = _AffectedPods(cluster)
    match event:
        case PodAdded():
            found.pod_added(event)
        case PodDeleted():
            found.pod_deleted(event)
        case NodeUpdated(slot, old) if event.labels:
            there = cluster.nodes.names[slot] == old.metadata.name
            found.node_moved(slot if there else None, old.metadata.labels or {})
        case NodeAdded(slot) if (name := cluster.nodes.names[slot]) and any(cluster.pods_on(name)):
            found.node_moved(slot, {})
            found.on_node(slot)
        case NodeDeleted(_, None):
            found.add(cluster.pods_of(found.classes))
            found.on_missing_nodes()
        case NodeDeleted(_, old) if old is not None:
            found.node_moved(None, old.metadata.labels or {})
            found.on_missing_nodes()
        case NamespaceUpdated():
            selecting = (
                c for c in found.classes if any(o.term.namespace_selector for o in c.execution_terms)
            )
            found.add(cluster.pods_of(list(selecting)))
    return found.keys


class _AffectedPods:
    """The pods found so far that one event affects.

    Attributes:
        keys: Their names, ``namespace/name``.
    """

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.keys: set[str] = set()

    @property
    def classes(self) -> list[PodClass]:
        """Those with rules about other pods."""
        return [c for c in self.cluster.classes.with_execution_rules if c.running and c.execution_terms]

    def add(self, pods: IndexArray) -> None:
        keys = self.cluster.pods.keys
        self.keys.update(keys[pod] or "" for pod in pods.tolist())

    # --- pods -----------------------------------------------------------------------

    def pod_added(self, event: PodAdded) -> None:
        pod_class = self.cluster.current(event.pod_class)
        added = _equals(self.cluster, pod_class)
        if pod_class.execution_terms:
            self.add(added)
        self._ask_owners(pod_class, self.cluster.pods.node[added].astype(np.intp))

    def pod_deleted(self, event: PodDeleted) -> None:
        slot = event.slot
        if slot == NOWHERE:
            return
        there = [slot] if self.cluster.nodes.alive[slot] else []
        self._ask_owners(self.cluster.current(event.pod_class), np.array(there, dtype=np.intp))

    def _ask_owners(self, pod_class: PodClass, slots: IndexArray) -> None:
        """Those with a term that selects such pods, in the domains of these nodes."""
        by_key: dict[str, list[PodClass]] = {}
        for rules in owners(self.cluster, pod_class.label_set):
            for key in set(rules.keys_about(pod_class.label_set)):
                by_key.setdefault(key, []).append(rules.pod_class)
            if rules.wants(pod_class.label_set):
                self._lone(rules)
        for key, classes in by_key.items():
            ids = self.cluster.nodes.column(key).ids
            self._in_domains(classes, key, ids[slots])

    def _in_domains(self, classes: Iterable[PodClass], key: str, domains: IndexArray) -> None:
        column = self.cluster.nodes.column(key)
        concerned = np.zeros(len(column.values), dtype=np.bool_)
        concerned[domains] = True
        concerned[0] = False
        pods = self.cluster.pods_of(list(classes))
        self.add(pods[concerned[column.ids[self.cluster.pods.node[pods]]]])

    def _lone(self, rules: ExecutionAffinity) -> None:
        """The only pod of a class, if it may be the first of its group."""
        if not rules.starts_group:
            return
        pods = self.cluster.pods_of([rules.pod_class])
        slots = self.cluster.pods.node[pods]
        columns = [self.cluster.nodes.column(owned.topology_key) for _, owned in rules.wanted]
        labelled = [pods[column.ids[slots] > 0] for column in columns]
        if all(len(there) <= 1 for there in labelled):
            for there in labelled:
                self.add(there)

    # --- nodes ----------------------------------------------------------------------

    def node_moved(self, slot: int | None, was: _Labels) -> None:
        """The node at `slot` had these labels before; without a slot it is gone."""
        now: _Labels = {} if slot is None else self.cluster.nodes.labels[slot] or {}
        by_key: dict[str, dict[PodClass, None]] = {}
        for pod_class in self.classes:
            for owned in pod_class.execution_terms:
                key = owned.topology_key
                if was.get(key) != now.get(key):
                    by_key.setdefault(key, {})[pod_class] = None
        for key, classes in by_key.items():
            column = self.cluster.nodes.column(key)
            values = [value for value in (was.get(key), now.get(key)) if value is not None]
            domains = np.array([column.id_of(value) for value in values], dtype=np.intp)
            self._in_domains(classes, key, domains)
            self._first_ones(slot, classes, gained=key not in was)
        if slot is not None and by_key:
            self.on_node(slot)

    def on_node(self, slot: int) -> None:
        name = self.cluster.nodes.names[slot]
        if name is not None:
            self.keys.update(
                key for key, pod_class in self.cluster.pods_on(name) if pod_class.execution_terms
            )

    def _first_ones(self, slot: int | None, classes: Iterable[PodClass], *, gained: bool) -> None:
        """Pods that were, or now are, alone in their group because a node's pods count or not."""
        name = None if slot is None else self.cluster.nodes.names[slot]
        residents = {c.label_set for _, c in self.cluster.pods_on(name)} if gained and name else ()
        for pod_class in classes:
            rules = ExecutionAffinity(self.cluster, pod_class)
            if rules.starts_group and any(rules.wants(theirs) for theirs in residents):
                self.add(self.cluster.pods_of([pod_class]))
            else:
                self._lone(rules)

    def on_missing_nodes(self) -> None:
        """The pods of nodes that are not there: nothing is said of them any more."""
        table = self.cluster.pods
        numbers = [pod_class.number for pod_class in self.classes]
        missing = np.flatnonzero(table.node[: table.count] == NOWHERE)
        self.add(missing[np.isin(table.pod_class[missing], numbers)])


def _equals(cluster: Cluster, pod_class: PodClass) -> IndexArray:
    """The pods of a class, also if they have other classes now that show more labels, or fewer."""
    unsteady = cluster.index.unsteady
    if pod_class.running or not unsteady:
        return cluster.pods_of([pod_class])
    shown = _steady(pod_class, unsteady)
    return cluster.pods_whose(lambda other: other.running > 0 and _steady(other, unsteady) == shown)


def _steady(pod_class: PodClass, unsteady: Collection[str]) -> tuple[str, dict[str, str]]:
    labels = pod_class.labels.items()
    return pod_class.namespace, {key: value for key, value in labels if key not in unsteady}
