"""Where pods go, in which order, what is said about those that fit nowhere, and what helps them."""

from __future__ import annotations

from typing import Any

from tests.support.builders import HOSTNAME, ZONE, make_node, make_pod
from tests.support.processes.scheduler import IS_KUBE_SCHEDULER, StartScheduler
from tests.support.worlds.cluster import ClusterWorld, zoned


def test_a_pod_gets_a_node_and_an_event(scheduled: ClusterWorld) -> None:
    """It is bound, its condition says so, and the event has kube-scheduler's words."""
    scheduled.nodes(make_node("n1"))
    scheduled.pod(make_pod("web"))

    assert scheduled.bound("web") == "n1"
    assert scheduled.condition("web")["status"] == "True"
    (event,) = scheduled.events("web", "Scheduled")
    assert event["message"] == f"Successfully assigned {scheduled.namespace}/web to n1"
    assert event["type"] == "Normal"
    assert (event.get("reportingComponent") or event["source"]["component"]) == scheduled.scheduler_name
    assert event["action"] == "Binding"


def test_pods_of_other_schedulers_are_left_alone(scheduled: ClusterWorld) -> None:
    """The name in the pod says who is responsible."""
    scheduled.nodes(make_node("n1"))
    scheduled.pod(make_pod("theirs"), schedulerName="someone-else")

    scheduled.passed_over("theirs")
    assert scheduled.condition("theirs") == {}


def test_nodes_fill_up_and_never_over(scheduled: ClusterWorld) -> None:
    """Four pods of one core fit onto two nodes with two, and the fifth waits."""
    scheduled.nodes(*(make_node(name).capacity(cpu="2") for name in ("n1", "n2")))
    scheduled.pods(*(make_pod(f"web-{number}").requests(cpu="1") for number in range(4)))
    placed = scheduled.placed(*(f"web-{number}" for number in range(4)))
    scheduled.pod(make_pod("late").requests(cpu="1"))

    assert sorted(placed.values()) == ["n1", "n1", "n2", "n2"]
    assert "2 Insufficient cpu" in scheduled.refused("late")


def test_what_runs_counts(scheduled: ClusterWorld) -> None:
    """Pods of others and pods that were there before take room and set rules."""
    scheduled.nodes(make_node("n1").capacity(cpu="2"), make_node("n2").capacity(cpu="2"))
    scheduled.pod(make_pod("theirs").on("n1").requests(cpu="2"), schedulerName="someone-else")
    scheduled.pod(make_pod("web").requests(cpu="1"))

    assert scheduled.bound("web") == "n2"


def test_priority_comes_first(world: ClusterWorld, start: StartScheduler) -> None:
    """Of the pods that wait when the scheduler starts, the most important ones get the room there is."""
    high = world.priority_class("high", 1000, preemptionPolicy="Never")
    low = world.priority_class("low", 10, preemptionPolicy="Never")
    world.nodes(make_node("n1").capacity(cpu="2"))
    for name, priority in (("low", low), ("none", ""), ("high-0", high), ("high-1", high)):
        world.pod(make_pod(name).requests(cpu="1"), **({"priorityClassName": priority} if priority else {}))

    with start():
        assert world.placed("high-0", "high-1") == {"high-0": "n1", "high-1": "n1"}
        world.refused("low")
        world.refused("none")


# --- pods that fit nowhere ------------------------------------------------------------------------

# kube-scheduler also looks for devices to take away from others; Berth gives none out.
DEVICES = "no new claims to deallocate, " if IS_KUBE_SCHEDULER else ""
SENTENCE = (
    "0/4 nodes are available: 1 Insufficient cpu, 1 node(s) didn't match Pod's node affinity/selector, "
    f"1 node(s) had untolerated taint(s), 1 node(s) were unschedulable. {DEVICES}"
    "preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."
)


def test_the_reasons_are_kube_schedulers_sentence(scheduled: ClusterWorld) -> None:
    """The sentence is in the condition and in the event, word by word."""
    ssd = {"disk": "ssd"}
    scheduled.nodes(
        make_node("small").labels(ssd).capacity(cpu="1"),
        make_node("other"),
        make_node("tainted").labels(ssd).taint("dedicated", "db"),
        make_node("cordoned").labels(ssd).unschedulable(),
    )
    scheduled.pod(make_pod("web").requests(cpu="2").node_selector(ssd))

    assert scheduled.refused("web") == SENTENCE
    condition = scheduled.condition("web")
    assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
    event = scheduled.events("web", "FailedScheduling")[0]
    assert (event["message"], event["type"]) == (SENTENCE, "Warning")


def test_without_nodes_nothing_fits(scheduled: ClusterWorld) -> None:
    """Without nodes the condition has kube-scheduler's sentence for that."""
    scheduled.pod(make_pod("web"))

    assert scheduled.refused("web").startswith("no nodes available to schedule pods")


# --- what helps them ------------------------------------------------------------------------------


def test_a_new_node_helps(scheduled: ClusterWorld) -> None:
    """A pod that found no room gets the node that joins."""
    scheduled.nodes(make_node("small").capacity(cpu="1"))
    scheduled.pod(make_pod("web").requests(cpu="2"))
    scheduled.refused("web")
    scheduled.nodes(make_node("large").capacity(cpu="4"))

    assert scheduled.bound("web") == "large"


