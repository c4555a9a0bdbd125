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
    LABELLED_POD_GROUPS,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    Resource,
)
from berth.machines.clock import steady
from berth.machines.contract import Action, Event, Outcome
from berth.machines.mirror import Mirror
from berth.scheduler.arrivals import Arrivals
from berth.scheduler.assumptions import Phase
from berth.scheduler.deciding import Deciding
from berth.scheduler.desk import Desk, SchedulerSettings
from berth.scheduler.metrics import Metrics, QueueCollector
from berth.scheduler.outcomes import Outcomes
from berth.scheduler.waiting import Waiting


class Scheduler:
    """Attributes:
    desk: The state of affairs.
    """

    name = "berth-scheduler"
    watches: tuple[Resource, ...] = (
        PODS,
        *Mirror.watches,
        BUDGETS,
        PRIORITY_CLASSES,
        POD_GROUPS,
        LABELLED_POD_GROUPS,
    )

    def __init__(
        self,
        settings: SchedulerSettings,
        *,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = steady,
        timer: Callable[[], float] = time.perf_counter,
    ) -> None:
        metrics = metrics or Metrics(timer)
        desk = self.desk = Desk(settings, metrics, timer)
        desk.now = clock()
        metrics.registry.register(QueueCollector(desk.waiting.counts, desk.cache_sizes, desk.stuck_by_rule))
        self._draining = False
        self.clock = clock
        self._arrivals = Arrivals(desk)
        self._deciding = Deciding(desk)
        self._outcomes = Outcomes(desk)

    def drain(self) -> None:
        """Finish what was begun and begin nothing."""
        self._draining = True

    # --- keeping up ---------------------------------------------------------------------------------

    def handle(self, event: Event) -> None:
        desk = self.desk
        desk.now = self.clock()
        self._take_note(event)
        if not desk.waiting.any_stuck:
            desk.mirror.changes()  # nobody waits for them

    def _take_note(self, event: Event) -> None:
        resource = event.resource
        if resource == PODS:
            self._arrivals.pod(event)
        elif resource == BUDGETS:
            self._deciding.preempting.handle(event)
        elif resource == PRIORITY_CLASSES:
            self._arrivals.priority(event)
        elif resource in (POD_GROUPS, LABELLED_POD_GROUPS):
            self._arrivals.group_changed(self.desk.groups.handle(event), anew=True)
        else:
            self.desk.mirror.handle(event)
            if resource == CLAIMS:
                self._claims_changed()

    def _wake(self) -> None:
        """Try those again whom a change can help."""
        desk = self.desk
        changes = desk.mirror.changes()
        if not desk.waiting.any_stuck:
            return
        for pod_class, stuck in desk.waiting.stuck_classes():
            answers: dict[tuple[frozenset[str], str | None], str | None] = {}
            for waiting in stuck:
                same = (waiting.refused_by, waiting.nominated)
                if same not in answers:
                    answers[same] = self._helpful(waiting, pod_class, changes)
                event = answers[same]
                if event is not None:
                    desk.metrics.incoming.labels("active", event).inc()
                    desk.waiting.activate(waiting, desk.now)

    def _helpful(
        self, waiting: Waiting, pod_class: PodClass | None, changes: Iterable[ClusterEvent]
    ) -> str | None:
        cluster = self.desk.mirror.cluster
        if pod_class is None:
            return None
        reserved = cluster.nodes.slot_of.get(waiting.nominated) if waiting.nominated else None
        for change in changes:
            cleared = reserved is not None and isinstance(change, PodDeleted) and change.slot == reserved
            if cleared or can_help(cluster, pod_class, waiting.refused_by, change):
                return type(change).__name__
        return None

    # --- deciding -----------------------------------------------------------------------------------

    def due(self) -> float | None:
        desk = self.desk
        if desk.ready or (desk.mirror.changed and desk.waiting.any_stuck):
            return 0.0
        times = [desk.reports.recorder.due(), desk.statements.due()]
        times += [when for when, _ in desk.retries]
        if not self._draining:
            times.append(desk.assumed.due())
            if desk.assumed.in_flight < desk.settings.in_flight:
                times.append(desk.waiting.due())
        return min((when for when in times if when is not None), default=None)

    def reconcile(self, now: float) -> list[Action]:
        desk = self.desk
        desk.now = now
        self._wake()
        desk.waiting.ripen(now)
        self._give_up_on_volumes()
        desk.ready += [action for when, action in desk.retries if when <= now]
        desk.retries = [entry for entry in desk.retries if entry[0] > now]
        if not self._draining:
            self._resume()
            self._deciding.take()
        desk.ready += desk.statements.take(now)
        actions, desk.ready = desk.ready, []
        return actions + desk.reports.recorder.take(now)

    def _resume(self) -> None:
        """Send again what was put off, unless the node is gone."""
        desk = self.desk
        for assumed in desk.assumed.rested(desk.now):
            if assumed.phase is Phase.BINDING and assumed.node not in desk.mirror.cluster.nodes.slot_of:
                desk.retract(assumed, f'node "{assumed.node}" not found', desk.now)
            else:
                desk.ready.append(assumed.bind() if assumed.phase is Phase.BINDING else assumed.ask())

    def done(self, action: Action, outcome: Outcome) -> None:
        self._outcomes.done(action, outcome)

    # --- volumes ------------------------------------------------------------------------------------

    def _claims_changed(self) -> None:
        desk = self.desk
        for key in desk.volumes.ready():
            assumed = desk.assumed.get(key)
            if assumed is not None and assumed.phase is Phase.VOLUMES:
                if assumed.node not in desk.mirror.cluster.nodes.slot_of:
                    desk.retract(assumed, f'node "{assumed.node}" not found', desk.now)
                    continue
                desk.volumes.forget(key)
                assumed.deadline = None
                desk.ready.append(desk.assumed.start(assumed))
        for key, why in desk.volumes.failed():
            assumed = desk.assumed.get(key)
            if assumed is not None and assumed.phase is Phase.VOLUMES:
                desk.retract(assumed, why, desk.now)

    def _give_up_on_volumes(self) -> None:
        desk = self.desk
        for assumed in list(desk.assumed.pods.values()):
            late = assumed.deadline is not None and assumed.deadline <= desk.now
            if assumed.phase is Phase.VOLUMES and late:
                desk.retract(assumed, "binding volumes: timed out waiting for the condition", desk.now)
