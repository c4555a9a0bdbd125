"""Workloads leave tainted clusters, and the tasks that say so go in time."""

from __future__ import annotations

import json
from typing import Any

from berth.kube.api_resources import CLUSTERS, RESOURCE_BINDINGS
from berth.kube.times import stamp
from tests.support.scripts.propagation import PropagationScript
from tests.support.scripts.script import Raw

TAINT = {"key": "down", "effect": "NoExecute"}


def world(*clusters: str, **spec: Any) -> PropagationScript:
    """Clusters m1 and m2, and a binding on some of them."""
    made = PropagationScript()
    for name in ("m1", "m2"):
        made.create(CLUSTERS, {"metadata": {"name": name}, "spec": {}})
    targets = [{"name": name, "replicas": 2} for name in clusters]
    made.create(RESOURCE_BINDINGS, {"metadata": {"name": "web"}, "spec": {"clusters": targets, **spec}})
    made.settle()
    return made


def taint(made: PropagationScript, name: str = "m1", **fields: Any) -> None:
    made.change(CLUSTERS, name, {"spec": {"taints": [{**TAINT, "timeAdded": stamp(made.now), **fields}]}})
    made.settle()


def targets(made: PropagationScript) -> list[str]:
    return [target["name"] for target in made.binding("web")["spec"]["clusters"]]


def tasks(made: PropagationScript) -> list[Raw]:
    found: list[Raw] = made.binding("web")["spec"].get("gracefulEvictionTasks", [])
    return found


def schedule(made: PropagationScript, *clusters: str, status: str = "True") -> None:
    """What a scheduler would write."""
    made.change(RESOURCE_BINDINGS, "web", {"spec": {"clusters": [{"name": name} for name in clusters]}})
    generation = made.binding("web")["metadata"]["generation"]
    scheduled = [{"type": "Scheduled", "status": status}]
    observed = {"schedulerObservedGeneration": generation, "conditions": scheduled}
    made.change(RESOURCE_BINDINGS, "web", {"status": observed})
    made.settle()


def test_a_taint_expels() -> None:
    """The cluster is no longer a target, and a task says that the workload still runs there."""
    made = world("m1", "m2")
    taint(made)
    assert targets(made) == ["m2"]
    assert tasks(made) == [
        {
            "fromCluster": "m1",
            "purgeMode": "Gracefully",
            "reason": "TaintUntolerated",
            "producer": "TaintManager",
            "creationTimestamp": stamp(made.now),
            "replicas": 2,
        }
    ]


def test_other_taints_do_not() -> None:
    """NoSchedule only keeps newcomers away."""
    made = world("m1")
    taint(made, effect="NoSchedule")
    taint(made, "m2")
    assert targets(made) == ["m1"]
    assert tasks(made) == []


def test_a_new_target_that_is_tainted_is_left_again() -> None:
    """A target that is tainted is left, also if the taint was there before the target."""
    made = world("m2")
    taint(made)
    schedule(made, "m1", "m2")
    assert targets(made) == ["m2"]


def test_a_tolerated_taint_is_waited_for() -> None:
    """A tolerated taint is waited for without end, or for as long as the toleration says."""
    tolerations = [{**TAINT, "operator": "Exists"}]
    forever = world("m1", placement={"clusterTolerations": tolerations})
    taint(forever)
    forever.advance(3600)
    assert targets(forever) == ["m1"]
    for_a_while = world("m1", placement={"clusterTolerations": [{**tolerations[0], "tolerationSeconds": 30}]})
    taint(for_a_while)
    for_a_while.advance(29)
    assert targets(for_a_while) == ["m1"]
    for_a_while.advance(2)
    assert targets(for_a_while) == []


def test_the_placement_that_was_applied_counts() -> None:
    """The placement that the scheduler decided by counts, not what was written since, as upstream."""
    made = world("m1")
    applied = json.dumps({"clusterTolerations": [{"operator": "Exists"}]})
    note = {"policy.karmada.io/applied-placement": applied}
    made.change(RESOURCE_BINDINGS, "web", {"metadata": {"annotations": note}})
    taint(made)
    assert targets(made) == ["m1"]


def test_a_task_goes_when_the_workload_has_its_new_place() -> None:
    """A moment later, so that people can see it."""
    made = world("m1")
    taint(made)
    schedule(made, "m2")
    assert [task["fromCluster"] for task in tasks(made)] == ["m1"]
    made.advance(10)
    assert tasks(made) == []
    assert targets(made) == ["m2"]
    assert made.told("EvictWorkloadFromClusterSucceed") == ["Evict from cluster m1 succeed."]


def test_a_task_stays_while_there_is_no_new_place() -> None:
    """A task stays until there is a new place, or until its time is up."""
    made = world("m1")
    taint(made)
    schedule(made, status="False")
    made.advance(500)
    assert len(tasks(made)) == 1
    made.advance(200)
    assert tasks(made) == []


def test_tasks_of_others_are_kept_in_order_too() -> None:
    """They get a time; one that must not go stays, one that may goes at once."""
    task = {"fromCluster": "m1", "reason": "Failed", "producer": "me"}
    held, free = {**task, "suppressDeletion": True}, {**task, "fromCluster": "m2", "suppressDeletion": False}
    made = world(gracefulEvictionTasks=[held, free])
    assert [entry["fromCluster"] for entry in tasks(made)] == ["m1"]
    assert tasks(made)[0]["creationTimestamp"]
    made.advance(3600)
    assert len(tasks(made)) == 1
