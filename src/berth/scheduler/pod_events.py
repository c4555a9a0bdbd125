"""Pods as they are watched: who is ours, who may be tried, who has a node, who is gone."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import Key, Pod, PodResourceClaimStatus
from berth.kube.pods import is_finished, is_terminating
from berth.kube.well_known import DELETED, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE, UNSCHEDULABLE
from berth.machines.contract import Event
from berth.scheduler.groups import Group
from berth.scheduler.queue import QueuedPod, SchedulingPhase
from berth.scheduler.state import SchedulerState

_log = logging.getLogger(__name__)


class PodEvents:
    """Takes note of pods, of their groups, and of what their priority classes say."""

    def __init__(self, state: SchedulerState) -> None:
        self._state = state
        self._priorities: dict[str, int] = {}
        self._left: dict[Key, str | None] = {}  # pods that are left to another scheduler, by UID

    def priority(self, event: Event) -> None:
        if event.change == DELETED:
            self._priorities.pop(event.key[1], None)
        else:
            self._priorities[event.key[1]] = event.object.value or 0

    def pod(self, event: Event) -> None:
        pod, key, state = event.object, event.key, self._state
        if event.change == DELETED or is_finished(pod) or pod.spec.node_name:
            self._left.pop(key, None)
        if event.change == DELETED or is_finished(pod):
            state.forget(key, pod)
        elif pod.spec.node_name:
            state.settle(key, pod)
        else:
            self._seen_without_node(key, pod)
        state.founding.see(key, pod, state.now, gone=event.change == DELETED)

    def _seen_without_node(self, key: Key, pod: Pod) -> None:
        state = self._state
        record = state.queue.pods.get(key)
        if not self._is_ours(key, pod) or is_terminating(pod):
            # A pod that is going is not bound any more, whatever was asked for.
            if record is not None:
                state.forget(key, record.pod)
            return
        pod = self._with_priority(pod)
        is_new = record is None
        if record is None:
            record = QueuedPod(key, pod, state.mirror.class_of(pod))
            state.queue.admit(record)
        elif _asks_the_same(record.pod, pod):
            record.pod = pod
            return
        elif not record.pending:
            self._revise_assumed(record, pod)
            return
        else:
            state.groups.leave(key, record.pod)
            state.queue.revise(record, pod, state.mirror.class_of(pod))
        self._restore_nomination(record)
        state.groups.wait(record)
        if is_new:
            state.metrics.came(record, "PodAdd", joins=state.groups.has_others(record))
        self._admit(record)

    def _is_ours(self, key: Key, pod: Pod) -> bool:
        settings = self._state.settings
        if (pod.spec.scheduler_name or "") not in settings.profiles:
            return False
        if not (settings.skips_claims and pod.spec.resource_claims):
            return True
        if self._left.get(key) != pod.metadata.uid:
            self._left[key] = pod.metadata.uid
            _log.info("pod %s/%s has resource claims and is left to another scheduler", *key)
        return False

    def _with_priority(self, pod: Pod) -> Pod:
        """Where admission did not resolve the priority class, do it here."""
        spec = pod.spec
        if spec.priority is None and spec.priority_class_name in self._priorities:
            return replace(pod, spec=replace(spec, priority=self._priorities[spec.priority_class_name]))
        return pod

    def _restore_nomination(self, record: QueuedPod) -> None:
        node = record.pod.status.nominated_node_name if record.pod.status else None
        record.nominated = node or None
        if node and record.pod_class is not None:
            self._state.nominations.hold(record.key, record.pod, record.pod_class, node)

    def _revise_assumed(self, record: QueuedPod, pod: Pod) -> None:
        state = self._state
        pod_class = state.mirror.class_of(pod)
        if pod_class is not None and record.node is not None:
            record.pod_class = pod_class
            state.mirror.assume(pod, pod_class, record.node)
        state.groups.leave(record.key, record.pod)
        state.groups.place(record.key, pod)
        record.pod = pod

    # --- who may be tried ---------------------------------------------------------------------------

    def _admit(self, record: QueuedPod) -> None:
        """Let a pod be tried, unless it or its group is not ready."""
        state = self._state
        if record.pod.spec.scheduling_gates:
            state.gate(record, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE)
        elif record.group is None:
            state.queue.activate(record, state.now)
        if record.group is not None:  # also a gated one: the others are told that it is there
            self._try_group(state.groups.of(record.group))

    def group(self, event: Event) -> None:
        """A group's object changed: if less will do now it is tried even if it was tried before."""
        before = self._state.groups.of((event.resource, *event.key)).state
        group = self._state.groups.handle(event)
        if group.known != before.known or group.minimum != before.minimum:
            self._try_group(group, anew=not before.known or group.minimum < before.minimum)

    def _try_group(self, group: Group, *, anew: bool = False) -> None:
        state = self._state
        candidates = [r for r in group.pending.values() if not r.pod.spec.scheduling_gates]
        obstacle = group.obstacle(len(candidates))
        for record in candidates:
            if record.phase is SchedulingPhase.SCHEDULING:
                continue
            if obstacle is not None:
                state.gate(record, UNSCHEDULABLE, obstacle)
            elif record.phase is SchedulingPhase.GATED or (
                anew and record.phase is SchedulingPhase.UNSCHEDULABLE
            ):
                state.queue.activate(record, state.now)


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod without a node are the same to the scheduler."""
    if old.spec != new.spec or old.metadata.labels != new.metadata.labels:
        return False
    if new.spec.resource_claims and _claims_made(old) != _claims_made(new):
        return False
    annotations = (old.metadata.annotations or {}, new.metadata.annotations or {})
    before, after = (found.get(AFFINITY_ANNOTATION) for found in annotations)
    return before == after


def _claims_made(pod: Pod) -> list[PodResourceClaimStatus] | None:
    return pod.status.resource_claim_statuses if pod.status else None
