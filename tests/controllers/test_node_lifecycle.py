"""Nodes that fall silent are found out, and their pods go when they no longer tolerate it."""

from __future__ import annotations

from typing import Any

from berth.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from berth.kube.api_resources import LEASES, NODES, PODS
from berth.kube.times import micro_stamp
from tests.support.scripts.script import Script

UNREACHABLE = "node.kubernetes.io/unreachable"


def script() -> Script:
    world = Script(NodeLifecycle, TaintEviction)
    world.node("n")
    lease = {"metadata": {"name": "n", "namespace": "kube-node-lease"}, "spec": {"renewTime": "x"}}
    world.create(LEASES, lease)
    world.settle()
    return world


def renew(world: Script) -> None:
    change = {"spec": {"renewTime": micro_stamp(world.now)}}
    world.change(LEASES, "n", change, "kube-node-lease")


def ready(world: Script) -> str:
    status: str = world.get(NODES, "n")["status"]["conditions"][0]["status"]
    return status


def taints(world: Script) -> set[tuple[str, str]]:
    return {(taint["key"], taint["effect"]) for taint in world.get(NODES, "n")["spec"].get("taints") or ()}


def pod(world: Script, name: str, *tolerations: dict[str, Any]) -> None:
    world.create(PODS, {"metadata": {"name": name}, "spec": {"nodeName": "n", "tolerations": tolerations}})
    world.set_ready(name)


def test_a_node_whose_lease_is_renewed_stays_ready() -> None:
    """A node stays Ready for as long as its lease is renewed."""
    world = script()
    for _ in range(20):
        world.advance(10)
        renew(world)
    assert ("True", set()) == (ready(world), taints(world))


def test_a_node_that_never_reported_takes_no_pods() -> None:
    """It is tainted before it is given up, as upstream's admission does."""
    world = Script(NodeLifecycle, TaintEviction)
    world.create(NODES, {"metadata": {"name": "n"}, "spec": {}, "status": {}})
    world.settle()
    assert {("node.kubernetes.io/not-ready", "NoSchedule")} == taints(world)
    world.change(NODES, "n", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    world.settle()
    assert set() == taints(world)


def test_a_silent_node_becomes_unknown_and_tainted_and_recovers() -> None:
    """A node is Unknown after 40 seconds without a renewal, until the kubelet reports again."""
    world = script()
    pod(world, "p")
    world.advance(39)
    assert ready(world) == "True"
    world.advance(5)
    assert ready(world) == "Unknown"
    assert {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")} == taints(world)
    world.change(NODES, "n", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    renew(world)
    world.settle()
    assert set() == taints(world)


def test_a_kubelet_that_reports_is_believed_before_its_lease_is_renewed() -> None:
    """A kubelet that reports Ready is believed before its lease is renewed, or the two would disagree."""
    world = script()
    world.advance(45)
    assert ready(world) == "Unknown"
    heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:45Z"}
    world.change(NODES, "n", {"status": {"conditions": [heartbeat]}})
    world.advance(10)
    assert ("True", set()) == (ready(world), taints(world))


def test_pods_leave_when_their_toleration_runs_out() -> None:
    """Pods leave a tainted node at once, after tolerationSeconds, or never, as they tolerate it."""
    world = script()
    pod(world, "now")
    pod(world, "later", {"key": UNREACHABLE, "operator": "Exists", "tolerationSeconds": 300})
    pod(world, "never", {"operator": "Exists"})
    world.advance(45)
    going = {p["metadata"]["name"] for p in world.all(PODS) if "deletionTimestamp" in p["metadata"]}
    assert {"now"} == going
    target = {c["type"]: c for c in world.get(PODS, "now")["status"]["conditions"]}["DisruptionTarget"]
    assert target["reason"] == "DeletionByTaintManager"
    world.advance(300)
    going = {p["metadata"]["name"] for p in world.all(PODS) if "deletionTimestamp" in p["metadata"]}
    assert {"now", "later"} == going


def test_a_pod_that_tolerates_a_taint_which_is_lifted_stays() -> None:
    """The clock stops when the taint goes."""
    world = script()
    pod(world, "p", {"key": "k", "operator": "Exists", "tolerationSeconds": 60})
    world.change(NODES, "n", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
    for _ in range(3):
        world.advance(10)
        renew(world)
    world.change(NODES, "n", {"spec": {"taints": None}})
    for _ in range(10):
        world.advance(10)
        renew(world)
    assert "deletionTimestamp" not in world.get(PODS, "p")["metadata"]


def test_a_cordoned_node_is_tainted() -> None:
    """kubectl cordon sets a field; the taint follows it both ways."""
    world = script()
    world.change(NODES, "n", {"spec": {"unschedulable": True}})
    world.settle()
    assert {("node.kubernetes.io/unschedulable", "NoSchedule")} == taints(world)
    world.change(NODES, "n", {"spec": {"unschedulable": None}})
    world.settle()
    assert set() == taints(world)


def test_pods_of_a_node_that_is_gone_are_removed() -> None:
    """After a moment, because the node may be on its way."""
    world = script()
    pod(world, "p")
    world.settle()
    world.delete(NODES, "n")
    world.advance(10)
    assert world.names(PODS) == ["p"]
    world.advance(15)
    assert world.names(PODS) == []
