"""DaemonSets serve every eligible node with one pod, and leave it alone where a pod cannot stay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.controllers.workloads.daemon_set import DaemonSetController
from berth.kube.api_resources import DAEMON_SETS, NODES, PODS
from berth.kube.taints import CORDON
from tests.support.builders import EXECUTION, REQUIRED
from tests.support.manifests import what_if as files
from tests.support.scripts.script import Script, image_of, new_image, verbs, workload


def needs(label: str) -> dict[str, Any]:
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": label, "operator": "Exists"}]}]}


def script(nodes: int = 3, **spec: Any) -> Script:
    world = Script(DaemonSetController)
    for number in range(nodes):
        world.node(f"n{number}", labels={"ssd": "yes"})
    world.create(DAEMON_SETS, workload("agent", **spec))
    run(world)
    return world


def run(world: Script) -> None:
    """Bind every pod to the node it is pinned to, and let it run."""
    world.settle()
    for pod in world.all(PODS):
        if not pod["spec"].get("nodeName"):
            name = pod["metadata"]["name"]
            world.change(PODS, name, {"spec": {"nodeName": pinned(pod)}})
            world.set_ready(name)
    world.settle()


def pinned(pod: dict[str, Any]) -> str:
    (term,) = pod["spec"]["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    node: str = term["matchFields"][0]["values"][0]
    return node


def served(world: Script) -> list[str]:
    living = [pod for pod in world.all(PODS) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(pinned(pod) for pod in living)


def test_every_node_gets_a_pinned_pod_that_tolerates_what_daemons_tolerate() -> None:
    """Pods are pinned by matchFields and get Kubernetes' automatic tolerations."""
    world = script()
    assert served(world) == ["n0", "n1", "n2"]
    keys = {toleration["key"] for toleration in world.all(PODS)[0]["spec"]["tolerations"]}
    assert {"node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"} <= keys
    status = world.get(DAEMON_SETS, "agent")["status"]
    assert (
        status["desiredNumberScheduled"],
        status["numberReady"],
        status["updatedNumberScheduled"],
    ) == (3, 3, 3)


def agents(variant: str) -> Script:
    """Two nodes with a daemon that wants their label, by one kind of rule or the other."""
    affinity = {"nodeAffinity": {EXECUTION if variant == "annotation" else variant: needs("ssd")}}
    world = Script(DaemonSetController)
    for number in range(2):
        world.node(f"n{number}", labels={"ssd": "yes"})
    body = workload("agent", pod={} if variant == "annotation" else {"affinity": affinity})
    if variant == "annotation":
        body["spec"]["template"]["metadata"]["annotations"] = {"berth.dev/affinity": json.dumps(affinity)}
    world.create(DAEMON_SETS, body)
    run(world)
    assert served(world) == ["n0", "n1"]
    return world


def unlabel(world: Script, node: str) -> None:
    world.change(NODES, node, {"metadata": {"labels": {"ssd": None}}})
    world.settle()


@pytest.mark.parametrize("variant", [REQUIRED, EXECUTION, "annotation"])
def test_a_node_that_stops_matching_loses_its_pod_for_good(variant: str) -> None:
    """Either required node affinity, in the spec or in the annotation, decides which nodes are eligible."""
    world = agents(variant)
    unlabel(world, "n1")
    if variant != REQUIRED:
        world.delete(PODS, next(p["metadata"]["name"] for p in world.all(PODS) if pinned(p) == "n1"))
        world.settle()
    assert served(world) == ["n0"]
    gone = next(p["metadata"]["name"] for p in world.all(PODS) if "deletionTimestamp" in p["metadata"])
    world.delete(PODS, gone, grace=0)
    world.done.clear()
    world.advance(600)
    assert verbs(world.done, PODS) == [], "nothing is made again where it cannot stay"
    world.change(NODES, "n1", {"metadata": {"labels": {"ssd": "yes"}}})
    run(world)
    assert served(world) == ["n0", "n1"]


@pytest.mark.parametrize("variant", [EXECUTION, "annotation"])
def test_a_pod_whose_own_rule_breaks_while_it_runs_is_left_to_its_eviction(variant: str) -> None:
    """Deleting it would ask no budget, nor wait for anything; until it goes it counts as misscheduled."""
    world = agents(variant)
    world.done.clear()
    unlabel(world, "n1")
    world.advance(600)
    assert verbs(world.done, PODS) == []
    assert served(world) == ["n0", "n1"]
    status = world.get(DAEMON_SETS, "agent")["status"]
    assert (status["desiredNumberScheduled"], status["numberMisscheduled"]) == (1, 1)


