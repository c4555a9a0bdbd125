"""Budgets say how many pods may go now."""

from __future__ import annotations

from typing import Any

import pytest

from berth.controllers.disruption import DisruptionController
from berth.kube.api_resources import BUDGETS, PODS, REPLICA_SETS
from berth.kube.times import stamp
from tests.support.scripts.script import Script, workload


def script(pods: int, replicas: int | None = None, **spec: Any) -> Script:
    world = Script(DisruptionController)
    owner = world.create(REPLICA_SETS, workload("web", replicas if replicas is not None else pods))
    reference = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "name": "web",
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    for number in range(pods):
        metadata = {"name": f"p{number}", "labels": {"app": "web"}, "ownerReferences": [reference]}
        world.create(PODS, {"metadata": metadata, "spec": {"nodeName": "n"}})
    world.create(
        BUDGETS, {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, **spec}}
    )
    world.set_ready()
    world.settle()
    return world


def figures(world: Script) -> tuple[int, int, int, int]:
    status = world.get(BUDGETS, "web")["status"]
    return (
        status["currentHealthy"],
        status["desiredHealthy"],
        status["expectedPods"],
        status["disruptionsAllowed"],
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"minAvailable": 2}, (4, 2, 4, 2)),
        ({"minAvailable": "60%"}, (4, 3, 5, 1)),
        ({"maxUnavailable": 1}, (4, 4, 5, 0)),
        ({"maxUnavailable": "30%"}, (4, 3, 5, 1)),
        ({"minAvailable": "100%"}, (4, 5, 5, 0)),
    ],
)
def test_numbers_and_percentages(spec: dict[str, Any], expected: tuple[int, int, int, int]) -> None:
    """Percentages are of what the workload should run, and round up."""
    assert expected == figures(script(4, 5, **spec))


def test_pods_that_are_not_ready_do_not_count_as_healthy() -> None:
    """The status follows the pods."""
    world = script(3, maxUnavailable=1)
    assert figures(world)[3] == 1
    world.set_ready("p0", ready=False)
    world.settle()
    assert figures(world) == (2, 2, 3, 0)
    condition = world.get(BUDGETS, "web")["status"]["conditions"][0]
    assert (
        condition["type"],
        condition["status"],
        condition["reason"],
    ) == ("DisruptionAllowed", "False", "InsufficientPods")


def test_an_eviction_under_way_counts_until_it_is_seen_or_forgotten() -> None:
    """disruptedPods are subtracted, dropped when the pod goes, and expire after two minutes."""
    world = script(3, maxUnavailable=1)
    disrupted = {"p0": stamp(world.now)}
    world.change(BUDGETS, "web", {"status": {"disruptedPods": disrupted, "disruptionsAllowed": 0}})
    world.settle()
    assert figures(world) == (2, 2, 3, 0)
    world.advance(121)
    assert figures(world) == (3, 2, 3, 1)
    assert world.get(BUDGETS, "web")["status"]["disruptedPods"] == {}


def test_pods_without_a_scale_are_not_counted() -> None:
    """With a pod of a Job a share cannot be counted: nobody may go, until that pod is gone."""
    world = script(4, 4, maxUnavailable=1)
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": True}
    metadata = {"name": "j-0", "labels": {"app": "web"}, "ownerReferences": [job]}
    world.create(PODS, {"metadata": metadata, "spec": {"nodeName": "n"}})
    world.settle()
    status = world.get(BUDGETS, "web")["status"]
    (condition,) = status["conditions"]
    assert status["disruptionsAllowed"] == 0
    assert (condition["reason"], condition["message"]) == (
        "SyncFailed",
        "jobs.batch does not implement the scale subresource",
    )
    world.delete(PODS, "j-0", grace=0)
    world.settle()
    assert figures(world) == (4, 3, 4, 1)
    assert world.get(BUDGETS, "web")["status"]["conditions"][0]["reason"] == "SufficientPods"
