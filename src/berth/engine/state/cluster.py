"""The cluster in columns, kept up to date change by change.

A change costs time in what it touches: a pod in the counters of its class, a node in the pods that run on it.
Only the counters of a class that is placed for the first time are built from all running pods.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from berth.engine.state.classes import ChangeLog, ClassTable, Counter, PlanCache
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, LabelColumn, take_out
from berth.engine.state.identity import class_key, identity_of, spreading_owner, with_labels, without
from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass, Term
from berth.engine.state.resource_claims import ResourceClaimIndex
from berth.engine.state.spread_constraints import Owners, keys_selected_by
from berth.engine.state.tables import NOWHERE, NodeTable, PodTable
from berth.engine.state.volumes.index import VolumeIndex
from berth.kube.objects import Namespace, Node, Pod, ReplicationController, Service, WorkloadBase
from berth.kube.pods import is_terminating


@dataclass(frozen=True, slots=True)
class _CountedPod:
    """A pod as it is counted: all it takes to put it back."""

    key: str
    pod_class: PodClass
    node_name: str
    terminating: bool
    identity: dict[str, str] | None


class Cluster:
    """Nodes, running pods and the counts the rules keep about them.

    Attributes:
        profiles: Scheduler name -> options of its pods; `options` are those of all others.
        node_changes: Nodes that came, went or changed themselves.
        usage: These, and the nodes whose pods changed.
    """

    def __init__(
        self,
        options: Options | None = None,
        *,
        profiles: Mapping[str, Options] | None = None,
        expected_nodes: int = 16,
    ) -> None:
        self.options = options or Options()
        self.profiles = profiles or {}
        self.nodes = NodeTable(max(expected_nodes, 1))
        self.pods = PodTable()
        self.index = MatchIndex()
        self.owners = Owners()
        self.plans = PlanCache()
        self.volumes = VolumeIndex(self.nodes, self.plans)
        self.resource_claims = ResourceClaimIndex(self.plans)
        self.classes = ClassTable(self.index, (self.volumes, self.resource_claims))
        self._class_by_number = self.classes.by_number
        self.usage = ChangeLog()
        self.node_changes = ChangeLog()
        self._pods_on: list[set[int]] = []
        self._on_missing_nodes: dict[str, dict[int, None]] = {}
        self._missing_node_of: dict[int, str] = {}
        self._identities: dict[int, dict[str, str]] = {}

    # --- nodes --------------------------------------------------------------------

    def add_node(self, node: Node) -> int:
        """Add a node, or take over the changes of one that is already there."""
        name = node.metadata.name or ""
        slot = self.nodes.slot_of.get(name)
        if slot is not None:
            self._update_node(slot, node)
            return slot
        capacity = self.nodes.capacity
        slot = self.nodes.add(node)
        if self.nodes.capacity != capacity:
            self.plans.drop_all()
        if slot == len(self._pods_on):
            self._pods_on.append(set())
        self.plans.node_joins(slot)
        for pod in self._on_missing_nodes.pop(name, ()):
            del self._missing_node_of[pod]
            self._settle(pod, self.class_at(pod), slot)
        self._node_changed(slot)
        return slot

    def remove_node(self, name: str) -> None:
        """Remove a node. Its pods are remembered, but invisible until it returns."""
        slot = self.nodes.slot_of[name]
        pods = self._pods_on[slot]
        for pod in list(pods):
            pod_class = self.class_at(pod)
            self._count(pod, pod_class, slot, -1)
            self._book(pod_class, slot, -1)
            self.pods.node[pod] = NOWHERE
        self.plans.node_leaves(slot)
        self.nodes.remove(slot)
        if pods:
            self._on_missing_nodes[name] = dict.fromkeys(pods)
            self._missing_node_of.update(dict.fromkeys(pods, name))
            self._pods_on[slot] = set()
        self._node_changed(slot)

    @contextmanager
    def without_nodes(self, nodes: Mapping[str, Node]) -> Iterator[None]:
        """The cluster as it would be without some nodes; they come back as they were, in their old order."""
        arrivals = {name: self.nodes.arrival.item(self.nodes.slot_of[name]) for name in nodes}
        slots = {name: self.nodes.slot_of[name] for name in nodes}
        in_order = self.nodes.in_order
        for name in nodes:
            self.remove_node(name)
        try:
            yield
        finally:
            # Slots freed last are given out first: this way every node gets its own back.
            for name in reversed(list(nodes)):
                slot = self.add_node(nodes[name])
                self.nodes.arrival[slot] = arrivals[name]
                in_order &= slot == slots[name]
            self.nodes.in_order = in_order

    def _update_node(self, slot: int, node: Node) -> None:
        if not self.nodes.moves(slot, node):
            # Mostly a heartbeat; at most the node's size, cordon or images are different.
            if self.nodes.update(slot, node):
                self._node_changed(slot)
            return
        pods = self._pods_on[slot]
        for pod in pods:
            self._count(pod, self.class_at(pod), slot, -1)
        self.plans.node_leaves(slot)
        self.nodes.update(slot, node)
        self.plans.node_joins(slot)
        for pod in pods:
            self._count(pod, self.class_at(pod), slot, 1)
        self._node_changed(slot)

    def _node_changed(self, slot: int) -> None:
        self.nodes.version += 1
        for log in (self.node_changes, self.usage):
            log.append(slot, self.nodes.capacity)

    # --- pods ---------------------------------------------------------------------

    def class_of(self, pod: Pod, *, pinned: bool = False, known: PodClass | None = None) -> PodClass:
        """The class of a pod.

        Where a pod runs is not part of what it asks for; `pinned` says that `spec.nodeName`
        is a wish of a pod still to be placed.  To find out again is cheaper with the class that was
        found for the same spec, annotation and claims before, `known`: labels may be shown, or left
        out, that were not at the time, and the owner and the labels may be others.
        """
        node_name = pod.spec.node_name if pinned else None
        identity = self.identity_of(pod)
        if known is not None and self._is_still(pod, known, identity):
            return known
        shown = pod if identity is None else without(pod, identity)
        name = pod.spec.scheduler_name or ""
        profile = name if name in self.profiles else ""
        key = class_key(shown, node_name, profile)
        found = self.classes.by_key.get(key)
        if found is None:
            options = self.profiles.get(profile, self.options)
            found = self.classes.add(key, shown, node_name=node_name, options=options, profile=profile)
            if self.index.mentioned:
                self._reveal()
                return self.class_of(pod, pinned=pinned)
        return found

    def _is_still(self, pod: Pod, known: PodClass, identity: dict[str, str] | None) -> bool:
        labels = pod.metadata.labels or {}
        if identity is not None:
            labels = {key: value for key, value in labels.items() if key not in identity}
        if labels != known.labels:
            return False
        return self.classes.by_key.get(known.key) is known and spreading_owner(pod.metadata) == known.owner

    def identity_of(self, pod: Pod) -> dict[str, str] | None:
        """The labels of a pod that its class does not show; `assume` wants them."""
        return identity_of(pod, self.index.hidden)

    def current(self, pod_class: PodClass) -> PodClass:
        """The class itself, or its successor if it was forgotten while nothing used it."""
        if self._class_by_number[pod_class.number] is pod_class:
            return pod_class
        return self.class_of(pod_class.pod, pinned=pod_class.node_name is not None)

    def add_pod(self, pod: Pod) -> None:
        """Count a pod that is bound to a node; a pod already there is replaced."""
        self.assume(
            pod_name(pod),
            self.class_of(pod),
            pod.spec.node_name or "",
            terminating=is_terminating(pod),
            identity=self.identity_of(pod),
        )

    def assume(
        self,
        key: str,
        pod_class: PodClass,
        node_name: str,
        *,
        terminating: bool = False,
        identity: dict[str, str] | None = None,
    ) -> None:
        """Count a pod of a known class on a node."""
        pod_class = self.current(pod_class)
        if key in self.pods.index:
            self.remove_pod(key)
        slot = self.nodes.slot_of.get(node_name, NOWHERE)
        pod = self.pods.add(key, NOWHERE, pod_class.number, terminating=terminating)
        if identity is not None:
            self._identities[pod] = identity
        if not pod_class.running:
            self._introduce(pod_class)
        pod_class.running += 1
        if slot == NOWHERE:
            self._on_missing_nodes.setdefault(node_name, {})[pod] = None
            self._missing_node_of[pod] = node_name
        else:
            self._settle(pod, pod_class, slot)

    def remove_pod(self, key: str) -> None:
        pod = self.pods.index[key]
        pod_class, slot = self.class_at(pod), self.pods.node.item(pod)
        if slot == NOWHERE:
            take_out(self._on_missing_nodes, self._missing_node_of.pop(pod), pod)
        else:
            self._pods_on[slot].remove(pod)
            self._count(pod, pod_class, slot, -1)
            self._book(pod_class, slot, -1)
        pod_class.running -= 1
        self._identities.pop(pod, None)
        self.pods.remove(pod)

    def has_pod(self, key: str) -> bool:
        return key in self.pods.index

    def find_pod(self, key: str) -> tuple[PodClass, str, bool] | None:
        """Class, node and whether it terminates, of a pod that is counted; None if it is not."""
        pod = self.pods.index.get(key)
        if pod is None:
            return None
        return self.class_at(pod), self._node_of(pod), self.pods.terminating.item(pod)

    def identity_at(self, key: str) -> dict[str, str] | None:
        """The labels of a pod that is counted which its class did not show."""
        return self._identities.get(self.pods.index[key])

    def identify(self, key: str, identity: dict[str, str] | None) -> None:
        """Take over the labels of a pod that is counted which its class does not show."""
        pod = self.pods.index[key]
        self._identities.pop(pod, None)
        if identity is not None:
            self._identities[pod] = identity

    @contextmanager
    def without(self, *keys: str) -> Iterator[None]:
        """The cluster as it would be without some pods."""
        with self.restored(*keys) as pods:
            for key in pods:
                self.remove_pod(key)
            yield

    @contextmanager
    def restored(self, *keys: str) -> Iterator[dict[str, PodClass]]:
        """Whatever becomes of some pods, they are back as they were in the end; yields their classes."""
        pods = [self._counted(self.pods.index[key]) for key in dict.fromkeys(keys)]
        try:
            yield {pod.key: pod.pod_class for pod in pods}
        finally:
            # Slots freed last are given out first: in this order every pod gets its own back.
            gone = [pod for pod in pods if not self.has_pod(pod.key)]
            for pod in reversed(gone):
                self._put_back(pod)
            if len(gone) < len(pods):
                for pod in pods:
                    self.remove_pod(pod.key)
                for pod in reversed(pods):
                    self._put_back(pod)

    def _node_of(self, pod: int) -> str:
        slot = self.pods.node.item(pod)
        return (self._missing_node_of[pod] if slot == NOWHERE else self.nodes.names[slot]) or ""

    def _counted(self, pod: int) -> _CountedPod:
        return _CountedPod(
            self.pods.keys[pod] or "",
            self.class_at(pod),
            self._node_of(pod),
            self.pods.terminating.item(pod),
            self._identities.get(pod),
        )

    def _put_back(self, pod: _CountedPod) -> None:
        pod_class, identity = pod.pod_class, pod.identity
        if identity is not None and not self.index.hidden.issuperset(identity):
            # A selector has mentioned one of these labels meanwhile.
            full = with_labels(pod_class.pod, identity)
            pod_class, identity = self.class_of(full), self.identity_of(full)
        self.assume(pod.key, pod_class, pod.node_name, terminating=pod.terminating, identity=identity)

    def pods_on(self, node_name: str) -> Iterator[tuple[str, PodClass]]:
        for pod in sorted(self._pods_on[self.nodes.slot_of[node_name]]):
            yield self.pods.keys[pod] or "", self.class_at(pod)

    def _settle(self, pod: int, pod_class: PodClass, slot: int) -> None:
        self.pods.node[pod] = slot
        self._pods_on[slot].add(pod)
        self._count(pod, pod_class, slot, 1)
        self._book(pod_class, slot, 1)

    def class_at(self, pod: int) -> PodClass:
        """The class of a pod that is counted, by its number in the pod table."""
        found = self._class_by_number[self.pods.pod_class.item(pod)]
        if found is None:
            raise KeyError(pod)
        return found

    def _count(self, pod: int, pod_class: PodClass, slot: int, sign: int) -> None:
        """Add a pod to, or take it from, the counters of its class."""
        if pod_class.touches:
            terminating = self.pods.terminating.item(pod)
            for counter, weight in pod_class.touches.items():
                if not (terminating and counter.living_only):
                    counter.add(slot, sign * weight)

    def _book(self, pod_class: PodClass, slot: int, sign: int) -> None:
        """Take up or free the share of its node that a pod of a class has."""
        self.nodes.use(slot, pod_class.requests, pod_class.host_ports, sign)
        if pod_class.volume_keys:
            self.volumes.csi.use(slot, self.volumes.csi_volumes(pod_class), sign)
        self.usage.append(slot, self.nodes.capacity)

    # --- namespaces and owners ------------------------------------------------------

    def set_namespace(self, namespace: Namespace) -> None:
        if self.index.set_namespace(namespace.metadata.name or "", namespace.metadata.labels or {}):
            self.plans.drop_all()

    def remove_namespace(self, name: str) -> None:
        if self.index.set_namespace(name, None):
            self.plans.drop_all()

    def set_owner(
        self, owner: Service | WorkloadBase | ReplicationController, kind: str | None = None
    ) -> None:
        if self.owners.set(owner, kind):
            self._default_spreading_changed()
            self.index.mention(keys_selected_by(owner))
            if self.index.mentioned:
                self._reveal()

    def remove_owner(self, kind: str, namespace: str, name: str) -> None:
        if self.owners.remove(kind, namespace, name):
            self._default_spreading_changed()

    def _default_spreading_changed(self) -> None:
        for pod_class in [c for c in self.plans.by_class if not c.spread_constraints]:
            self.plans.drop(pod_class)

    # --- classes ------------------------------------------------------------------

    def _reveal(self) -> None:
        """Sort pods into classes of their own by labels that a selector has mentioned."""
        revealed = self.index.reveal()
        self.plans.drop_all()
        for pod, identity in list(self._identities.items()):
            if revealed.isdisjoint(identity):
                continue
            counted = self._counted(pod)
            self.remove_pod(counted.key)
            self._put_back(counted)

    def _introduce(self, pod_class: PodClass) -> None:
        """Tell the rules that watch for such pods of a class that is about to run."""
        label_set = pod_class.label_set
        if pod_class in label_set.classes:
            return
        label_set.classes[pod_class] = None
        for term in label_set.terms:
            for watcher in term.watchers:
                watcher.consider(pod_class)
        for owned in pod_class.owned_terms:
            owned.term.owners[pod_class] = None
            for selected in owned.term.selected:
                for watcher in selected.watchers:
                    watcher.consider(pod_class)

    # --- questions over all pods ------------------------------------------------------

    def recount(self, counter: Counter) -> None:
        """Build a counter from the pods that run."""
        if not counter.classes:
            return
        weights = np.zeros(len(self.classes.by_number), dtype=np.int64)
        for pod_class in counter.classes:
            weights[pod_class.number] = pod_class.touches[counter]
        pods = self._pods_of(weights != 0)
        if counter.living_only:
            pods = pods[~self.pods.terminating[pods]]
        counter.recount(self.pods.node[pods].astype(np.intp), weights[self.pods.pod_class[pods]])

    def pods_whose(self, wanted: Callable[[PodClass], bool]) -> IndexArray:
        """The pods on nodes whose class is wanted."""
        return self.pods_of([pod_class for pod_class in self.classes.by_key.values() if wanted(pod_class)])

    def pods_at(self, slots: IndexArray) -> IndexArray:
        """The pods on these nodes."""
        found = [pod for slot in slots.tolist() for pod in self._pods_on[slot]]
        return np.array(sorted(found), dtype=np.intp)

    def by_class(self, pods: IndexArray, value: Callable[[PodClass], int]) -> Int64Array:
        """A value for each of these pods, asked of each class once."""
        if not len(pods):
            return np.zeros(0, dtype=np.int64)
        numbers = self.pods.pod_class[pods]
        table = np.zeros(len(self.classes.by_number), dtype=np.int64)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            if pod_class := self.classes.by_number[number]:
                table[number] = value(pod_class)
        return table[numbers]

    def labels_of(self, pod: int) -> Mapping[str, str]:
        """All labels of a pod, those its class does not show included."""
        return {**self.class_at(pod).labels, **self._identities.get(pod, {})}

    def any_pod(self, classes: Collection[PodClass], column: LabelColumn | None) -> bool:
        """Whether a pod of these classes runs on a node that has the column's label."""
        slots = self.pods.node[self.pods_of(classes)]
        return bool(len(slots)) if column is None else bool((column.ids[slots] > 0).any())

    def pods_of(self, classes: Collection[PodClass]) -> IndexArray:
        """The pods of these classes that are on nodes."""
        mask = np.zeros(len(self.classes.by_number), dtype=np.bool_)
        mask[[pod_class.number for pod_class in classes]] = True
        return self._pods_of(mask)

    def pods_selected(self, term: Term) -> IndexArray:
        """The pods on nodes that a term selects."""
        return self.pods_of([each for label_set in term.selected for each in label_set.classes])

    def _pods_of(self, classes: BoolArray) -> IndexArray:
        """The pods on nodes whose class is in the mask."""
        count = self.pods.count
        return np.flatnonzero(classes[self.pods.pod_class[:count]] & (self.pods.node[:count] >= 0))


def pod_name(pod: Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
