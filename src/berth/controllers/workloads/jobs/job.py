"""Jobs: pods that run to their end, counted exactly once.

A finished pod is kept by a finalizer until the Job's status has counted it, so that a pod that is
deleted early is neither lost nor counted twice.  Upstream: pkg/controller/job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.pods import pod_from, restarts
from berth.kube.amounts.integers import integer
from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import JOBS, PODS
from berth.kube.objects import Key, LiveJob, LivePod, RawObject, UncountedPods, key_of
from berth.kube.ownership import JOB_OVER, controller_of
from berth.kube.pods import is_active, is_ready, is_terminating, phase, pod_condition, true_condition
from berth.kube.times import created_at, seconds, seconds_of, stamp
from berth.kube.well_known import (
    DELETED,
    FAILED,
    FALSE,
    JOB_COMPLETION_INDEX,
    JOB_NAME,
    JOB_UID,
    READY,
    SUCCEEDED,
    TRUE,
)
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.rates import Backoff
from berth.machines.recorder import NORMAL, WARNING
from berth.machines.requests import Conditions, delete, is_news, status_patch, without_finalizer

# --- pods -----------------------------------------------------------------------------------------
# How they are made, and how their ends are counted.

FINALIZER = "batch.kubernetes.io/job-tracking"


@dataclass(slots=True)
class Tally:
    """A Job while it is looked at: the ends of its pods, those in the status and those seen since."""

    job: LiveJob
    pods: list[LivePod]
    recorded_succeeded: int = 0
    recorded_failed: int = 0
    # Uids that the status names but has not added up yet, or that are seen for the first time.
    new_succeeded: set[str] = field(default_factory=set)
    new_failed: set[str] = field(default_factory=set)
    indexes: set[int] = field(default_factory=set)  # of an indexed Job, those that succeeded

    @property
    def key(self) -> Key:
        return key_of(self.job.metadata)

    @property
    def indexed(self) -> bool:
        return self.job.spec.completion_mode == "Indexed"

    @property
    def active(self) -> list[LivePod]:
        return [pod for pod in self.pods if is_active(pod)]

    @property
    def succeeded(self) -> int:
        return len(self.indexes) if self.indexed else self.recorded_succeeded + len(self.new_succeeded)

    @property
    def failed(self) -> int:
        return self.recorded_failed + len(self.new_failed)

    @property
    def uncounted(self) -> set[str]:
        return self.new_succeeded | self.new_failed


def tally(job: LiveJob, pods: list[LivePod]) -> Tally:
    """Count ends: a pod counts while it holds the finalizer, and for good once it has lost it."""
    status, recorded = job.status, job.status.uncounted_terminated_pods or UncountedPods()
    indexes = read_indexes(status.completed_indexes or "")
    count = Tally(job, pods, status.succeeded or 0, status.failed or 0, indexes=indexes)
    tracked = {pod.metadata.uid or "": pod for pod in pods if _tracked(pod)}
    succeeded, failed = set(recorded.succeeded or ()), set(recorded.failed or ())
    count.new_succeeded, count.new_failed = succeeded & tracked.keys(), failed & tracked.keys()
    count.recorded_succeeded += len(succeeded - tracked.keys())
    count.recorded_failed += len(failed - tracked.keys())
    for uid, pod in tracked.items():
        if phase(pod) == SUCCEEDED:
            count.new_succeeded.add(uid)
            if (index := index_of(pod)) is not None:
                count.indexes.add(index)
        elif phase(pod) == FAILED or is_terminating(pod):
            count.new_failed.add(uid)
    if count.indexed and count.recorded_succeeded + len(count.new_succeeded) > len(count.indexes):
        count.recorded_succeeded = max(len(count.indexes) - len(count.new_succeeded), 0)
    return count


def ended_at(pod: LivePod) -> float:
    """When a finished pod ended, as far as it says.

    One that the kubelet refused has no container that ended: the latest that is known of it stands in, so
    that its end is never forgotten.  Upstream: getFinishedTime in pkg/controller/job/backoff_utils.go.
    """
    status, metadata = pod.status, pod.metadata
    states = [known.state for known in (status.container_statuses if status else None) or ()]
    ends = [seconds_of(state.terminated.get("finishedAt")) for state in states if state and state.terminated]
    if known := [end for end in ends if end is not None]:
        return max(known)
    ready = pod_condition(pod, READY)
    if ready is not None and ready.status == FALSE and ready.last_transition_time:
        return seconds(ready.last_transition_time)
    if metadata.deletion_timestamp:
        return seconds(metadata.deletion_timestamp) - (metadata.deletion_grace_period_seconds or 0)
    times = [entry.last_transition_time for entry in (status.conditions if status else None) or ()]
    times.append(status.start_time if status else None)
    return max([created_at(metadata), *(seconds(time) for time in times if time)])


def index_of(pod: LivePod) -> int | None:
    return integer((pod.metadata.annotations or {}).get(JOB_COMPLETION_INDEX, ""), least=0)


def missing_indexes(count: Tally) -> list[int]:
    """Indexes that neither succeeded nor are being worked on, lowest first."""
    busy = set(map(index_of, count.active))
    return [n for n in range(count.job.spec.completions or 0) if n not in count.indexes and n not in busy]


def read_indexes(text: str) -> set[int]:
    """``1,3-5`` as numbers."""
    found: set[int] = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        begin, end = integer(first, least=0), integer(last or first, least=0)
        if begin is not None and end is not None:
            found.update(range(begin, end + 1))
    return found


def spelled_indexes(indexes: Iterable[int]) -> str:
    """Numbers as ``1,3-5``."""
    runs: list[list[int]] = []
    for number in sorted(indexes):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    # Two neighbours are written apart, as upstream does it.
    return ",".join(str(a) if a == b else f"{a},{b}" if b == a + 1 else f"{a}-{b}" for a, b in runs)


def job_pod(job: LiveJob, index: int | None) -> RawObject:
    name, uid = job.metadata.name or "", job.metadata.uid or ""
    labels = {JOB_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
    prefix, annotations = name, {}
    if index is not None:
        prefix, annotations = f"{name}-{index}", {JOB_COMPLETION_INDEX: str(index)}
    pod = pod_from(job, JOBS, prefix=prefix, labels=labels | annotations, annotations=annotations)
    if index is not None:
        spec = pod["spec"]
        spec.setdefault("hostname", prefix)
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            told = {"name": "JOB_COMPLETION_INDEX", "value": str(index)}
            container["env"] = [*(container.get("env") or ()), told]
    pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), FINALIZER]
    return pod


# --- the controller -------------------------------------------------------------------------------

_BACKOFF = Backoff(first=10.0, longest=600.0)
_EARLY = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}


class JobController(WorkloadController):
    name = "job-controller"
    watches = (JOBS, PODS)
    owner = JOBS
    adopts = False

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._strays: dict[Key, dict[Key, None]] = {}  # by the key that is queued: pods whose Job may be gone

    def handle(self, event: Event) -> None:
        super().handle(event)
        if event.resource == PODS:
            if event.change != DELETED and _tracked(event.object) and not self._has_job(event.object):
                owner = controller_of(event.object.metadata)
                self._stray((event.key[0], (owner.name if owner else None) or event.key[1]), event.key)
        elif event.change == DELETED or _uid(event.old) not in (None, _uid(event.object)):
            gone = _uid(event.object if event.change == DELETED else event.old)
            for pod in self.cache.owned(PODS, gone, LivePod):
                self._stray(event.key, key_of(pod.metadata))

    def _stray(self, key: Key, pod: Key) -> None:
        self._strays.setdefault(key, {})[pod] = None
        self.queue.add(key)

    def _has_job(self, pod: LivePod) -> bool:
        owner, job = controller_of(pod.metadata), self.cache.controller(pod.metadata, LiveJob, JOBS)
        return owner is not None and job is not None and job.metadata.uid == owner.uid

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        found = (self.cache.get(PODS, pod, LivePod) for pod in self._strays.pop(key, ()))
        strays = [pod for pod in found if pod is not None and _tracked(pod) and not self._has_job(pod)]
        if strays:
            self._strays[key] = {key_of(pod.metadata): None for pod in strays}
            yield from self._release(key, strays)
        job = self.cache.get(JOBS, key, LiveJob)
        if job is not None:
            yield from self._advance(key, job, now)

    def _advance(self, key: Key, job: LiveJob, now: float) -> Iterator[Action]:
        pods = self.cache.owned(PODS, job.metadata.uid, LivePod)
        if job.metadata.deletion_timestamp:
            yield from self._release(key, [pod for pod in pods if _tracked(pod)])
            return
        if finished_at(job) is not None:
            yield from self._after(key, job, pods, now)
            return
        if self.waits(job.metadata, now):
            return
        count = tally(job, pods)
        outcome = self._outcome(count, now)
        if outcome is not None:
            yield from self._finish(count, outcome, now)
            return
        manage = list(self._manage(count, now))
        yield from self._status(count, now)
        yield from manage
        yield from self._counted(count)

    # --- deciding -----------------------------------------------------------------------------------

    def _outcome(self, count: Tally, now: float) -> tuple[str, str, str] | None:
        """Complete or Failed, with reason and message; None while it goes on."""
        job, active = count.job, count.active
        for kind, early in _EARLY.items():
            if (known := true_condition(job.status.conditions, early)) is not None:
                return kind, known.reason or "", known.message or ""
        spec = job.spec
        limit = 6 if spec.backoff_limit is None else spec.backoff_limit
        tried_again = sum(restarts(pod) for pod in active) if _on_failure(job) else 0
        if count.failed + tried_again > limit:
            return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        started, deadline = job.status.start_time, spec.active_deadline_seconds
        if started and deadline is not None and not spec.suspend:
            if seconds(started) + deadline <= now:
                return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
            self.queue.add_at(count.key, seconds(started) + deadline)
        if spec.completions is None:
            enough = count.succeeded > 0 and not active
        else:
            enough = count.succeeded >= spec.completions
        if enough:
            return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        return None

    def _manage(self, count: Tally, now: float) -> Iterator[Action]:
        job, active = count.job, count.active
        parallelism = or_one(job.spec.parallelism)
        if job.spec.suspend:
            wanted = 0
        elif job.spec.completions is None:
            wanted = len(active) if count.succeeded else parallelism
        else:
            wanted = min(parallelism, job.spec.completions - count.succeeded)
        if len(active) > wanted:
            surplus = sorted(active, key=lambda pod: (is_ready(pod), pod.metadata.creation_timestamp or ""))
            for pod in surplus[: len(active) - wanted]:
                yield self.delete_pod(job, pod, f"{wanted} pods wanted", now)
        elif len(active) < wanted:
            yield from self._create(count, wanted - len(active), now)

    def _create(self, count: Tally, number: int, now: float) -> Iterator[Action]:
        job = count.job
        ends = [ended_at(pod) for pod in count.pods if phase(pod) == FAILED] if count.failed else []
        # A pod that failed is replaced later each time.
        if ends and self.queue.put_off(count.key, max(ends) + _BACKOFF.after(count.failed), now):
            return
        indexes: list[int | None] = [None] * number
        if count.indexed:
            indexes = list(missing_indexes(count)[:number])
        for index in indexes[: self.creations_allowed(job.metadata, len(indexes), now)]:
            yield self.create_pod(job, job_pod(job, index), "too few pods", now)

    # --- counting -----------------------------------------------------------------------------------

    def _counted(self, count: Tally) -> Iterator[Action]:
        """Let go of pods whose end is on record."""
        uids = _recorded(count.job)
        if uids == count.uncounted:
            ended = [p for p in count.pods if p.metadata.uid in uids and _tracked(p)]
            yield from self._release(count.key, ended)

    def _release(self, key: Key, pods: list[LivePod]) -> Iterator[Action]:
        for pod in pods:
            yield without_finalizer(PODS, pod, FINALIZER, "its end is on record", key=key)

    # --- ending -------------------------------------------------------------------------------------

    def _finish(self, count: Tally, outcome: tuple[str, str, str], now: float) -> Iterator[Action]:
        """Stop what still runs, count every end, and only then say that it is over."""
        job, active, (kind, reason, message) = count.job, count.active, outcome
        conditions = Conditions(job.status.conditions, now)
        conditions.set(_EARLY[kind], TRUE, reason, message)
        for pod in active:
            yield self.delete_pod(job, pod, message, now)
        if active or count.uncounted or any(map(_tracked, count.pods)):
            yield from self._status(count, now, conditions)
            yield from self._counted(count)
            return
        conditions.set(kind, TRUE, reason, message)
        status = _numbers(count)
        status["conditions"] = conditions.list()
        if kind == "Complete":
            status["completionTime"] = stamp(now)
        yield status_patch(JOBS, job, status, message)
        event = ("Completed", "Job completed") if kind == "Complete" else (reason, message)
        self.recorder.record(now, JOBS, job, NORMAL if kind == "Complete" else WARNING, *event)

    def _after(self, key: Key, job: LiveJob, pods: list[LivePod], now: float) -> Iterator[Action]:
        yield from self._release(key, [pod for pod in pods if _tracked(pod) and not is_active(pod)])
        ttl, ended = job.spec.ttl_seconds_after_finished, finished_at(job)
        if ttl is None or ended is None:
            return
        if not self.queue.put_off(key, ended + ttl, now):
            yield delete(JOBS, job, "its time to live is over", propagation="Background")

    # --- status -------------------------------------------------------------------------------------

    def _status(self, count: Tally, now: float, conditions: Conditions | None = None) -> Iterator[Action]:
        job, old, status = count.job, count.job.status, _numbers(count)
        conditions = conditions or Conditions(old.conditions, now)
        if job.spec.suspend:
            conditions.set("Suspended", TRUE, "JobSuspended", "Job suspended")
        elif conditions.get("Suspended") is not None:
            conditions.set("Suspended", FALSE, "JobResumed", "Job resumed")
        counts = {name: value for name, value in status.items() if name != "uncountedTerminatedPods"}
        news = is_news(job, counts) or count.uncounted != _recorded(job)
        if not old.start_time and not job.spec.suspend:
            status["startTime"] = stamp(now)
        if news or "startTime" in status or conditions.changed:
            if conditions.changed:
                status["conditions"] = conditions.list()
            yield status_patch(JOBS, job, status)


def _numbers(count: Tally) -> RawObject:
    status: RawObject = {
        "active": len(count.active),
        "ready": sum(map(is_ready, count.active)),
        "succeeded": count.recorded_succeeded,
        "failed": count.recorded_failed,
        "uncountedTerminatedPods": {
            "succeeded": sorted(count.new_succeeded) or None,
            "failed": sorted(count.new_failed) or None,
        },
    }
    if count.indexed:
        status["completedIndexes"] = spelled_indexes(count.indexes)
    return status


def finished_at(job: LiveJob) -> float | None:
    """When a Job ended, None if it has not."""
    for kind in JOB_OVER:
        if (found := true_condition(job.status.conditions, kind)) is not None:
            return seconds(found.last_transition_time) if found.last_transition_time else 0.0
    return None


def _recorded(job: LiveJob) -> set[str]:
    """The pods whose end the status names but has not added up yet."""
    recorded = job.status.uncounted_terminated_pods or UncountedPods()
    return {*(recorded.succeeded or ()), *(recorded.failed or ())}


def _uid(item: LiveJob | None) -> str | None:
    return item.metadata.uid if item is not None else None


def _tracked(pod: LivePod) -> bool:
    return FINALIZER in (pod.metadata.finalizers or ())


def _on_failure(job: LiveJob) -> bool:
    return ((job.spec.template or {}).get("spec") or {}).get("restartPolicy") == "OnFailure"
