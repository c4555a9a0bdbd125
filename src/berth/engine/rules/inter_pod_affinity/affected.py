"""Whose execution-time affinity or anti-affinity a cluster event may have broken or healed.

Whenever what a pod breaks of these is different after some cluster events, `affected_pods` names the pod
for one of them, asked about each once the cluster has seen all of them.  What that rests on:

- A pod that comes or goes matters to the pods that have a term that selects it, in the domain of its
  node; the index of terms finds them.  One that comes has rules of its own, and as equal pods that
  come may be announced by one event, all its equals are affected.
- Where a pod came or went is read from its node as it is now.  If that node moved or left meanwhile,
  the event of that affects all pods in the domain it left, whoever was on it.
- A pod that is alone in its group is right anywhere until there is another one, wherever that is.
  Such pods are the only ones of their class, so they are few.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

import numpy as np

from berth.engine.rules.inter_pod_affinity.execution import ExecutionAffinity, owners
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
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import NOWHERE

_Labels = Mapping[str, str]


def affected_pods(cluster: Cluster, event: ClusterEvent) -> set[str]:
    """The pods whose affinity or anti-affinity is to be judged again; see `Rule.affected_pods`."""
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
    """The pods found so far that one event affects, by their `keys`."""

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
