"""Where a pod, or a group of pods, goes: the questions the scheduler asks the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from berth.engine.placement.fit_error import NO_NODES, fit_error
from berth.engine.placement.plan import Plan, SchedulingError, plan_for
from berth.engine.rules import TOPOLOGY_RULES
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.arrays import BLOCKED, Int32Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.needs import VolumeDecisions
from berth.kube.affinity.annotations import AnnotationError
from berth.machines.mirror import Mirror
from berth.scheduler.nominations import Nominations
from berth.scheduler.queued_pod import QueuedPod

# So many places for the first pod of a group are tried before it is said not to fit.
_DOMAINS_TRIED = 64


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


@dataclass(frozen=True, slots=True)
class NoNode:
    """Why a pod has no node.

    Attributes:
        pod_class: None if the pod's rules cannot be read.
        rules: Those that rejected some node.
        failed: The attempt ended in an error, not in a verdict.
        settled: Making room was considered and does not help either.
    """

    pod_class: PodClass | None
    message: str
    rules: frozenset[str] = frozenset()
    failed: bool = False
    settled: bool = False


class Placer:
    """Asks the engine for nodes, with what is nominated taken into account."""

    def __init__(self, mirror: Mirror, nominations: Nominations) -> None:
        self._mirror = mirror
        self._nominations = nominations

    @property
    def _cluster(self) -> Cluster:
        return self._mirror.cluster

    # --- one pod ------------------------------------------------------------------------------------

    def place(self, record: QueuedPod) -> Choice | NoNode:
        """The best node for a pod, or why there is none."""
        try:
            pod_class = self._cluster.class_of(record.pod)
        except AnnotationError as error:
            return NoNode(None, str(error), failed=True)
        try:
            with self._nominations.as_seen_by(record.key, record.priority):
                slot = self._choose(record, pod_class)
        except SchedulingError as error:
            return NoNode(pod_class, str(error), failed=True)
        if slot is None:
            return self._unplaced(record, pod_class)
        return self._choice(record, pod_class, slot)

    def _choice(self, record: QueuedPod, pod_class: PodClass, slot: int) -> Choice:
        node = self._cluster.nodes.names[slot] or ""
        if not binds_volumes(pod_class):
            return Choice(record, pod_class, node)
        return Choice(record, pod_class, node, self._cluster.volumes.decisions(pod_class, node))

    def _choose(self, record: QueuedPod, pod_class: PodClass) -> int | None:
        if not self._cluster.nodes.live:
            return None
        plan = plan_for(self._cluster, pod_class)
        also = self._unreserved(plan) if self._nominations else None
        if record.nominated is not None:
            slot = self._cluster.nodes.slot_of.get(record.nominated)
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
        if not self._cluster.nodes.live:
            return NoNode(pod_class, NO_NODES)
        with self._nominations.as_seen_by(record.key, record.priority):
            return NoNode(pod_class, *fit_error(plan_for(self._cluster, pod_class)))

    # --- a group ------------------------------------------------------------------------------------

    def place_together(self, members: Sequence[QueuedPod], needed: int) -> list[Choice] | NoNode:
        """Nodes for as many members as possible, at least `needed`, or why that cannot be.

        Pods that were found a node are counted there when this returns a list, and not otherwise.
        """
        first: NoNode | None = None
        for start in self._starts(members):
            chosen: list[Choice] = []
            missed: NoNode | None = None
            try:
                missed = self._fill(members, start, chosen)
                if len(chosen) >= needed:
                    return chosen
            except BaseException:
                self._take_back(chosen)
                raise
            self._take_back(chosen)
            first = first or missed
        return first or NoNode(None, NO_NODES)

    def _take_back(self, chosen: Sequence[Choice]) -> None:
        for choice in chosen:
            self._mirror.withdraw(choice.record.pod)

    def _starts(self, members: Sequence[QueuedPod]) -> Iterator[Choice | None]:
        """Where to put the first member: wherever is best, then elsewhere.

        The first pod of a group that wants to be together decides the domain for all of them, and the
        best domain for one pod may be too small for all.
        """
        yield None
        first = members[0]
        try:
            pod_class = self._cluster.class_of(first.pod)
        except AnnotationError:
            return
        if not pod_class.required_affinity or not self._cluster.nodes.live:
            return
        cluster = self._cluster
        column = cluster.nodes.column(pod_class.required_affinity[0].topology_key)
        blocked = plan_for(cluster, pod_class).blocked().copy()
        domains = column.ids[: len(blocked)]
        for _ in range(_DOMAINS_TRIED):
            slot = plan_for(cluster, pod_class).choose(also=blocked)
            if slot is None:
                return
            blocked[domains == domains[slot]] = BLOCKED
            yield self._choice(first, pod_class, slot)

    def _fill(
        self, members: Sequence[QueuedPod], start: Choice | None, chosen: list[Choice]
    ) -> NoNode | None:
        """Find nodes for as many as possible; why others are left, by all the rules that rejected some."""
        left = list(members)
        why: NoNode | None = None
        if start is not None:
            self._count(start, chosen)
            left.remove(start.record)
        while left:
            found = 0
            missed: list[QueuedPod] = []
            why = None
            for record in left:
                choice = self.place(record)
                if isinstance(choice, NoNode):
                    missed.append(record)
                    why = choice if why is None else replace(why, rules=why.rules | choice.rules)
                else:
                    self._count(choice, chosen)
                    found += 1
            if not found or not missed:
                break
            left = missed  # a peer that came may be the one they were missing
        return why

    def _count(self, choice: Choice, chosen: list[Choice]) -> None:
        self._mirror.suppose(choice.record.pod, choice.pod_class, choice.node, choice.volumes)
        chosen.append(choice)