def test_a_pod_that_nobody_would_evict_is_deleted() -> None:
    """It is not placed yet, or has failed: only running pods are evicted."""
    world = agents(EXECUTION)
    world.node("n2", labels={"ssd": "yes"})
    world.settle()
    failed = next(p["metadata"]["name"] for p in world.all(PODS) if pinned(p) == "n1")
    world.finish(failed, "Failed")
    for node in ("n1", "n2"):
        unlabel(world, node)
    assert served(world) == ["n0"]


def test_a_pod_from_before_the_rule_is_deleted() -> None:
    """Its own rules hold, so nobody evicts it; the template has a rule now that does not."""
    world = script(2, updateStrategy={"type": "OnDelete"})
    unlabel(world, "n1")
    change = {"spec": {"template": {"spec": {"affinity": {"nodeAffinity": {EXECUTION: needs("ssd")}}}}}}
    world.change(DAEMON_SETS, "agent", change)
    world.settle()
    assert served(world) == ["n0"]


def test_the_execution_rule_stays_in_the_pod() -> None:
    """Pinning a daemon pod replaces its scheduling rule and keeps the execution-time one."""
    world = script(1, pod={"affinity": {"nodeAffinity": {EXECUTION: needs("ssd")}}})
    affinity = world.all(PODS)[0]["spec"]["affinity"]["nodeAffinity"]
    assert needs("ssd") == affinity[EXECUTION]


def test_taints_keep_daemons_away() -> None:
    """NoSchedule keeps new pods off a node, NoExecute drives running ones away."""
    world = script(2)
    world.change(NODES, "n0", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}})
    world.change(NODES, "n1", {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}})
    world.settle()
    assert served(world) == ["n0"]
    assert world.get(DAEMON_SETS, "agent")["status"]["numberMisscheduled"] == 1


@pytest.mark.parametrize(
    ("pod", "eligible"),
    [
        ({}, ["cordoned", "plain", "ssd"]),
        ({"nodeName": "ssd"}, ["ssd"]),
        ({"nodeName": "gone"}, []),
        ({"nodeSelector": {"ssd": "yes"}}, ["ssd"]),
        ({"affinity": {"nodeAffinity": {REQUIRED: needs("ssd")}}}, ["ssd"]),
        ({"affinity": {"nodeAffinity": {EXECUTION: needs("ssd")}}}, ["ssd"]),
        ({"annotation": {"nodeAffinity": {EXECUTION: needs("ssd")}}}, ["ssd"]),
        ({"annotation": {"nodeAffinity": 3}}, []),
        (
            {"tolerations": [{"key": "a", "operator": "Exists"}]},
            ["cordoned", "full", "going", "plain", "ssd"],
        ),
    ],
    ids=[
        "any",
        "named",
        "named-gone",
        "selector",
        "required",
        "execution",
        "annotation",
        "unreadable",
        "tolerant",
    ],
)
def test_a_daemon_set_is_expanded_as_its_controller_would(
    tmp_path: Path, pod: dict[str, Any], eligible: list[str]
) -> None:
    """Those who make daemon pods without a controller choose the same nodes."""
    nodes: dict[str, dict[str, Any]] = {
        "plain": {},
        "ssd": {"metadata": {"labels": {"ssd": "yes"}}},
        "cordoned": {
            "spec": {"unschedulable": True, "taints": [{"key": CORDON.key, "effect": CORDON.effect}]}
        },
        "full": {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}},
        "going": {"spec": {"taints": [{"key": "a", "effect": "NoExecute"}]}},
    }
    rules = pod.get("annotation")
    body = workload("agent", pod={name: what for name, what in pod.items() if name != "annotation"})
    if rules is not None:
        body["spec"]["template"]["metadata"]["annotations"] = {"berth.dev/affinity": json.dumps(rules)}
    world = Script(DaemonSetController)
    for name, more in nodes.items():
        world.node(name)
        world.change(NODES, name, more)
    world.create(DAEMON_SETS, body)
    world.settle()
    assert served(world) == eligible

    nodes_there = [{"kind": "Node", "apiVersion": "v1", **node} for node in world.all(NODES)]
    daemon_set = {"kind": "DaemonSet", "apiVersion": "apps/v1", **world.get(DAEMON_SETS, "agent")}
    taken = files.world(tmp_path, *nodes_there, daemon_set).snapshot
    assert sorted(entry.daemon_of or "" for entry in taken.pods) == eligible


