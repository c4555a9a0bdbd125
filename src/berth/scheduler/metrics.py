"""What the scheduler counts, under kube-scheduler's names, so that dashboards and alerts carry over."""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum
from weakref import WeakSet

from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from berth.engine.placement.plan import Plan, time_rules
from berth.engine.state.cluster import Cluster
from berth.metrics import CounterMetric, HistogramMetric
from berth.scheduler.groups import Groups
from berth.scheduler.queue import QueuedPod, SchedulingPhase, SchedulingQueue

SCHEDULED, UNSCHEDULABLE, ERROR = "scheduled", "unschedulable", "error"
# One attempt in so many is timed rule by rule.
SAMPLED = 64
_QUEUES = (
    SchedulingPhase.ACTIVE,
    SchedulingPhase.BACKOFF,
    SchedulingPhase.UNSCHEDULABLE,
    SchedulingPhase.GATED,
)
_TEXTS = {
    "scheduler_schedule_attempts": "Attempts to place pods, by their result.",
    "scheduler_scheduling_attempt_duration_seconds": (
        "From taking a pod from the queue to its binding, or to knowing that there is no node."
    ),
    "scheduler_scheduling_algorithm_duration_seconds": "Time to choose a node.",
    "scheduler_pod_scheduling_sli_duration_seconds": (
        "From the time a pod could first be placed to its binding, over all attempts."
    ),
    "scheduler_pod_scheduling_attempts": "Attempts until a pod was placed.",
    "scheduler_preemption_attempts": "Attempts to make room.",
    "scheduler_preemption_victims": "Pods evicted at once to make room.",
    "scheduler_queue_incoming_pods": "Pods put into a queue, by the queue and by what put them there.",
    "scheduler_queue_incoming_entities": (
        "Pods of no group, and groups, put into a queue, by the queue and by what put them there."
    ),
    "berth_scheduler_unallocated_claim_attempts": (
        "Attempts to place pods that ended because a ResourceClaim has no devices yet."
    ),
    "scheduler_plugin_execution_duration_seconds": (
        "Time a rule takes for all nodes, measured on a sample of the placements."
    ),
    "scheduler_framework_extension_point_duration_seconds": (
        "Time of one step over all its rules, measured on a sample of the placements."
    ),
}
_MOST_ATTEMPTS = 15  # more are one value of the label


class _Entity(StrEnum):
    """What waits: a pod of its own, or a group."""

    POD = "pod"
    POD_GROUP = "podgroup"


def _doubling(first: float, count: int, factor: float = 2.0) -> tuple[float, ...]:
    return tuple(first * factor**step for step in range(count))


class SchedulerMetrics:
    """Written by the scheduler, read by whoever serves the registry."""

    def __init__(self, timer: Callable[[], float], registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        self.timer = timer
        self._placements = 0
        self._sampled: WeakSet[Plan] = WeakSet()  # every rule of theirs was timed before
        self._timed: set[tuple[str, bool, bool]] = set()  # rules, and whether they filtered and scored
        self.attempts = self._counter("scheduler_schedule_attempts", "result", "profile")
        self.attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds", _doubling(0.001, 15), "result", "profile"
        )
        self.algorithm_seconds = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds", _doubling(0.001, 15)
        )
        self.sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds", _doubling(0.01, 20), "attempts"
        )
        self.attempts_per_pod = self._histogram("scheduler_pod_scheduling_attempts", _doubling(1, 5))
        self.preemptions = self._counter("scheduler_preemption_attempts")
        self.victims = self._histogram("scheduler_preemption_victims", _doubling(1, 7))
        self.incoming = self._counter("scheduler_queue_incoming_pods", "queue", "event")
        self.incoming_entities: CounterMetric | None = None
        self.unallocated = self._counter("berth_scheduler_unallocated_claim_attempts", "profile")
        step = ("extension_point", "status")
        self.rule_seconds = self._histogram(
            "scheduler_plugin_execution_duration_seconds", _doubling(0.00001, 20, 1.5), "plugin", *step
        )
        self.step_seconds = self._histogram(
            "scheduler_framework_extension_point_duration_seconds", _doubling(0.0001, 12), *step, "profile"
        )

    def _counter(self, name: str, *labels: str) -> CounterMetric:
        return CounterMetric(name, _TEXTS[name], labels, registry=self.registry)

    def _histogram(self, name: str, buckets: tuple[float, ...], *labels: str) -> HistogramMetric:
        return HistogramMetric(name, _TEXTS[name], labels, buckets=buckets, registry=self.registry)

    # --- the queue ----------------------------------------------------------------------------------

    def count_entities(self) -> None:
        """Count groups of pods, and pods that belong to none, as well."""
        self.incoming_entities = self._counter("scheduler_queue_incoming_entities", "queue", "event", "type")

    def came(self, record: QueuedPod, event: str, *, joins: bool = False) -> None:
        """A pod was put in line by an event; it `joins` if others of its group were there before."""
        self.incoming.labels("active", event).inc()
        if self.incoming_entities is not None and not joins:
            entity = _Entity.POD if record.group is None else _Entity.POD_GROUP
            self.incoming_entities.labels("active", event, entity).inc()

    # --- attempts -----------------------------------------------------------------------------------

    def ended(self, result: str, profile: str, seconds: float) -> None:
        self.attempts.labels(result, profile).inc()
        self.attempt_seconds.labels(result, profile).observe(max(seconds, 0.0))

    def placed(self, record: QueuedPod, now: float) -> None:
        attempts = record.attempts + 1
        label = str(attempts) if attempts <= _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
        self.sli_seconds.labels(label).observe(max(now - (record.since or now), 0.0))
        self.attempts_per_pod.observe(attempts)

    def sample(self, plan: Plan, profile: str) -> None:
        """Time the rules of an attempt, every now and then, and whenever one is used for the first time."""
        self._placements += 1
        if self._placements % SAMPLED != 1 and plan in self._sampled:
            return
        self._sampled.add(plan)
        used = {(rule.name, rule.filters, rule.scores) for rule in plan.rules}
        if self._placements % SAMPLED != 1 and used <= self._timed:
            return
        self._timed |= used
        steps: Tally[str] = Tally()

        def observe(rule: str, step: str, seconds: float) -> None:
            steps[step] += seconds  # type: ignore[assignment]
            self.rule_seconds.labels(rule, step, "Success").observe(seconds)

        time_rules(plan, self.timer, observe)
        for step, seconds in steps.items():
            self.step_seconds.labels(step, "Success", profile).observe(seconds)


