"""The scheduling loop binds what fits, says why the rest does not, and tries again when it may."""

from __future__ import annotations

from typing import Any

from berth.controllers.cache import Cache
from berth.live.scheduling import Scheduling
from berth.machinery.contract import EVENTS, NODES, PODS, Action, Bind, Outcome
from tests.controllers.script import Script


def scheduling(cache: Cache) -> Scheduling:
    del cache
    return Scheduling()


def script(*nodes: str) -> Script:
    world = Script(scheduling)
    for name in nodes:
        world.node(name)
    return world


def pod(world: Script, name: str, cpu: str = "1", **spec: Any) -> None:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    world.create(PODS, {"metadata": {"name": name}, "spec": {"containers": [container], **spec}})


def node_of(world: Script, name: str) -> str | None:
    node: str | None = world.get(PODS, name)["spec"].get("nodeName")
    return node


def test_pods_are_bound_and_it_is_told() -> None:
    """A Scheduled event with kube-scheduler's wording."""
    world = script("n1")
    pod(world, "p")
    world.settle()
    assert node_of(world, "p") == "n1"
    assert [event["message"] for event in world.all(EVENTS)] == ["Successfully assigned default/p to n1"]


def test_other_schedulers_pods_and_gated_pods_are_left_alone() -> None:
    """A gated pod is placed when its last gate is gone."""
    world = script("n1")
    pod(world, "theirs", schedulerName="other")
    pod(world, "gated", schedulingGates=[{"name": "g"}])
    world.settle()
    assert (node_of(world, "theirs"), node_of(world, "gated")) == (None, None)
    world.change(PODS, "gated", {"spec": {"schedulingGates": None}})
    world.settle()
    assert node_of(world, "gated") == "n1"


def test_a_pod_that_does_not_fit_waits_for_room() -> None:
    """It says so once, and is placed when a node or room comes."""
    world = script("n1")
    pod(world, "first", cpu="3")
    pod(world, "second", cpu="3")
    world.settle()
    assert None is node_of(world, "second")
    condition = world.get(PODS, "second")["status"]["conditions"][0]
    assert (
        condition["type"],
        condition["status"],
        condition["reason"],
    ) == ("PodScheduled", "False", "Unschedulable")
    assert condition["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    world.delete(PODS, "first", grace=0)
    world.settle()
    assert node_of(world, "second") == "n1"
    pod(world, "third", cpu="3")
    world.settle()
    world.node("n2")
    world.settle()
    assert node_of(world, "third") == "n2"


def test_a_failed_binding_is_forgotten_and_tried_again() -> None:
    """The room it had taken is free again for others meanwhile."""
    world = script("n1")
    failures = [500, 409]

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and failures:
            return Outcome(at=world.now, code=failures.pop(), reason="x", message="x")
        return None

    world.refuse = refuse
    pod(world, "p", cpu="3")
    world.settle()
    assert not world.machines[0].cluster.has_pod("default/p")
    world.advance(5)
    assert node_of(world, "p") == "n1"


def test_a_pod_deleted_while_it_is_bound_leaves_nothing_behind() -> None:
    """The assumption goes with the pod."""
    world = script("n1")

    def lost(action: Action) -> Outcome | None:
        if isinstance(action, Bind):
            world.delete(PODS, action.name, grace=0)
            return Outcome(at=world.now, code=404, reason="NotFound", message="gone")
        return None

    world.refuse = lost
    pod(world, "p", cpu="3")
    world.settle()
    world.refuse = lambda _action: None
    pod(world, "q", cpu="3")
    world.settle()
    assert node_of(world, "q") == "n1"


def test_a_pod_bound_by_someone_else_counts_where_it_is() -> None:
    """And is not bound again."""
    world = script("n1", "n2")
    world.held.add(PODS)
    pod(world, "p")
    world.change(PODS, "p", {"spec": {"nodeName": "n2"}})
    world.deliver()
    world.settle()
    assert [action for action in world.done if isinstance(action, Bind)] == []
    cluster = world.machines[0].cluster
    assert [key for key, _ in cluster.pods_on("n2")] == ["default/p"]


def test_a_removed_node_takes_its_pods_out_of_the_counts() -> None:
    """Until it comes back."""
    world = script("n1")
    pod(world, "p", cpu="3")
    world.settle()
    world.delete(NODES, "n1")
    world.settle()
    world.node("n1")
    pod(world, "q", cpu="3")
    world.settle()
    assert None is node_of(world, "q")


def test_a_pod_that_waits_for_a_peer_follows_it() -> None:
    """Placing the peer is what the other one waited for, whichever of them came first."""
    world = script("n1", "n2")
    term = {"labelSelector": {"matchLabels": {"app": "db"}}, "topologyKey": "kubernetes.io/hostname"}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod(world, "follower", affinity=near)
    world.settle()
    assert node_of(world, "follower") is None
    container = {"name": "c", "image": "i"}
    world.create(
        PODS, {"metadata": {"name": "db", "labels": {"app": "db"}}, "spec": {"containers": [container]}}
    )
    world.settle()
    assert node_of(world, "follower") == node_of(world, "db")
