"""The scheduler as a state machine: watch events in, bindings and reports out.

It never awaits and reads no clock but the one it was given.  A pod is taken from the queue, the engine
chooses, the pod counts as placed at once, and the binding goes out; what becomes of it is told by the
answer and, above all, by the watch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

from msgspec.structs import replace

from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster_events import ClusterEvent, PodDeleted
from berth.engine.state.pod_class import PodClass
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.api_resources import (
    BUDGETS,
    CLAIMS,
    DRIVERS,
    LABELLED_POD_GROUPS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_CLAIMS,
    Resource,
)
from berth.kube.objects import Key, Pod, PodResourceClaimStatus
from berth.kube.pods import GroupKey, is_finished, is_terminating
from berth.kube.well_known import DELETED, SCHEDULING_GATED, SCHEDULING_GATED_MESSAGE, UNSCHEDULABLE
from berth.machines.contract import Action, Bind, Event, Outcome
from berth.machines.mirror import Mirror
from berth.machines.rates import earliest, steady
from berth.machines.recorder import RecorderPurpose, silent
from berth.scheduler.cycles import BindingCycle, SchedulingCycle
from berth.scheduler.groups import Group
from berth.scheduler.metrics import QueueCollector, SchedulerMetrics
from berth.scheduler.preemption import Preemptor
from berth.scheduler.queue import QueuedPod, SchedulerPurpose, SchedulingPhase
from berth.scheduler.reports import TellFailed
from berth.scheduler.state import SchedulerSettings, SchedulerState

_log = logging.getLogger(__name__)


class Scheduler:
    """Gives pods without a node one: queues them, decides, makes room by preemption, and binds.

    Pods of schedulers that it has no profile for only count where they are.
    """

    name = "berth-scheduler"
    watches: tuple[Resource, ...] = (
        PODS,
        *Mirror.watches,
        *DRIVERS,
        RESOURCE_CLAIMS,
        BUDGETS,
        PRIORITY_CLASSES,
        POD_GROUPS,
        LABELLED_POD_GROUPS,
    )

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        metrics: SchedulerMetrics | None = None,
        clock: Callable[[], float] = steady,
        timer: Callable[[], float] = time.perf_counter,
        tell: TellFailed = silent,
        identity: str = "berth",
    ) -> None:
        metrics = metrics or SchedulerMetrics(timer)
        state = self.state = SchedulerState(settings, metrics, timer, tell, identity)
        state.now = clock()
        groups = state.groups if state.version.entities_counted else None
        if groups is not None:
            metrics.count_entities()
        metrics.registry.register(QueueCollector(state.queue, state.mirror.cluster, groups))
        self._clock = clock
        self._draining = False
        self._pod_events = PodEvents(state)
        self._binding = BindingCycle(state)
        self._preemptor = Preemptor(state)
        self._scheduling = SchedulingCycle(state, self._binding, self._preemptor)

    def drain(self) -> None:
        """Place nobody any more and repeat no binding; what was decided is still sent and told."""
        self._draining = True

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        state, resource = self.state, event.resource
        state.now = self._clock()
        if resource == PODS:
            self._preemptor.see(event)
            self._pod_events.pod(event)
        elif resource == BUDGETS:
            self._preemptor.handle(event)
        elif resource == PRIORITY_CLASSES:
            self._pod_events.priority(event)
        elif resource in (POD_GROUPS, LABELLED_POD_GROUPS):
            self._pod_events.group(event)
        else:
            state.mirror.handle(event)
            if resource == CLAIMS:
                self._binding.claims_changed()
            elif resource == RESOURCE_CLAIMS:
                self._binding.devices_changed()
        if not state.queue.any_unschedulable:
            state.mirror.changes()  # nobody waits for them

    def _requeue(self) -> None:
        """Try those again whom a cluster event can help."""
        state = self.state
        events = state.mirror.changes()
        if not state.queue.any_unschedulable:
            return
        cleared = {event.slot for event in events if isinstance(event, PodDeleted) and not event.stays}
        slot_of = state.mirror.cluster.nodes.slot_of
        woken: set[GroupKey] = set()
        for pod_class, records in state.queue.unschedulable():
            answers: dict[frozenset[str], str | None] = {}
            for record in records:
                if record.refused_by not in answers:
                    answers[record.refused_by] = self._helpful(pod_class, record.refused_by, events)
                event = answers[record.refused_by]
                if record.nominated and pod_class is not None and slot_of.get(record.nominated) in cleared:
                    event = PodDeleted.__name__
                if event is not None:
                    state.metrics.came(record, event, joins=record.group in woken)
                    if record.group is not None:
                        woken.add(record.group)
                    state.queue.activate(record, state.now)

    def _helpful(
        self, pod_class: PodClass | None, refused_by: frozenset[str], events: Iterable[ClusterEvent]
    ) -> str | None:
        """The first event that can help those of a class whom these rules refused."""
        cluster = self.state.mirror.cluster
        if pod_class is None:
            return None
        helpful = (event for event in events if can_help(cluster, pod_class, refused_by, event))
        return next((type(event).__name__ for event in helpful), None)

    # --- deciding -----------------------------------------------------------------------------------

    def due(self) -> float | None:
        state, queue = self.state, self.state.queue
        if state.ready or (state.mirror.changed and queue.any_unschedulable):
            return 0.0
        may_place = not self._draining and queue.in_flight < state.settings.in_flight
        if state.reports.recorder.waiting or (may_place and queue.any_active):
            return 0.0
        parts = (state.reports.recorder, state.pod_conditions, state.group_conditions, state.announcements)
        times = [part.due() for part in parts]
        times += [when for when, _ in state.retries]
        if not self._draining:
            times.append(queue.assumed_due())
        if may_place:
            times.append(queue.due())
        return earliest(*times)

    def reconcile(self, now: float) -> list[Action]:
        state = self.state
        state.now = now
        self._requeue()
        state.queue.flush(now)
        state.announcements.look(now)
        self._binding.give_up_late()
        state.ready += [action for when, action in state.retries if when <= now]
        state.retries = [entry for entry in state.retries if entry[0] > now]
        if not self._draining:
            self._binding.resume()
            self._scheduling.run()
        state.ready += state.pod_conditions.take(now)
        state.ready += state.group_conditions.take(now)
        actions, state.ready = state.ready, []
        return actions + state.reports.recorder.take(now)

    def done(self, action: Action, outcome: Outcome) -> None:
        state = self.state
        state.now = max(state.now, outcome.at)
        match action.purpose:
            case RecorderPurpose.EVENT:
                state.reports.recorder.done(action, outcome)
            case SchedulerPurpose.CONDITION:
                state.pod_conditions.done(action, outcome)
            case SchedulerPurpose.GROUP:
                state.group_conditions.done(action, outcome)
            case SchedulerPurpose.ANNOUNCEMENT:
                why, record = state.announcements.done(action, outcome), state.queue.pending(action.key)
                if why is not None and record is not None:
                    state.reports.failed(record.pod, why, outcome.at)
            case SchedulerPurpose.PREEMPTION:
                self._preemptor.done(action, outcome)
            case _:
                self._binding.done(action, outcome)

    def confirms(self, action: Action) -> bool:
        """Whether to send a request: not a binding that others do not wait for any more."""
        return not (isinstance(action, Bind) and self.state.announcements.is_late(action.key, self._clock()))

    def validate(self) -> None:
        """Check what holds between any two calls; for tests."""
        self.state.validate()


# --- pods as they are watched: who is ours, who may be tried, who has a node, who is gone ---------


class PodEvents:
    """Takes note of pods, of their groups, and of what their priority classes say; it gives nobody a node."""

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
        state.announcements.see(key, pod, state.now, gone=event.change == DELETED)

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
        candidates, obstacle = group.candidates()
        retried = (SchedulingPhase.GATED, SchedulingPhase.UNSCHEDULABLE) if anew else (SchedulingPhase.GATED,)
        for record in candidates:
            if record.phase is SchedulingPhase.SCHEDULING:
                continue
            if obstacle is not None:
                state.gate(record, UNSCHEDULABLE, obstacle)
            elif record.phase in retried:
                state.queue.activate(record, state.now)


def _asks_the_same(old: Pod, new: Pod) -> bool:
    """Whether two states of a pod without a node are the same to the scheduler."""
    if old.spec != new.spec or old.metadata.labels != new.metadata.labels:
        return False
    if new.spec.resource_claims and _claims_made(old) != _claims_made(new):
        return False
    before, after = ((each.metadata.annotations or {}).get(AFFINITY_ANNOTATION) for each in (old, new))
    return before == after


def _claims_made(pod: Pod) -> list[PodResourceClaimStatus] | None:
    return pod.status.resource_claim_statuses if pod.status else None
