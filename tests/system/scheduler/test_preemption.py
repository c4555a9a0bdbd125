"""Making room for pods that matter more: whom it costs, whom not, and what is said about it."""

from __future__ import annotations

from typing import Any

from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.worlds.cluster import ClusterWorld, zoned


def one_core_each(world: ClusterWorld, *names: str) -> None:
    world.nodes(*(zoned(name, f"zone-{name}").capacity(cpu="1") for name in names))


def running(
    world: ClusterWorld, name: str, node: str, builder: PodBuilder | None = None, **spec: Any
) -> None:
    world.pod((builder or make_pod(name).labels(app=name).requests(cpu="1")).on(node), **spec)


def gone(world: ClusterWorld, name: str) -> bool:
    """Deleted, or on its way: who plays the kubelet is not here."""
    answer = world.client.get(world.path("pods", name))
    return answer.status == 404 or "deletionTimestamp" in answer.json["metadata"]


def test_a_less_important_pod_makes_room(scheduled: ClusterWorld) -> None:
    """The victim is told, the pod is promised the node and gets it."""
    high = scheduled.priority_class("high", 1000)
    one_core_each(scheduled, "n1")
    running(scheduled, "low", "n1")
    scheduled.pod(make_pod("urgent").requests(cpu="1"), priorityClassName=high)

    scheduled.until(lambda: gone(scheduled, "low"), "low is evicted")
    assert scheduled.bound("urgent") == "n1"
    (event,) = scheduled.events("low", "Preempted")
    assert event["message"].startswith("Preempted by")
    assert event["message"].endswith("on node n1")
    words = "preemption: found a potential placement for pod on node n1, preempting 1 victims"
    told = scheduled.until(lambda: scheduled.events("urgent", "FailedScheduling"), "it was told")[0][
        "message"
    ]
    assert told.endswith(words) == scheduled.backend.version.preemption_told


def test_the_promise_is_kept_while_the_victim_takes_its_time(scheduled: ClusterWorld) -> None:
    """nominatedNodeName holds the room against pods that come later."""
    high, middle = scheduled.priority_class("high", 1000), scheduled.priority_class("middle", 500)
    one_core_each(scheduled, "n1")
    finalizer = {"metadata": {"finalizers": ["example.com/slow"]}}
    running(scheduled, "low", "n1")
    scheduled.patch_pod("low", finalizer)
    scheduled.pod(make_pod("urgent").requests(cpu="1"), priorityClassName=high)
    scheduled.until(lambda: gone(scheduled, "low"), "low is evicted")
    scheduled.until(
        lambda: scheduled.get_pod("urgent")["status"].get("nominatedNodeName") == "n1", "urgent is nominated"
    )
    scheduled.pod(make_pod("later").requests(cpu="1"), priorityClassName=middle)
    scheduled.refused("later")
    scheduled.patch("/api/v1/nodes/n1", {"metadata": {"labels": {"seen": "yes"}}})
    scheduled.patch(scheduled.path("pods", "low"), {"metadata": {"finalizers": None}})

    assert scheduled.bound("urgent") == "n1"
    assert scheduled.node_of("later") is None


def test_no_more_victims_than_needed(scheduled: ClusterWorld) -> None:
    """The node with the least important victim is taken, and of its pods only those in the way."""
    high, middle = scheduled.priority_class("high", 1000), scheduled.priority_class("middle", 500)
    scheduled.nodes(*(make_node(name).capacity(cpu="4") for name in ("n1", "n2")))
    for name, node, cpu in (("a", "n1", "2"), ("b", "n1", "2"), ("c", "n2", "1"), ("d", "n2", "3")):
        priority = {} if name == "d" else {"priorityClassName": middle}
        running(scheduled, name, node, make_pod(name).requests(cpu=cpu), **priority)
    scheduled.pod(make_pod("urgent").requests(cpu="3"), priorityClassName=high)

    assert scheduled.bound("urgent") == "n2"
    assert {name: gone(scheduled, name) for name in "abcd"} == {"a": False, "b": False, "c": False, "d": True}


