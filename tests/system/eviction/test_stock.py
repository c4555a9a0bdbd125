"""The annotation on other people's API servers, `berth scheduler` and `berth controllers` beside them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.builders import HOSTNAME, NodeBuilder, make_node, make_pod, where
from tests.support.processes.controllers import StartControllers
from tests.support.processes.process import BerthProcess
from tests.support.processes.scheduler import IS_KUBE_SCHEDULER
from tests.support.worlds.cluster import ClusterWorld
from tests.system.eviction.fake_controllers import allow, say_ready, workload
from tests.system.eviction.scenario import (
    NO_MATCH,
    annotated,
    budget,
    evicted,
    is_gone,
    native,
    nine_steps,
    tenant,
    uid_of,
    unlabel,
)

pytestmark = pytest.mark.skipif(IS_KUBE_SCHEDULER, reason="kube-scheduler does not read the annotation")


@pytest.fixture
def at_work(start_controllers: StartControllers) -> Iterator[BerthProcess]:
    with start_controllers() as process:
        yield process
        assert process.alive, process.log[-3000:]


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, **labels})


@pytest.mark.usefixtures("at_work")
def test_the_annotation_holds_while_a_pod_is_placed_and_while_it_runs(scheduled: ClusterWorld) -> None:
    """A pod whose rule stops holding is evicted, and the next waits for a node where it holds."""
    nine_steps(scheduled, annotated, node)


@pytest.mark.usefixtures("at_work")
def test_a_tenant_moves_to_its_own_nodes(scheduled: ClusterWorld) -> None:
    """User B's pods leave the shared nodes, never fewer of them ready than promised; user A's stay."""
    world, shared = scheduled, ("shared-1", "shared-2")
    world.nodes(*(node(name, userA="allow", userB="allow") for name in shared))
    first = workload(world, "ReplicaSet", "usera", annotated(tenant("any", userA="allow")), 3)
    second = workload(world, "ReplicaSet", "userb", annotated(tenant("any", userB="allow")), 3, 2)
    for each in (first, second):
        each.until_ready()
    stays = {uid_of(pod) for pod in first.pods}

    world.nodes(node("own-1", userB="allow"), node("own-2", userB="allow"))
    for name in shared:
        unlabel(world, name, "userB")

    def moved() -> bool:
        second.tend()
        # Listed again, since a pod may have been evicted after it was counted as ready.
        where_to = [pod["spec"].get("nodeName") for pod in second.pods]
        return second.ready[-1] == len(where_to) == 3 and set(where_to) <= {"own-1", "own-2"}

    world.until(moved, "user B has moved")
    assert min(second.ready) >= 2
    assert second.made == 6
    assert {uid_of(pod) for pod in first.pods} == stays


@pytest.mark.usefixtures("at_work")
def test_a_pod_stays_as_long_as_its_budget_forbids(scheduled: ClusterWorld) -> None:
    """A pod that a budget protects is evicted only when the budget allows it."""
    world = scheduled
    world.nodes(node("old", team="b"))
    pod = world.add_pod(annotated(tenant("web", team="b")))
    world.bound("web")
    budget(world, "web", minAvailable=1)
    allow(world, "web", 0)
    say_ready(world, "web")

    unlabel(world, "old", "team")
    world.events("web", "FailedNodeAffinityEviction")
    assert not is_gone(world, pod)
    allow(world, "web", 1)
    evicted(world, pod)


def test_without_the_gate_nobody_goes(scheduled: ClusterWorld, start_controllers: StartControllers) -> None:
    """Rules about other pods have a gate of their own."""
    world = scheduled
    world.nodes(node("n", team="b"))
    stays = world.add_pod(annotated(tenant("web", team="b")))
    world.add_pod(
        annotated(make_pod("goes").anti_affinity_to(during_execution=True, topology=HOSTNAME, a="b"))
    )
    for name in ("web", "goes"):
        world.bound(name)
    with start_controllers("--feature-gates=NodeAffinityEviction=false"):
        unlabel(world, "n", "team")
        world.patch_pod("web", {"metadata": {"labels": {"a": "b"}}})
        world.events("goes", "PodAffinityEviction")
        assert not is_gone(world, stays)


@pytest.mark.usefixtures("at_work")
def test_the_pod_of_a_daemon_set_waits_instead_of_coming_and_going(scheduled: ClusterWorld) -> None:
    """A DaemonSet controller that does not know the rule makes a pod for the same node; it stays Pending."""
    world = scheduled
    world.nodes(node("d1", agent="yes"))
    template = annotated(tenant("any", agent="yes"))
    pinned = make_pod("any").node_affinity(fields=[where("metadata.name", "In", "d1")])
    template["spec"]["affinity"] = native(pinned)["spec"]["affinity"]
    daemon = workload(world, "DaemonSet", "agent", template)
    daemon.until_ready()
    (pod,) = daemon.pods

    unlabel(world, "d1", "agent")
    evicted(world, pod)
    daemon.tend()
    (replacement,) = daemon.pods
    world.refused(replacement["metadata"]["name"], NO_MATCH)
    for _ in range(5):
        daemon.tend()
    assert daemon.made == 2

    world.label_node("d1", agent="yes")
    daemon.until_ready()
    assert daemon.made == 2
