"""The scheduler as a state machine: watch events in, bindings and reports out.

It never awaits and reads no clock but the one it was given.  A pod is taken from the queue, the engine
chooses, the pod counts as placed at once, and the binding goes out; what becomes of it is told by the
answer and, above all, by the watch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster_events import ClusterEvent, PodDeleted
from berth.engine.state.pod_class import PodClass
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
from berth.kube.pods import GroupKey
from berth.machines.clock import steady
from berth.machines.contract import Action, Bind, Event, Outcome
from berth.machines.mirror import Mirror
from berth.machines.recorder import RecorderPurpose, silent
from berth.scheduler.binding_cycle import BindingCycle
from berth.scheduler.metrics import QueueCollector, SchedulerMetrics
from berth.scheduler.pod_events import PodEvents
from berth.scheduler.preemption import Preemptor
from berth.scheduler.queue import SchedulerPurpose
from berth.scheduler.reports import TellFailed
from berth.scheduler.scheduling_cycle import SchedulingCycle
from berth.scheduler.state import SchedulerSettings, SchedulerState


class Scheduler:
    """The scheduler.

    Attributes:
        state: Everything it knows.
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
    ) -> None:
        metrics = metrics or SchedulerMetrics(timer)
        state = self.state = SchedulerState(settings, metrics, timer, tell)
        state.now = clock()
        members = None
        if state.version.entities_counted:
            metrics.count_entities()
            members = state.groups.waiting
        metrics.registry.register(
            QueueCollector(state.queue.counts, state.cache_sizes, state.unschedulable_by_rule, members)
        )
        self._clock = clock
        self._draining = False
        self._pod_events = PodEvents(state)
        self._binding = BindingCycle(state)
        self._preemptor = Preemptor(state)
        self._scheduling = SchedulingCycle(state, self._binding, self._preemptor)

    def drain(self) -> None:
        """Finish what was begun and begin nothing."""
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
                if record.rejected_by not in answers:
                    answers[record.rejected_by] = self._helpful(pod_class, record.rejected_by, events)
                event = answers[record.rejected_by]
                if record.nominated and pod_class is not None and slot_of.get(record.nominated) in cleared:
                    event = PodDeleted.__name__
                if event is not None:
                    state.metrics.came(record, event, joins=record.group in woken)
                    if record.group is not None:
                        woken.add(record.group)
                    state.queue.activate(record, state.now)

    def _helpful(
        self, pod_class: PodClass | None, rejected_by: frozenset[str], events: Iterable[ClusterEvent]
    ) -> str | None:
        """The first event that can help those of a class whom these rules rejected."""
        cluster = self.state.mirror.cluster
        if pod_class is None:
            return None
        helpful = (event for event in events if can_help(cluster, pod_class, rejected_by, event))
        return next((type(event).__name__ for event in helpful), None)

    # --- deciding -----------------------------------------------------------------------------------

    def due(self) -> float | None:
        state = self.state
        if state.ready or (state.mirror.changed and state.queue.any_unschedulable):
            return 0.0
        times = [state.reports.recorder.due(), state.statements.due(), state.founding.due()]
        times.append(state.group_conditions.due())
        times += [when for when, _ in state.retries]
        if not self._draining:
            times.append(state.queue.assumed_due())
            if state.queue.in_flight < state.settings.in_flight:
                times.append(state.queue.due())
        return min((when for when in times if when is not None), default=None)

    def reconcile(self, now: float) -> list[Action]:
        state = self.state
        state.now = now
        self._requeue()
        state.queue.flush(now)
        state.founding.look(now)
        self._binding.give_up_late()
        state.ready += [action for when, action in state.retries if when <= now]
        state.retries = [entry for entry in state.retries if entry[0] > now]
        if not self._draining:
            self._binding.resume()
            self._scheduling.run()
        state.ready += state.statements.take(now)
        state.ready += state.group_conditions.take(now)
        actions, state.ready = state.ready, []
        return actions + state.reports.recorder.take(now)

    def done(self, action: Action, outcome: Outcome) -> None:
        state = self.state
        state.now = max(state.now, outcome.at)
        match action.purpose:
            case RecorderPurpose.EVENT:
                state.reports.recorder.done(action, outcome)
            case SchedulerPurpose.STATEMENT:
                state.statements.done(action, outcome)
            case SchedulerPurpose.GROUP:
                state.group_conditions.done(action, outcome)
            case SchedulerPurpose.ANNOUNCEMENT:
                why, record = state.founding.done(action, outcome), state.queue.pending(action.key)
                if why is not None and record is not None:
                    state.reports.failed(record.pod, why, outcome.at)
            case SchedulerPurpose.PREEMPTION:
                self._preemptor.done(action, outcome)
            case _:
                self._binding.done(action, outcome)

    def confirms(self, action: Action) -> bool:
        """Whether to send a request: not a binding that others do not wait for any more."""
        return not (isinstance(action, Bind) and self.state.founding.is_late(action.key, self._clock()))

    def validate(self) -> list[str]:
        """What is wrong with the state between two steps; for tests."""
        return list(self.state.validate())