class QueueCollector(Collector):
    """Counts that the scheduler keeps anyway, read when asked for; `groups` is None where none counts."""

    def __init__(self, queue: SchedulingQueue, cluster: Cluster, groups: Groups | None) -> None:
        self._queue = queue
        self._cluster = cluster
        self._groups = groups

    def collect(self) -> Iterator[GaugeMetricFamily]:
        yield from self._queued()
        cache = {
            ("nodes",): self._cluster.nodes.live,
            ("pods",): len(self._cluster.pods.index),
            ("assumed_pods",): len(self._queue.assumed),
        }
        text = "Nodes, pods and assumed pods the scheduler knows."
        yield _gauge("scheduler_cache_size", text, ("type",), cache.items())
        refused: Tally[tuple[str, ...]] = Tally()
        for record in self._queue.pods.values():
            if record.phase in (SchedulingPhase.UNSCHEDULABLE, SchedulingPhase.BACKOFF):
                refused.update((rule, record.profile) for rule in record.refused_by)
        text = "Pods that found no node, by each rule that refused one."
        yield _gauge("scheduler_unschedulable_pods", text, ("plugin", "profile"), refused.items())

    def _queued(self) -> Iterator[GaugeMetricFamily]:
        text = "Pods without a node, by the queue they are in."
        alone = {phase: self._queue.counts.get(phase, 0) for phase in _QUEUES}
        pods = {(phase.value,): count for phase, count in alone.items()}
        if self._groups is None:
            yield _gauge("scheduler_pending_pods", text, ("queue",), pods.items())
            return
        groups, incomplete = dict.fromkeys(_QUEUES, 0), 0
        for known, phases in self._groups.waiting():
            waiting = [phase for phase in _QUEUES if phases[phase]]
            for phase in waiting:
                alone[phase] -= phases[phase]
            if known and waiting:
                groups[waiting[0]] += 1  # where its pods are that have come farthest
            elif not known:
                incomplete += phases[SchedulingPhase.GATED]
        pods[SchedulingPhase.GATED.value,] -= incomplete
        pods["incomplete",] = incomplete
        yield _gauge("scheduler_pending_pods", text, ("queue",), pods.items())
        entities = {
            (phase.value, entity): counts[phase]
            for phase in _QUEUES
            for entity, counts in ((_Entity.POD, alone), (_Entity.POD_GROUP, groups))
        }
        text = "Pods of no group, and groups, by the queue they are in."
        yield _gauge("scheduler_queued_entities", text, ("queue", "type"), entities.items())


def _gauge(
    name: str, text: str, labels: tuple[str, ...], counts: Iterable[tuple[tuple[str, ...], int]]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for values, count in counts:
        family.add_metric(values, count)
    return family
