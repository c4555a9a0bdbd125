"""What the parts of the scheduler share, and what concerns all: a pod is placed, retracted or forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from berth.engine.state.cluster import pod_name
from berth.engine.state.options import Options
from berth.kube.objects import Key, Pod
from berth.kube.pods import is_terminating
from berth.kube.well_known import SCHEDULER_ERROR
from berth.machines.contract import Action, expect
from berth.machines.mirror import Mirror
from berth.machines.rates import Backoff
from berth.scheduler import metrics as measured
from berth.scheduler.groups import GroupAnnouncements, GroupConditions, Groups
from berth.scheduler.metrics import SchedulerMetrics
from berth.scheduler.queue import QueuedPod, SchedulingPhase, SchedulingQueue
from berth.scheduler.reports import FailedAttempt, PodConditions, Reports, TellFailed
from berth.scheduler.reservations import Nominations, Reservations, VolumeWork

# Bindings under way at a time: enough to keep a server busy while its answers are dealt with. More would
# leave less of it to others, and decisions are best made late.
IN_FLIGHT = 96


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """How pods are placed.

    Attributes:
        profiles: Scheduler name -> how its pods are placed.
        preemption: The profiles that evict pods to make room; None for all.
        volume_timeout: How long a pod waits for its volumes, in seconds.
        device_timeout: How long it waits for its devices.
        skips_claims: Leave pods with ResourceClaims to another scheduler.
        announce_groups: Agree with other schedulers on which pod starts a group of pods that want each other.
    """

    profiles: Mapping[str, Options]
    component: str = "berth"
    backoff: Backoff = field(default_factory=lambda: Backoff(1.0, 10.0))
    preemption: frozenset[str] | None = None
    volume_timeout: float = 600.0
    device_timeout: float = 600.0
    skips_claims: bool = False
    in_flight: int = IN_FLIGHT
    announce_groups: bool = False


class SchedulerState:
    """Everything the scheduler knows.

    Attributes:
        mirror: The engine's cluster and what was seen of it.
        queue: The pods that are ours to place, until they are seen on a node.
        ready: Actions to be given out.
        retries: Actions to be repeated, and when.
        now: The time of the event, answer or call that is being dealt with.
    """

    def __init__(
        self,
        settings: SchedulerSettings,
        metrics: SchedulerMetrics,
        timer: Callable[[], float],
        tell: TellFailed,
        identity: str,
    ) -> None:
        self.settings = settings
        self.metrics = metrics
        self.timer = timer
        self.mirror = Mirror(next(iter(settings.profiles.values())), settings.profiles, devices=True)
        self.queue = SchedulingQueue(settings.backoff)
        self.groups = Groups()
        self.version = next(iter(settings.profiles.values())).version
        self.group_conditions = GroupConditions(self.groups, self.version)
        self.nominations = Nominations(self.mirror)
        announcer = identity if settings.announce_groups else None
        self.announcements = GroupAnnouncements(self.mirror, self.queue, self.nominations, announcer)
        self.volumes = VolumeWork(self.mirror)
        self.reservations = Reservations(self.mirror)
        self.reports = Reports(settings.component, tell)
        self.pod_conditions = PodConditions(self.queue)
        self.ready: list[Action] = []
        self.retries: list[tuple[float, Action]] = []
        self.now = 0.0

    def gate(self, record: QueuedPod, reason: str, message: str) -> None:
        self.queue.gate(record)
        self.pod_conditions.want(record, reason, message)

    # --- leaving the queue --------------------------------------------------------------------------

    def forget(self, key: Key, pod: Pod) -> None:
        """The pod is gone, or not ours to place any more."""
        record = self.queue.drop(key)
        if record is None or record.phase is not SchedulingPhase.VOLUMES:
            self.reservations.forget(key)
        self.groups.leave(key, pod)
        self.nominations.release(key)
        self.release(key, pod)

    def release(self, key: Key, pod: Pod) -> None:
        """The pod is not on its node: its claims, its volumes and its room there are free again."""
        self.ready += self.reservations.give_back(key)
        self.volumes.forget(key)
        if self.nominations.node_of(key) is None:
            self.mirror.forget(key, pod)

    def settle(self, key: Key, pod: Pod) -> None:
        """The pod was seen on a node."""
        record = self.queue.drop(key)
        self.volumes.forget(key)
        self.reservations.forget(key)
        self.nominations.replaced(key)
        if record is not None and record.node is not None and record.phase is not SchedulingPhase.BOUND:
            # Seen before the answer came, or although it never will.
            self.count_placed(record, record.node, pod)
        if (before := self.mirror.bound.get(key)) is not None:
            self.groups.leave(key, before)  # a label may have moved it to another group
        self.mirror.put(key, pod)
        self.groups.place(key, pod)

    def count_placed(self, record: QueuedPod, node: str, pod: Pod) -> None:
        if pod.spec.node_name in (None, "", node):
            self.reports.scheduled(record.pod, node, self.now)
        self.metrics.ended(measured.SCHEDULED, pod.spec.scheduler_name or "", self.now - record.started)
        self.metrics.placed(record, self.now)

    def retract(self, record: QueuedPod, why: str, at: float, *, wait: float | None = None) -> None:
        """The pod is not on its node after all: it is tried again after its backoff."""
        message = f"binding rejected: {why}"
        self.failed(record, message, at, at - record.started, error=True)
        self.release(record.key, record.pod)
        if is_terminating(record.pod):
            self.forget(record.key, record.pod)
            return
        self.queue.give_back(record, wait)
        self.groups.wait(record)
        self.pod_conditions.want(record, SCHEDULER_ERROR, message)

    def failed(
        self,
        record: QueuedPod,
        message: str,
        at: float,
        seconds: float,
        rules: frozenset[str] = frozenset(),
        *,
        error: bool,
    ) -> None:
        """An attempt ended without a node; people, dashboards and logs are told."""
        record.attempts += 1
        record.tried = at
        self.metrics.ended(measured.ERROR if error else measured.UNSCHEDULABLE, record.profile, seconds)
        self.reports.failed(record.pod, message, at)
        self.reports.tell(FailedAttempt("/".join(record.key), record.attempts, message, rules, error))

    def validate(self) -> None:
        """Check between two steps that what the parts know of a pod agrees; for tests."""
        self.queue.validate()
        cluster = self.mirror.cluster
        for key, record in self.queue.pods.items():
            counted = cluster.find_pod(pod_name(record.pod))
            where = self.nominations.node_of(key) if record.pending else record.node
            is_counted = (counted and counted[1]) == where
            expect(is_counted, f"{key} is {record.phase} on {where}, but the mirror has {counted}")
            expect(key not in self.mirror.bound, f"{key} is {record.phase}, but was seen on a node")
            waits = key in self.volumes.pods or key in self.reservations.pods
            is_waiting = record.phase is SchedulingPhase.VOLUMES
            expect(waits == is_waiting, f"{key} is {record.phase}, but not so by its volumes and claims")
            self.groups.validate(record)
        known = {*self.volumes.pods, *self.reservations.keys(), *self.nominations.pods}
        expect(known <= self.queue.pods.keys(), "who is forgotten is forgotten everywhere", known)
