"""ReplicaSets keep the number of pods they are asked for, whatever the watch shows and when."""

from __future__ import annotations

from typing import Any

from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.kube.api_resources import EVENTS, PODS, REPLICA_SETS
from berth.machines.contract import Action, Create, Outcome
from tests.support.scripts.script import Script, verbs, workload


def script(replicas: int = 3, **spec: Any) -> Script:
    world = Script(ReplicaSetController)
    world.create(REPLICA_SETS, workload("web", replicas, **spec))
    world.settle()
    return world


def test_pods_are_made_from_the_template() -> None:
    """Every pod has the template's labels and spec and is owned by its ReplicaSet."""
    world = script(2)
    pods = world.all(PODS)
    assert [pod["metadata"]["labels"] for pod in pods] == [{"app": "web"}] * 2
    owner = pods[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ReplicaSet", "web", True)


def test_a_slow_watch_never_doubles_a_pod() -> None:
    """Until the pods that were created are seen, no more are created."""
    world = Script(ReplicaSetController)
    world.held.add(PODS)
    world.create(REPLICA_SETS, workload("web", 3))
    world.settle()
    world.change(REPLICA_SETS, "web", {"metadata": {"labels": {"touched": "yes"}}})
    world.settle()
    assert len(world.names(PODS)) == 3
    world.deliver()
    world.settle()
    assert len(world.names(PODS)) == 3


def test_a_creation_that_was_never_seen_is_given_up_after_five_minutes() -> None:
    """Expectations end, so that a lost event does not stop a ReplicaSet for ever."""
    world = Script(ReplicaSetController)
    world.held.add(PODS)
    world.create(REPLICA_SETS, workload("web", 1))
    world.settle()
    for name in world.names(PODS):
        del world.objects[PODS, "default", name]
    world.undelivered.clear()
    world.held.clear()
    world.advance(301)
    assert len(world.names(PODS)) == 1


def test_pods_that_are_least_useful_go_first() -> None:
    """Scaling down takes pods without a node, then those that are not ready, then the cheap ones."""
    world = script(4)
    a, b, c, d = world.names(PODS)
    world.change(PODS, a, {"spec": {"nodeName": "n"}})
    world.change(PODS, b, {"spec": {"nodeName": "n"}})
    world.change(PODS, c, {"spec": {"nodeName": "n"}})
    for pod, cost in ((a, "--5"), (b, "-5")):  # the first is none
        annotations = {"controller.kubernetes.io/pod-deletion-cost": cost}
        world.change(PODS, pod, {"metadata": {"annotations": annotations}})
    world.set_ready(a, b)
    world.done.clear()
    for replicas in (3, 2, 1):
        world.change(REPLICA_SETS, "web", {"spec": {"replicas": replicas}})
        world.settle()
    assert [d, c, b] == [action.name for action in world.done if type(action).__name__ == "Delete"]


def test_status_counts_ready_and_available_pods() -> None:
    """A pod is available only after it was ready for minReadySeconds."""
    world = script(2, minReadySeconds=10)
    world.set_ready()
    world.settle()
    status = world.get(REPLICA_SETS, "web")["status"]
    assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (2, 2, 0)
    world.advance(11)
    assert world.get(REPLICA_SETS, "web")["status"]["availableReplicas"] == 2


def test_orphans_are_adopted_and_strangers_released() -> None:
    """The selector decides which pods belong to a ReplicaSet."""
    world = Script(ReplicaSetController)
    world.create(PODS, {"metadata": {"name": "old", "labels": {"app": "web"}}, "spec": {}})
    world.create(REPLICA_SETS, workload("web", 1))
    world.settle()
    assert world.names(PODS) == ["old"]
    assert world.get(PODS, "old")["metadata"]["ownerReferences"][0]["name"] == "web"
    world.change(PODS, "old", {"metadata": {"labels": {"app": "other"}}})
    world.settle()
    assert "ownerReferences" not in world.get(PODS, "old")["metadata"]
    assert len(world.names(PODS)) == 2


def test_failing_creations_slow_down_and_are_told() -> None:
    """A refused pod is tried once at a time, ever later, and the status says why."""
    world = Script(ReplicaSetController)

    def quota(action: Action) -> Outcome | None:
        if isinstance(action, Create) and action.resource == PODS:
            return Outcome(at=world.now, code=403, reason="Forbidden", message="exceeded quota")
        return None

    world.refuse = quota
    world.create(REPLICA_SETS, workload("web", 5))
    world.advance(60)
    condition = world.get(REPLICA_SETS, "web")["status"]["conditions"][0]
    assert (condition["type"], condition["message"]) == ("ReplicaFailure", "exceeded quota")
    assert len([verb for verb in verbs(world.done, PODS) if verb == "create"]) < 25
    assert "FailedCreate" in {event["reason"] for event in world.all(EVENTS)}
    world.refuse = lambda _action: None
    world.advance(120)
    assert len(world.names(PODS)) == 5
    assert not world.get(REPLICA_SETS, "web")["status"].get("conditions")


def test_a_request_says_why_it_is_made() -> None:
    """The reason of a creation is in the action, for the log."""
    world = script(1)
    created = next(action for action in world.done if isinstance(action, Create) and action.resource == PODS)
    assert created.why == "too few pods"
