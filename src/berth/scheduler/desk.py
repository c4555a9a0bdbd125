"""What the parts of the scheduler share: the state of affairs, and what is to be done next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count

from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.kube.annotations import AnnotationError
from berth.kube.objects import Pod
from berth.kube.pods import is_terminating
from berth.kube.well_known import SCHEDULER_ERROR
from berth.machines.contract import Action
from berth.machines.mirror import Mirror
from berth.machines.story import Story
from berth.scheduler import metrics as measured
from berth.scheduler.assumptions import Assumed, Assumptions
from berth.scheduler.groups import Groups
from berth.scheduler.metrics import Metrics
from berth.scheduler.nominations import Nominations
from berth.scheduler.reports import Reports, Statements
from berth.scheduler.volumes import VolumeWork
from berth.scheduler.waiting import Backoff, State, Waiting, WaitingPods

# Bindings under way at a time. More would not be faster, and decisions are best made late.
IN_FLIGHT = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    """Attributes:
    profiles: Scheduler name -> how its pods are placed.
    preemption: The profiles that evict pods to make room; None for all.
    volume_timeout: How long a pod waits for its volumes, in seconds.
    """

    profiles: Mapping[str, Options]
    component: str = "berth"
    backoff: Backoff = field(default_factory=Backoff)
    preemption: frozenset[str] | None = None
    volume_timeout: float = 600.0
    in_flight: int = IN_FLIGHT


class Desk:
    """Attributes:
    mirror: The engine's cluster and what was seen of it.
    waiting: Pods without a node.
    assumed: Pods with a node that were not yet seen there.
    ready: Actions to be given out.
    retries: Actions to be repeated, and when.
    now: The time of the event, answer or call that is being dealt with.
    """

    def __init__(self, settings: SchedulerSettings, metrics: Metrics, timer: Callable[[], float]) -> None:
        self.settings = settings
        self.metrics = metrics
        self.timer = timer
        self.mirror = Mirror(next(iter(settings.profiles.values())), settings.profiles)
        self.waiting = WaitingPods(settings.backoff)
        self.assumed = Assumptions()
        self.groups = Groups()
        self.nominations = Nominations(self.mirror)
        self.volumes = VolumeWork(self.mirror)
        self.reports = Reports(settings.component)
        self.statements = Statements(self.waiting.pods)
        self.story = Story()
        self.ready: list[Action] = []
        self.retries: list[tuple[float, Action]] = []
        self.now = 0.0
        self.numbers = count(1)

    def class_of(self, pod: Pod) -> PodClass | None:
        try:
            return self.mirror.cluster.class_of(pod)
        except AnnotationError:
            return None  # said when it is tried

    # --- what is told -------------------------------------------------------------------------------

    def gate(self, waiting: Waiting, reason: str, message: str) -> None:
        self.waiting.gate(waiting)
        self.statements.want(waiting, reason, message)

    # --- pods with a node ---------------------------------------------------------------------------

    def count_placed(self, assumed: Assumed, pod: Pod) -> None:
        now = self.now
        profile = pod.spec.scheduler_name or ""
        if pod.spec.node_name in (None, "", assumed.node):
            self.reports.scheduled(assumed.waiting.pod, assumed.node, now)
        self.metrics.ended(measured.SCHEDULED, profile, now - assumed.started)
        self.metrics.placed(assumed.waiting, now)

    def drop_assumed(self, assumed: Assumed) -> None:
        self.assumed.drop(assumed.key)
        self.volumes.forget(assumed.key)
        self.groups.leave(assumed.key, assumed.waiting.pod)
        self.mirror.forget(assumed.key, assumed.waiting.pod)

    def retract(self, assumed: Assumed, why: str, at: float, *, wait: float | None = None) -> None:
        """The pod is not on its node after all: it is tried again after its backoff."""
        self.drop_assumed(assumed)
        waiting = assumed.waiting
        waiting.attempts += 1
        waiting.tried = at
        waiting.state = State.GATED
        self.metrics.ended(measured.ERROR, waiting.pod.spec.scheduler_name or "", at - assumed.started)
        message = f"binding rejected: {why}"
        self.reports.failed(waiting.pod, message, at)
        if is_terminating(waiting.pod):
            return
        self.statements.want(waiting, SCHEDULER_ERROR, message)
        self.waiting.add(waiting)
        self.groups.wait(waiting)
        self.waiting.back_off(waiting, at + max(self.waiting.backoff.of(waiting.attempts), wait or 0.0))

    # --- what can be asked --------------------------------------------------------------------------

    def cache_sizes(self) -> dict[str, int]:
        return {
            "nodes": self.mirror.cluster.nodes.live,
            "pods": len(self.mirror.cluster.pods.index),
            "assumed_pods": len(self.assumed.pods),
        }

    def stuck_by_rule(self) -> Mapping[tuple[str, str], int]:
        found: Counter[tuple[str, str]] = Counter()
        for waiting in self.waiting.pods.values():
            if waiting.state in (State.STUCK, State.BACKOFF):
                profile = waiting.pod.spec.scheduler_name or ""
                found.update((rule, profile) for rule in waiting.refused_by)
        return found