def test_a_new_label_helps(scheduled: ClusterWorld) -> None:
    """A node that gets the label a pod asks for is used."""
    scheduled.nodes(make_node("n1"), make_node("n2"))
    scheduled.pod(make_pod("web").node_selector(disk="ssd"))
    scheduled.refused("web", "2 node(s) didn't match Pod's node affinity/selector")
    scheduled.label_node("n2", disk="ssd")

    assert scheduled.bound("web") == "n2"


def test_a_taint_that_goes_helps(scheduled: ClusterWorld) -> None:
    """A waiting pod is placed when a taint goes or a node takes pods again."""
    scheduled.nodes(make_node("n1").taint("maintenance"))
    scheduled.pod(make_pod("web"))
    scheduled.refused("web", "1 node(s) had untolerated taint(s)")
    scheduled.patch("/api/v1/nodes/n1", {"spec": {"taints": None}})

    assert scheduled.bound("web") == "n1"


def test_room_that_is_made_helps(scheduled: ClusterWorld) -> None:
    """A pod that leaves makes room for another."""
    scheduled.nodes(make_node("n1").capacity(cpu="2"))
    scheduled.pod(make_pod("old").on("n1").requests(cpu="2"))
    scheduled.pod(make_pod("web").requests(cpu="2"))
    scheduled.refused("web", "1 Insufficient cpu")
    scheduled.delete_pod("old")

    assert scheduled.bound("web") == "n1"


def test_an_opponent_that_goes_helps(scheduled: ClusterWorld) -> None:
    """A pod kept off by anti-affinity, its own or the other's, gets the node when the other is gone."""
    scheduled.nodes(zoned("n1", "a"))
    scheduled.pod(
        make_pod("hermit").labels(app="hermit").on("n1").anti_affinity_to(app="web", topology=HOSTNAME)
    )
    scheduled.pod(make_pod("web").labels(app="web"))
    scheduled.refused("web", "1 node(s) didn't satisfy existing pods anti-affinity rules")
    scheduled.delete_pod("hermit")

    assert scheduled.bound("web") == "n1"


def test_a_peer_that_comes_helps(scheduled: ClusterWorld) -> None:
    """A pod that needs another near it is placed in its zone as soon as that runs."""
    scheduled.nodes(zoned("n1", "a"), zoned("n2", "b"))
    scheduled.pod(make_pod("web").affinity_to(app="db", topology=ZONE))
    scheduled.refused("web", "2 node(s) didn't match pod affinity rules")
    scheduled.pod(make_pod("db").labels(app="db").node_selector({ZONE: "b"}))

    assert scheduled.placed("db", "web") == {"db": "n2", "web": "n2"}


def test_a_peer_that_gets_its_label_helps(scheduled: ClusterWorld) -> None:
    """A running pod may become the one that is needed."""
    scheduled.nodes(zoned("n1", "a"), zoned("n2", "b"))
    scheduled.pod(make_pod("db").on("n2"))
    scheduled.pod(make_pod("web").affinity_to(app="db", topology=ZONE))
    scheduled.refused("web", "2 node(s) didn't match pod affinity rules")
    scheduled.patch_pod("db", {"metadata": {"labels": {"app": "db"}}})

    assert scheduled.bound("web") == "n2"


def test_a_zone_that_catches_up_helps(scheduled: ClusterWorld) -> None:
    """A spread constraint lets the next pod in when the emptiest zone has got one."""
    scheduled.nodes(zoned("n1", "a"), zoned("n2", "b"))
    even = make_pod("web").labels(app="web").spread(ZONE, app="web").node_selector({ZONE: "a"})
    scheduled.pod(make_pod("first").labels(app="web").on("n1"))
    scheduled.pod(even, topologySpreadConstraints=_counting_all_zones())
    scheduled.refused("web", "didn't match pod topology spread constraints")
    scheduled.pod(make_pod("second").labels(app="web").on("n2"))

    assert scheduled.bound("web") == "n1"


def _counting_all_zones() -> list[dict[str, Any]]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "web"}},
            "nodeAffinityPolicy": "Ignore",
        }
    ]


def test_gates_hold_a_pod_until_they_are_gone(scheduled: ClusterWorld) -> None:
    """A gated pod is not tried before its last gate is gone, and placed after."""
    scheduled.nodes(make_node("n1"))
    scheduled.pod(make_pod("web").gated("example.com/quota").gated("example.com/audit"))
    scheduled.passed_over("web")
    assert scheduled.condition("web")["reason"] == "SchedulingGated"
    _set_gates(scheduled, "example.com/audit")
    scheduled.passed_over("web")
    _set_gates(scheduled)

    assert scheduled.bound("web") == "n1"


def _set_gates(world: ClusterWorld, *gates: str) -> None:
    pod = world.get_pod("web")
    pod["spec"]["schedulingGates"] = [{"name": gate} for gate in gates]
    answer = world.client.put(world.path("pods", "web"), pod)
    assert answer.status == 200, answer.body


def test_the_flow_of_nodes_and_pods_is_followed(scheduled: ClusterWorld) -> None:
    """A node that went is not used, a pod that came back under its old name is a new one."""
    scheduled.nodes(make_node("n1"))
    scheduled.pod(make_pod("web"))
    assert scheduled.bound("web") == "n1"
    scheduled.delete_pod("web")
    scheduled.delete_node("n1")
    scheduled.nodes(make_node("n2"))
    scheduled.pod(make_pod("web"))

    assert scheduled.bound("web") == "n2"
