"""Pods as they are watched: who is ours, who may be tried, who has a node, who is gone."""

from __future__ import annotations

from msgspec.structs import replace

from berth.kube.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import Key, Pod
from berth.kube.pods import is_finished, is_terminating
from berth.kube.well_known import DELETED, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE, UNSCHEDULABLE
from berth.machines.contract import Event
from berth.scheduler.assumptions import Assumed, Phase
from berth.scheduler.desk import Desk
from berth.scheduler.groups import Group
from berth.scheduler.waiting import State, Waiting


class Arrivals:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._priorities: dict[str, int] = {}

    def priority(self, event: Event) -> None:
        if event.change == DELETED:
            self._priorities.pop(event.key[1], None)
        else:
            self._priorities[event.key[1]] = event.object.value or 0

    def pod(self, event: Event) -> None:
        pod, key = event.object, event.key
        if event.change == DELETED or is_finished(pod):
            self._gone(key, pod)
        elif pod.spec.node_name:
            self._seen_on_node(key, pod)
        else:
            self._seen_without_node(key, pod)

    def _gone(self, key: Key, pod: Pod) -> None:
        desk = self._desk
        desk.waiting.drop(key)
        desk.volumes.forget(key)
        desk.groups.leave(key, pod)
        desk.nominations.release(key)
        desk.assumed.drop(key)
        desk.mirror.forget(key, pod)

    def _seen_on_node(self, key: Key, pod: Pod) -> None:
        desk = self._desk
        desk.waiting.drop(key)
        desk.volumes.forget(key)
        desk.nominations.replaced(key)
        assumed = desk.assumed.drop(key)
        if assumed is not None and assumed.phase is not Phase.BOUND:
            # Seen before the answer came, or although it never will.
            desk.count_placed(assumed, pod)
        if (before := desk.mirror.bound.get(key)) is not None:
            desk.groups.leave(key, before)  # a label may have moved it to another group
        desk.mirror.put(key, pod)
        desk.groups.place(key, pod)

    def _seen_without_node(self, key: Key, pod: Pod) -> None:
        desk = self._desk
        if (pod.spec.scheduler_name or "") not in desk.settings.profiles or is_terminating(pod):
            # A pod that is going is not bound any more, whatever was asked for.
            if (going := desk.assumed.get(key)) is not None:
                desk.drop_assumed(going)
            if (left := desk.waiting.drop(key)) is not None:
                desk.groups.leave(key, left.pod)
                desk.nominations.release(key)
            return
        pod = self._with_priority(pod)
        assumed = desk.assumed.get(key)
        if assumed is not None:
            self._revise_assumed(assumed, pod)
            return
        waiting = desk.waiting.pods.get(key)
        if waiting is None:
            waiting = Waiting(key, pod, desk.class_of(pod), number=next(desk.numbers))
            desk.waiting.add(waiting)
            desk.metrics.incoming.labels("active", "PodAdd").inc()
        elif _asks_the_same(waiting.pod, pod):
            waiting.pod = pod
            return
        else:
            desk.groups.leave(key, waiting.pod)
            desk.waiting.revise(waiting, pod, desk.class_of(pod))
        self._restore_nomination(waiting)
        desk.groups.wait(waiting)
        self._admit(waiting)

    def _with_priority(self, pod: Pod) -> Pod:
        """Where admission did not resolve the priority class, do it here."""
        spec = pod.spec
        if spec.priority is None and spec.priority_class_name in self._priorities:
            return replace(pod, spec=replace(spec, priority=self._priorities[spec.priority_class_name]))
        return pod

    def _restore_nomination(self, waiting: Waiting) -> None:
        node = waiting.pod.status.nominated_node_name if waiting.pod.status else None
        waiting.nominated = node or None
        if node and waiting.pod_class is not None:
            self._desk.nominations.hold(waiting.key, waiting.pod, waiting.pod_class, node)

    def _revise_assumed(self, assumed: Assumed, pod: Pod) -> None:
        if not _asks_the_same(assumed.waiting.pod, pod):
            pod_class = self._desk.class_of(pod)
            if pod_class is not None:
                assumed.pod_class = pod_class
                self._desk.mirror.assume(pod, pod_class, assumed.node)
        assumed.waiting.pod = pod

    # --- who may be tried ---------------------------------------------------------------------------

    def _admit(self, waiting: Waiting) -> None:
        """Let a pod be tried, unless it or its group is not ready."""
        desk = self._desk
        if waiting.pod.spec.scheduling_gates:
            desk.gate(waiting, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE)
            return
        if waiting.group is None:
            desk.waiting.activate(waiting, desk.now)
        else:
            self.group_changed(desk.groups.of(waiting.group))

    def group_changed(self, group: Group, *, anew: bool = False) -> None:
        """Let a group be tried if it is ready; `anew` also if it was tried before, as less may do now."""
        desk = self._desk
        candidates = [w for w in group.waiting.values() if not w.pod.spec.scheduling_gates]
        obstacle = group.obstacle(len(candidates))
        for waiting in candidates:
            if waiting.state is State.TAKEN:
                continue
            if obstacle is not None:
                desk.gate(waiting, UNSCHEDULABLE, obstacle)
            elif waiting.state is State.GATED or (anew and waiting.state is State.STUCK):
                desk.waiting.activate(waiting, desk.now)


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod without a node are the same to the scheduler."""
    if old.spec != new.spec or old.metadata.labels != new.metadata.labels:
        return False
    annotations = (old.metadata.annotations or {}, new.metadata.annotations or {})
    before, after = (found.get(AFFINITY_ANNOTATION) for found in annotations)
    return before == after