def test_pods_that_keep_failing_are_replaced_ever_more_slowly() -> None:
    """A node that rejects its pod does not cause a loop of create and delete."""
    world = script(1)
    world.done.clear()
    for _ in range(200):
        for pod in world.all(PODS):
            if pod.get("status", {}).get("phase") != "Failed":
                world.finish(pod["metadata"]["name"], "Failed")
            if "deletionTimestamp" in pod["metadata"]:
                world.delete(PODS, pod["metadata"]["name"], grace=0)
        world.advance(1)
    created = verbs(world.done, PODS).count("create")
    assert 3 <= created <= 9


def test_pods_that_are_evicted_again_and_again_are_replaced_ever_more_slowly() -> None:
    """An eviction that does not go away, such as one for pod affinity, is not answered at full speed."""
    world = script(1)
    world.done.clear()
    target = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}
    for _ in range(100):
        for pod in world.all(PODS):
            name = pod["metadata"]["name"]
            world.change(PODS, name, {"status": {"conditions": [target]}})
            world.delete(PODS, name, grace=0)
        world.advance(1)
    assert verbs(world.done, PODS).count("create") <= 8


def test_a_rolling_update_replaces_one_node_at_a_time() -> None:
    """maxUnavailable is 1 by default."""
    world = script(3)
    world.change(DAEMON_SETS, "agent", new_image("v2"))
    for _ in range(3):
        world.settle()
        going = [p["metadata"]["name"] for p in world.all(PODS) if "deletionTimestamp" in p["metadata"]]
        assert len(going) == 1
        world.delete(PODS, going[0], grace=0)
        run(world)
    assert {"v2"} == {image_of(pod) for pod in world.all(PODS)}


def test_a_rolling_update_that_surges_makes_a_pod_before_one_goes() -> None:
    """With maxSurge the old pod of a node goes once the new one beside it is available."""
    surging = {"rollingUpdate": {"maxSurge": "50%", "maxUnavailable": 0}}
    world = script(4, updateStrategy=surging)
    before = set(world.names(PODS))
    world.change(DAEMON_SETS, "agent", new_image("v2"))
    for done in (2, 4):
        world.settle()
        assert sorted(served(world)) == sorted(served_once(4) + served_new(world))
        assert len(served_new(world)) == 2
        assert not going(world)
        run(world)
        assert len(going(world)) == 2
        for name in going(world):
            world.delete(PODS, name, grace=0)
        assert len(before & set(world.names(PODS))) == 4 - done
    run(world)
    assert served(world) == served_once(4)
    assert {"v2"} == {image_of(pod) for pod in world.all(PODS)}


def going(world: Script) -> list[str]:
    return [p["metadata"]["name"] for p in world.all(PODS) if "deletionTimestamp" in p["metadata"]]


def served_once(nodes: int) -> list[str]:
    return [f"n{number}" for number in range(nodes)]


def served_new(world: Script) -> list[str]:
    """The nodes of the pods that have no node yet."""
    return [pinned(pod) for pod in world.all(PODS) if not pod["spec"].get("nodeName")]


def test_a_pod_that_is_not_available_is_surged_beside_at_once() -> None:
    """However many may surge: the node has nothing to lose, and the old pod goes once there is a new one."""
    surging = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    world = script(3, updateStrategy=surging)
    for name in world.names(PODS):
        world.set_ready(name, ready=False)
    world.settle()
    world.change(DAEMON_SETS, "agent", new_image("v2"))
    world.settle()
    assert len(served_new(world)) == 3
    assert len(going(world)) == 3


def test_on_delete_waits_for_the_user() -> None:
    """With OnDelete only pods that somebody removes get the new revision."""
    world = script(1, updateStrategy={"type": "OnDelete"})
    world.change(DAEMON_SETS, "agent", new_image("v2"))
    world.settle()
    assert image_of(world.all(PODS)[0]) == "v1"
    world.delete(PODS, world.names(PODS)[0], grace=0)
    world.settle()
    assert image_of(world.all(PODS)[0]) == "v2"
