"""StatefulSets do one thing at a time, in order."""

from __future__ import annotations

from typing import Any

from berth.controllers.workloads.stateful_set import StatefulSetController
from berth.kube.api_resources import CLAIMS, EVENTS, PODS, REVISIONS, STATEFUL_SETS
from berth.machines.contract import Action, Create, Outcome
from tests.support.scripts.script import Script, image_of, new_image, workload


def script(replicas: int = 3, **spec: Any) -> Script:
    world = Script(StatefulSetController)
    world.create(STATEFUL_SETS, workload("db", replicas, **spec))
    world.settle()
    return world


def run(world: Script, times: int = 10) -> None:
    """Make every pod ready as soon as it is there."""
    for _ in range(times):
        world.settle()
        waiting = [p["metadata"]["name"] for p in world.all(PODS) if "status" not in p]
        if not waiting:
            return
        world.set_ready(*waiting)


def test_pods_are_created_in_order() -> None:
    """The next pod comes when the one before it is ready."""
    world = script()
    assert world.names(PODS) == ["db-0"]
    world.set_ready("db-0")
    world.settle()
    assert world.names(PODS) == ["db-0", "db-1"]
    labels = world.get(PODS, "db-1")["metadata"]["labels"]
    assert (
        labels["statefulset.kubernetes.io/pod-name"],
        labels["apps.kubernetes.io/pod-index"],
    ) == ("db-1", "1")


def test_parallel_sets_do_not_wait() -> None:
    """podManagementPolicy Parallel creates everything at once."""
    assert script(podManagementPolicy="Parallel").names(PODS) == ["db-0", "db-1", "db-2"]


def test_scaling_down_takes_the_highest_number_first() -> None:
    """One pod goes at a time, and a lost pod keeps its name."""
    world = script()
    run(world)
    world.change(STATEFUL_SETS, "db", {"spec": {"replicas": 1}})
    world.done.clear()
    world.settle()
    assert world.names(PODS) == ["db-0"]
    assert [action.name for action in world.done if action.name.startswith("db-")] == ["db-2", "db-1"]
    world.delete(PODS, "db-0")
    world.settle()
    assert world.names(PODS) == ["db-0"]


def test_an_update_goes_from_the_highest_number_down_to_the_partition() -> None:
    """Pods below the partition keep the old revision, also when they are made again."""
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
    world = script(updateStrategy=rolling)
    run(world)
    world.change(STATEFUL_SETS, "db", new_image("v2"))
    run(world)
    images = {pod["metadata"]["name"]: image_of(pod) for pod in world.all(PODS)}
    assert images == {"db-0": "v1", "db-1": "v2", "db-2": "v2"}
    world.delete(PODS, "db-0")
    run(world)
    assert image_of(world.get(PODS, "db-0")) == "v1"
    world.change(STATEFUL_SETS, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    run(world)
    status = world.get(STATEFUL_SETS, "db")["status"]
    assert status["currentRevision"] == status["updateRevision"]
    assert len(world.all(REVISIONS)) == 2


def test_an_update_stops_at_a_pod_that_does_not_become_ready() -> None:
    """The rest of the set is not touched."""
    world = script()
    run(world)
    world.change(STATEFUL_SETS, "db", new_image("broken"))
    world.advance(600)
    images = {pod["metadata"]["name"]: image_of(pod) for pod in world.all(PODS)}
    assert images == {"db-0": "v1", "db-1": "v1", "db-2": "broken"}


def test_claims_are_made_before_their_pod_and_stay() -> None:
    """Every pod gets a claim of its own for each template."""
    template = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    world = script(2, volumeClaimTemplates=[template])
    run(world)
    assert world.names(CLAIMS) == ["data-db-0", "data-db-1"]
    assert world.get(PODS, "db-1")["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"] == "data-db-1"


def test_a_finished_pod_is_replaced() -> None:
    """A pod that failed is deleted and made again under its name."""
    world = script(1)
    run(world)
    before = world.get(PODS, "db-0")["metadata"]["uid"]
    world.finish("db-0", "Failed")
    world.settle()
    assert before != world.get(PODS, "db-0")["metadata"]["uid"]


def test_only_what_was_made_is_told_as_made() -> None:
    """A pod that is refused has an event that says so, and none that says it was made."""
    world = Script(StatefulSetController)

    def admission(action: Action) -> Outcome | None:
        if isinstance(action, Create) and action.resource == PODS:
            return Outcome(at=world.now, code=403, reason="Forbidden", message="no")
        return None

    world.refuse = admission
    world.create(STATEFUL_SETS, workload("db", 1))
    world.advance(10)
    assert {event["reason"] for event in world.all(EVENTS)} == {"FailedCreate"}
    world.refuse = lambda _action: None
    world.advance(60)
    told = [event["message"] for event in world.all(EVENTS) if event["reason"] == "SuccessfulCreate"]
    assert told == ["create Pod db-0 in StatefulSet db successful"]
