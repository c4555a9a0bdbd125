"""Jobs count the end of every pod exactly once."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from berth.controllers.workloads.jobs.job import JobController, index_of, read_indexes, spelled_indexes
from berth.kube.api_resources import JOBS, PODS
from berth.kube.objects import LivePod, ObjectMeta
from berth.kube.times import stamp
from tests.support.scripts.script import Script


def script(**spec: Any) -> Script:
    world = Script(JobController)
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    world.create(JOBS, {"metadata": {"name": "sum"}, "spec": {"template": template, **spec}})
    world.settle()
    return world


def unfinished(world: Script) -> list[str]:
    done = ("Succeeded", "Failed")
    return [
        pod["metadata"]["name"]
        for pod in world.all(PODS)
        if pod.get("status", {}).get("phase") not in done and "deletionTimestamp" not in pod["metadata"]
    ]


def conditions(world: Script) -> dict[str, str]:
    entries = world.get(JOBS, "sum")["status"].get("conditions") or ()
    return {entry["type"]: entry["reason"] for entry in entries if entry["status"] == "True"}


def test_completions_and_parallelism() -> None:
    """A Job has no more than `parallelism` pods at a time, and `completions` in all."""
    world = script(completions=5, parallelism=2)
    most = 0
    while names := unfinished(world):
        most = max(most, len(names))
        world.finish(names[0], "Succeeded")
        world.settle()
    status = world.get(JOBS, "sum")["status"]
    assert (most, status["succeeded"], status["active"]) == (2, 5, 0)
    assert {"SuccessCriteriaMet", "Complete"} == set(conditions(world))
    assert "completionTime" in status
    assert not any(pod["metadata"].get("finalizers") for pod in world.all(PODS))


def test_a_finished_pod_that_is_deleted_is_neither_lost_nor_counted_twice() -> None:
    """The finalizer keeps a pod until its end is on record."""
    world = script(completions=3, parallelism=1)
    world.finish(unfinished(world)[0], "Succeeded")
    world.settle()
    for pod in list(world.all(PODS)):
        if pod["status"].get("phase") == "Succeeded" if "status" in pod else False:
            world.delete(PODS, pod["metadata"]["name"])
    world.settle()
    while names := unfinished(world):
        world.finish(names[0], "Succeeded")
        world.settle()
    assert world.get(JOBS, "sum")["status"]["succeeded"] == 3
    assert len(world.all(PODS)) == 2


def test_failures_are_retried_later_and_later_up_to_the_limit() -> None:
    """backoffLimit failures are forgiven, the next one ends the Job."""
    world = script(backoffLimit=2)
    for _ in range(3):
        names = unfinished(world)
        while not names:
            world.advance(5)
            names = unfinished(world)
        world.finish(names[0], "Failed")
        world.settle()
    assert conditions(world)["Failed"] == "BackoffLimitExceeded"
    assert world.get(JOBS, "sum")["status"]["failed"] == 3


def refuse(world: Script, name: str, **status: Any) -> None:
    """As the kubelet does it: the pod fails before any container has begun."""
    world.change(PODS, name, {"status": {"phase": "Failed", "reason": "NodeAffinity", **status}})
    world.settle()


def test_pods_that_the_kubelet_refuses_are_replaced_later_and_later() -> None:
    """Without the end of a container the delay is 10 s and twice as long each time, too."""
    world = script()
    made = []
    for _ in range(7):
        while not (names := unfinished(world)):
            world.advance(1)
        made.append(world.now)
        refuse(world, names[0])
    assert [b - a for a, b in itertools.pairwise(made)] == [10, 20, 40, 80, 160, 320]
    assert conditions(world)["Failed"] == "BackoffLimitExceeded"


def test_the_delay_is_ten_minutes_at_most() -> None:
    """However many pods were refused, the next one comes."""
    world = script(backoffLimit=20)
    world.change(JOBS, "sum", {"status": {"failed": 12}})
    refuse(world, unfinished(world)[0])
    world.advance(599)
    assert unfinished(world) == []
    world.advance(2)
    assert len(unfinished(world)) == 1


def scheduled(when: str) -> dict[str, Any]:
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": when}


@pytest.mark.parametrize("told", ["PodScheduled", "Ready", "startTime"])
def test_a_pod_that_waited_long_for_its_node_is_no_older_failure(told: str) -> None:
    """The delay counts from the refusal, not from when the pod was made."""
    world = script()
    (name,) = unfinished(world)
    world.advance(3600)
    now = stamp(world.now)
    unready = {"type": "Ready", "status": "False", "lastTransitionTime": now}
    ways: dict[str, dict[str, Any]] = {
        "PodScheduled": {"conditions": [scheduled(now)]},
        "Ready": {"conditions": [unready]},
        "startTime": {"startTime": now},
    }
    refuse(world, name, **ways[told])
    world.advance(8)
    assert unfinished(world) == []
    world.advance(3)
    assert len(unfinished(world)) == 1


def test_the_last_container_that_ended_counts() -> None:
    """The delay counts from the last end where there are some."""
    world = script()
    (name,) = unfinished(world)
    start = world.now
    world.advance(100)
    ends = [stamp(start + 50), stamp(start + 98), stamp(start + 40)]
    states = [{"name": f"c{n}", "state": {"terminated": {"finishedAt": end}}} for n, end in enumerate(ends)]
    refuse(world, name, containerStatuses=states, conditions=[scheduled(stamp(start))])
    world.advance(6)
    assert unfinished(world) == []
    world.advance(3)
    assert len(unfinished(world)) == 1


def test_the_deadline_ends_a_job() -> None:
    """activeDeadlineSeconds counts from the start; running pods are removed."""
    world = script(activeDeadlineSeconds=60)
    world.advance(61)
    assert conditions(world)["FailureTarget"] == "DeadlineExceeded"
    assert unfinished(world) == []


def test_indexed_jobs_work_on_every_index_once() -> None:
    """A failed index is tried again, and the status lists what is complete."""
    world = script(completions=3, parallelism=3, completionMode="Indexed", backoffLimit=5)
    first = {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] for pod in world.all(PODS)
    }
    assert {"0", "1", "2"} == first
    world.finish(unfinished(world)[1], "Failed")
    world.advance(15)
    for name in unfinished(world):
        world.finish(name, "Succeeded")
    world.settle()
    status = world.get(JOBS, "sum")["status"]
    assert (status["completedIndexes"], status["succeeded"], status["failed"]) == ("0-2", 3, 1)
    assert "Complete" in conditions(world)


def test_a_suspended_job_has_no_pods() -> None:
    """Suspending stops the pods, resuming starts them again."""
    world = script(suspend=True)
    assert world.all(PODS) == []
    world.change(JOBS, "sum", {"spec": {"suspend": False}})
    world.settle()
    assert len(unfinished(world)) == 1
    world.change(JOBS, "sum", {"spec": {"suspend": True}})
    world.settle()
    assert unfinished(world) == []


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    """ttlSecondsAfterFinished removes the Job itself."""
    world = script(ttlSecondsAfterFinished=30)
    world.finish(unfinished(world)[0], "Succeeded")
    world.settle()
    world.advance(29)
    assert world.names(JOBS) == ["sum"]
    world.advance(2)
    assert world.names(JOBS) == []


@pytest.mark.parametrize(
    ("indexes", "text"), [(set(), ""), ({1}, "1"), ({1, 2}, "1,2"), ({0, 2, 3, 4}, "0,2-4")]
)
def test_indexes_are_spelled_as_ranges(indexes: set[int], text: str) -> None:
    """Completed indexes are written as ranges and read back."""
    assert text == spelled_indexes(indexes)
    assert indexes == read_indexes(text)


@pytest.mark.parametrize("text", ["²", "--5", "1-", "-1", "x", "1-²,,7"])
def test_what_is_no_index_is_passed_over(text: str) -> None:
    """A status or an annotation with nonsense in it names no index, and is no error."""
    assert read_indexes(text) <= {1, 7}
    annotations = {"batch.kubernetes.io/job-completion-index": text}
    assert index_of(LivePod(metadata=ObjectMeta(annotations=annotations))) is None


def test_the_pods_of_a_job_that_is_gone_are_let_go() -> None:
    """Whoever deletes a Job in the background takes it from its pods: nobody counts their ends any more."""
    world = script(completions=2, parallelism=2)
    world.delete(JOBS, "sum", grace=0)
    world.settle()
    assert [pod["metadata"].get("finalizers") for pod in world.all(PODS)] == [None, None]


def test_pods_without_a_job_are_let_go_after_a_restart() -> None:
    """Pods that hold the finalizer and have another Job, or none, are found when they are first seen."""
    world = script(completions=1)
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "sum", "uid": "old", "controller": True}
    held = {"finalizers": ["batch.kubernetes.io/job-tracking"]}
    world.create(PODS, {"metadata": {"name": "older", "ownerReferences": [reference], **held}})
    world.create(PODS, {"metadata": {"name": "orphan", **held}})
    world.settle()
    found = {pod["metadata"]["name"]: bool(pod["metadata"].get("finalizers")) for pod in world.all(PODS)}
    assert (found.pop("older"), found.pop("orphan"), list(found.values())) == (False, False, [True])
