"""The pods of a Job: how they are made, and how their ends are counted."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from berth.controllers.workloads.pods import pod_from
from berth.kube.api_resources import JOBS
from berth.kube.objects import LiveJob, LivePod, RawObject
from berth.kube.pods import is_active, is_terminating, phase, pod_condition
from berth.kube.times import created_at, seconds, seconds_of
from berth.kube.well_known import FAILED, FALSE, JOB_COMPLETION_INDEX, READY, SUCCEEDED

FINALIZER = "batch.kubernetes.io/job-tracking"


@dataclass(slots=True)
class Tally:
    """Ends of pods: those in the status for good, and those seen since.

    Attributes:
        new_succeeded, new_failed: Uids that the status names but has not added up yet.
        indexes: Of an indexed Job, those that succeeded.
    """

    recorded_succeeded: int = 0
    recorded_failed: int = 0
    new_succeeded: set[str] = field(default_factory=set)
    new_failed: set[str] = field(default_factory=set)
    indexes: set[int] = field(default_factory=set)
    indexed: bool = False

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
    status, recorded = job.status, job.status.uncounted_terminated_pods
    count = Tally(
        status.succeeded or 0,
        status.failed or 0,
        indexes=read_indexes(status.completed_indexes or ""),
        indexed=job.spec.completion_mode == "Indexed",
    )
    tracked = {pod.metadata.uid or "": pod for pod in pods if FINALIZER in (pod.metadata.finalizers or ())}
    succeeded = {*((recorded.succeeded if recorded else None) or ())}
    failed = {*((recorded.failed if recorded else None) or ())}
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
    text = (pod.metadata.annotations or {}).get(JOB_COMPLETION_INDEX, "")
    return int(text) if text.isdigit() else None


def missing_indexes(job: LiveJob, pods: list[LivePod], count: Tally) -> list[int]:
    """Indexes that neither succeeded nor are being worked on, lowest first."""
    busy = {index_of(pod) for pod in pods if is_active(pod)}
    return [n for n in range(job.spec.completions or 0) if n not in count.indexes and n not in busy]


def read_indexes(text: str) -> set[int]:
    """``1,3-5`` as numbers."""
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
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
    metadata = job.metadata
    name, uid = metadata.name or "", metadata.uid or ""
    labels = {
        "batch.kubernetes.io/controller-uid": uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "job-name": name,
    }
    prefix, annotations = name, {}
    if index is not None:
        prefix, annotations = f"{name}-{index}", {JOB_COMPLETION_INDEX: str(index)}
    pod = pod_from(
        job.spec.template,
        JOBS,
        metadata,
        generate_name=f"{prefix}-",
        labels=labels | annotations,
        annotations=annotations,
    )
    if index is not None:
        spec = pod["spec"]
        spec.setdefault("hostname", prefix)
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
            container["env"] = [
                *(container.get("env") or ()),
                {"name": "JOB_COMPLETION_INDEX", "value": str(index)},
            ]
    pod["metadata"]["finalizers"] = [*(pod["metadata"].get("finalizers") or ()), FINALIZER]
    return pod
