"""Where a pod, or a group of pods, goes: the questions the scheduler asks the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from berth.engine.placement import together
from berth.engine.placement.fit_error import NO_NODES, fit_error
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.placement.together import NoNode
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.arrays import Int32Array
from berth.engine.state.cluster import Cluster, pod_name
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.needs import VolumeDecisions
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.objects import Key, Pod
from berth.machines.mirror import Mirror
from berth.scheduler.queue import QueuedPod

# --- nodes that are being cleared -----------------------------------------------------------------
# Until the pod can go there, it counts as if it were there, so that nobody of the same or a lower rank takes
# the room that victims make.  A pod of a higher rank does not see the reservations of lesser ones.


@dataclass(frozen=True, slots=True)
class Nomination:
    pod: Pod
    node: str
    priority: int


class Nominations:
    """The nodes that are being cleared, each counted as taken by its pod.

    Attributes:
        pods: By pod, what is held for it.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, Nomination] = {}

    def __bool__(self) -> bool:
        return bool(self.pods)

    def node_of(self, key: Key) -> str | None:
        held = self.pods.get(key)
        return held.node if held else None

    def hold(self, key: Key, pod: Pod, pod_class: PodClass, node: str) -> None:
        self.release(key)
        self.pods[key] = Nomination(pod, node, pod.spec.priority or 0)
        self._mirror.assume(pod, pod_class, node)

    def release(self, key: Key) -> bool:
        """Give the room up; False if there was none."""
        held = self.pods.pop(key, None)
        if held is not None:
            self._mirror.forget(key, held.pod)
        return held is not None

    def replaced(self, key: Key) -> None:
        """The pod itself now counts, on whatever node."""
        self.pods.pop(key, None)

    @contextmanager
    def as_seen_by(self, key: Key, priority: int) -> Iterator[None]:
        """The cluster with no reservation of the pod itself or of lesser ones."""
        unseen = [
            pod_name(held.pod)
            for owner, held in self.pods.items()
            if owner == key or held.priority < priority
        ]
        if not unseen:
            yield
            return
        cluster = self._mirror.cluster
        with cluster.without(*filter(cluster.has_pod, unseen)):
            yield

    @contextmanager
    def without_any(self) -> Iterator[None]:
        present = [pod_name(held.pod) for held in self.pods.values()]
        cluster = self._mirror.cluster
        with cluster.without(*filter(cluster.has_pod, present)):
            yield


# --- questions to the engine ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Choice:
    """The node of a pod.

    Attributes:
        volumes: What has to be done about the pod's claims first; None if it has none.
    """

    record: QueuedPod
    pod_class: PodClass
    node: str
    volumes: VolumeDecisions | None = None


class Placer:
    """Asks the engine for nodes, with what is nominated taken into account."""

    def __init__(self, mirror: Mirror, nominations: Nominations) -> None:
        self._mirror = mirror
        self._nominations = nominations

    @property
    def cluster(self) -> Cluster:
        return self._mirror.cluster

    # --- one pod ------------------------------------------------------------------------------------

    def place(self, record: QueuedPod) -> Choice | NoNode:
        """The best node for a pod, or why there is none."""
        try:
            pod_class = self.cluster.class_of(record.pod)
        except AnnotationError as error:
            return NoNode(None, str(error), failed=True)
        try:
            with self._nominations.as_seen_by(record.key, record.priority):
                slot = self._choose(record, pod_class)
        except SchedulingError as error:
            return NoNode(pod_class, str(error), failed=True)
        if slot is None:
            return self._unplaced(record, pod_class)
        return self.at(record, pod_class, slot)

    def at(self, record: QueuedPod, pod_class: PodClass, slot: int) -> Choice:
        node = self.cluster.nodes.names[slot] or ""
        if not binds_volumes(pod_class):
            return Choice(record, pod_class, node)
        return Choice(record, pod_class, node, self.cluster.volumes.decisions(pod_class, node))

    def _choose(self, record: QueuedPod, pod_class: PodClass) -> int | None:
        if not self.cluster.nodes.live:
            return None
        plan = plan_for(self.cluster, pod_class)
        also = self._unreserved(plan) if self._nominations else None
        if record.nominated is not None:
            slot = self.cluster.nodes.slot_of.get(record.nominated)
            if slot is not None and not (plan.blocked()[slot] or (also is not None and also[slot])):
                return slot
        return plan.choose(also=also)

    def _unreserved(self, plan: Plan) -> Int32Array | None:
        """What is blocked while no reservation counts: a pod must not rely on a peer still to come."""
        pod_class = plan.pod_class
        if not any(rule.relies_on_peers(pod_class) for rule in TOPOLOGY_RULES):
            return None
        with self._nominations.without_any():
            return plan.blocked().copy()

    def _unplaced(self, record: QueuedPod, pod_class: PodClass) -> NoNode:
        if not self.cluster.nodes.live:
            return NoNode(pod_class, NO_NODES)
        with self._nominations.as_seen_by(record.key, record.priority):
            return NoNode(pod_class, *fit_error(plan_for(self.cluster, pod_class)))

    # --- a group ------------------------------------------------------------------------------------

    def place_together(self, members: Sequence[QueuedPod], needed: int) -> list[Choice] | NoNode:
        """Nodes for as many members as possible, at least `needed`, or why that cannot be.

        Pods that were found a node are counted there when this returns a list, and not otherwise.
        """
        return together.place_together(self, members, needed)

    def class_of(self, member: QueuedPod) -> PodClass | None:
        return self._mirror.class_of(member.pod)

    def count(self, choice: Choice) -> None:
        self._mirror.suppose(choice.record.pod, choice.pod_class, choice.node, choice.volumes)

    def take_back(self, choice: Choice) -> None:
        self._mirror.withdraw(choice.record.pod)