def test_disruption_budgets_are_broken_last(scheduled: ClusterWorld) -> None:
    """Of two equal victims the one without a budget goes."""
    high = scheduled.priority_class("high", 1000)
    one_core_each(scheduled, "n1", "n2")
    running(scheduled, "guarded", "n1")
    running(scheduled, "free", "n2")
    budget = {
        "metadata": {"name": "guarded"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "guarded"}}},
    }
    path = scheduled.path("poddisruptionbudgets", prefix="/apis/policy/v1")
    scheduled.make(path, budget)
    status = {
        "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}
    }
    scheduled.patch(f"{path}/guarded/status", status)
    scheduled.settled()
    scheduled.pod(make_pod("urgent").requests(cpu="1"), priorityClassName=high)

    assert scheduled.bound("urgent") == "n2"
    assert not gone(scheduled, "guarded")


def test_a_pod_that_never_preempts_waits(scheduled: ClusterWorld) -> None:
    """Its importance counts in the queue only."""
    polite = scheduled.priority_class("polite", 1000, preemptionPolicy="Never")
    one_core_each(scheduled, "n1")
    running(scheduled, "low", "n1")
    scheduled.pod(make_pod("urgent").requests(cpu="1"), priorityClassName=polite)

    message = scheduled.refused("urgent")
    assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "preemptionPolicy=Never" in message
    scheduled.passed_over("urgent")
    assert not gone(scheduled, "low")


def test_equals_do_not_preempt_each_other(scheduled: ClusterWorld) -> None:
    """Only less important pods are victims."""
    middle = scheduled.priority_class("middle", 500)
    one_core_each(scheduled, "n1")
    running(scheduled, "first", "n1", priorityClassName=middle)
    scheduled.pod(make_pod("second").requests(cpu="1"), priorityClassName=middle)

    assert "No preemption victims found for incoming pod" in scheduled.refused("second")
    scheduled.passed_over("second")
    assert not gone(scheduled, "first")


def test_a_pod_in_the_way_by_anti_affinity_goes(scheduled: ClusterWorld) -> None:
    """Room is not only cpu: an opponent makes way, too."""
    high = scheduled.priority_class("high", 1000)
    scheduled.nodes(zoned("n1", "a"))
    running(scheduled, "rival", "n1", make_pod("rival").labels(app="db"))
    running(scheduled, "bystander", "n1", make_pod("bystander").labels(app="web"))
    urgent = make_pod("urgent").labels(app="db").anti_affinity_to(app="db", topology=HOSTNAME)
    scheduled.pod(urgent, priorityClassName=high)

    assert scheduled.bound("urgent") == "n1"
    assert (gone(scheduled, "rival"), gone(scheduled, "bystander")) == (True, False)


def test_a_victim_that_is_needed_is_no_victim(scheduled: ClusterWorld) -> None:
    """If the affinity holds only because of the pod in the way, evicting it would help nobody."""
    high = scheduled.priority_class("high", 1000)
    one_core_each(scheduled, "n1", "n2")
    running(scheduled, "peer", "n1")
    running(scheduled, "other", "n2")
    urgent = make_pod("urgent").requests(cpu="1").affinity_to(app="peer", topology=ZONE)
    scheduled.pod(urgent, priorityClassName=high)

    scheduled.refused("urgent")
    scheduled.passed_over("urgent")
    assert (gone(scheduled, "peer"), gone(scheduled, "other")) == (False, False)


def test_nobody_dies_in_vain(scheduled: ClusterWorld) -> None:
    """Where the node itself is wrong, no eviction helps and none happens."""
    high = scheduled.priority_class("high", 1000)
    one_core_each(scheduled, "n1")
    running(scheduled, "low", "n1")
    scheduled.pod(make_pod("urgent").requests(cpu="1").node_selector(disk="ssd"), priorityClassName=high)

    assert "Preemption is not helpful for scheduling" in scheduled.refused("urgent")
    scheduled.passed_over("urgent")
    assert not gone(scheduled, "low")
