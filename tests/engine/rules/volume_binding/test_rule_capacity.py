"""New volumes are made where there is enough storage, if the driver says how much is left."""

from __future__ import annotations

import random

import pytest

from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import StorageCapacityChanged
from berth.kube.defaults import default_node
from berth.kube.objects import LabelSelector
from berth.kube.selectors import parse_label_selector
from tests.support.builders import NodeBuilder, expression, make_node, make_pod, make_selector
from tests.support.storage import (
    Stored,
    causes,
    class_of,
    cluster_with,
    feasible,
    make_capacity,
    make_claim,
    make_class,
    make_csi_driver,
    make_volume,
    message,
    store,
)

DRIVER = make_csi_driver("disk", tells_capacity=True)
DISK = make_class("fast", "disk.csi")
A, B, C = (make_node(name).labels(zone=zone) for name, zone in (("a", "x"), ("b", "y"), ("c", "y")))
POD = make_pod("p").mounts("data")
DATA = make_claim("data", "fast", size="10Gi")
NO_ROOM = "node(s) did not have enough free storage"


def world(*things: NodeBuilder | Stored) -> Cluster:
    return cluster_with(A, B, C, DRIVER, DISK, DATA, *things)


def test_a_volume_is_made_where_there_is_room() -> None:
    """Only the nodes of a topology whose storage has as much left as the claim asks for will do."""
    cluster = world(make_capacity("x", "fast", "9Gi", zone="x"), make_capacity("y", "fast", "10Gi", zone="y"))
    assert feasible(cluster, POD) == ["b", "c"]
    words = (
        "claim data wants a new volume of 10Gi, and not so much storage of class fast is left for the node",
    )
    assert causes(cluster, POD, "a") == {"VolumeBinding": words}
    store(cluster, make_capacity("y", "fast", "1Gi", zone="y"))
    assert message(cluster, POD) == f"3 {NO_ROOM}."


def test_what_a_volume_may_have_at_most_counts_before_what_is_left() -> None:
    """A large pool of small volumes has no room, and one of which nothing is known neither."""
    small = make_capacity("x", "fast", "100Gi", largest="5Gi", zone="x")
    cluster = world(small, make_capacity("y", "fast", None, zone="y"))
    assert message(cluster, POD) == f"3 {NO_ROOM}."
    store(cluster, make_capacity("y", "fast", None, largest="10Gi", zone="y"))
    assert feasible(cluster, POD) == ["b", "c"]


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        (None, []),
        (LabelSelector(), ["a", "b", "c"]),
        (make_selector(expression("zone", "NotIn", "x")), ["b", "c"]),
        (make_selector(expression("zone", "In", "x", "z")), ["a"]),
        (make_selector(expression("zone", "Exists"), zone="y"), ["b", "c"]),
        (make_selector(expression("zone", "DoesNotExist")), []),
    ],
    ids=["nowhere", "everywhere", "not in", "in", "both", "without"],
)
def test_storage_is_for_the_nodes_it_selects(nodes: LabelSelector | None, expected: list[str]) -> None:
    """An empty selector selects every node, a missing one none."""
    assert feasible(world(make_capacity("m", "fast", "1Ti", nodes=nodes)), POD) == expected


def test_the_storage_of_another_class_is_no_help() -> None:
    """Capacities are counted class by class."""
    assert not feasible(world(make_capacity("x", "slow", "1Ti", zone="x")), POD)


def test_drivers_that_do_not_tell_are_not_asked() -> None:
    """Without the driver's word, or without knowing what is left, every node has room."""
    cluster = world()
    assert not feasible(cluster, POD)
    store(cluster, make_csi_driver("disk"))
    assert feasible(cluster, POD) == ["a", "b", "c"]
    store(cluster, DRIVER)
    assert not feasible(cluster, POD)
    cluster.volumes.remove_driver("disk.csi")
    assert feasible(cluster, POD) == ["a", "b", "c"]
    unknown = cluster_with(A, DRIVER, DISK, DATA, known=False)
    unknown.volumes.known = True
    assert feasible(unknown, POD) == ["a"]


def test_a_volume_that_is_there_needs_no_room() -> None:
    """A claim that finds a volume, or that a node was selected for, is judged by that."""
    cluster = world(make_volume("pv", "fast", size="20Gi", on={"zone": "x"}))
    assert feasible(cluster, POD) == ["a"]
    assert message(cluster_with(B, C, DRIVER, DISK, DATA), POD) == f"2 {NO_ROOM}."
    chosen = world(make_claim("data", "fast", size="10Gi", node="b"))
    both = f"1 {NO_ROOM}, 2 node(s) didn't find available persistent volumes to bind."
    assert message(chosen, POD) == both
    store(chosen, make_capacity("y", "fast", "1Ti", zone="y"))
    assert feasible(chosen, POD) == ["b"]


def test_of_several_claims_the_first_without_a_volume_is_the_reason() -> None:
    """The smaller claim is served first; each has to have room by itself, as upstream has it."""
    other = make_claim("more", "fast", size="20Gi")
    two = make_pod("p").mounts("data").mounts("more")
    cluster = world(
        other, make_capacity("x", "fast", "10Gi", zone="x"), make_capacity("y", "fast", "25Gi", zone="y")
    )
    assert feasible(cluster, two) == ["b", "c"]
    assert message(cluster_with(A, DRIVER, DISK, DATA, other), two) == f"1 {NO_ROOM}."


def test_a_topology_that_the_class_does_not_serve_is_not_a_shortage() -> None:
    """The class is asked first: where it makes no volumes, room makes no difference."""
    zoned = make_class("fast", "disk.csi", zones=["x"])
    cluster = cluster_with(A, B, DRIVER, zoned, DATA, make_capacity("y", "fast", "1Ti", zone="y"))
    words = f"1 {NO_ROOM}, 1 node(s) didn't find available persistent volumes to bind."
    assert message(cluster, POD) == words


def test_nodes_that_change_are_judged_anew() -> None:
    """A node that is relabelled, or comes, has the storage of its new topology."""
    cluster = world(make_capacity("x", "fast", "10Gi", zone="x"))
    assert feasible(cluster, POD) == ["a"]
    cluster.add_node(default_node(make_node("a").labels(zone="y").build()))
    cluster.add_node(default_node(make_node("d").labels(zone="x").build()))
    assert feasible(cluster, POD) == ["d"]
    cluster.remove_node("d")
    assert feasible(cluster, POD) == []


def test_only_storage_of_its_class_helps_a_pod_that_waits() -> None:
    """A pod is tried again when a capacity of the class that it waits for changes."""
    cluster = world()
    assert not feasible(cluster, POD)
    waiting = class_of(cluster, POD)
    assert not can_help(cluster, waiting, {"VolumeBinding"}, StorageCapacityChanged("slow"))
    assert can_help(cluster, waiting, {"VolumeBinding"}, StorageCapacityChanged("fast"))


def test_only_changes_are_told() -> None:
    """What is said again changes nothing; an object that moves to another class changes both."""
    index = world().volumes
    assert index.set_capacity(make_capacity("m", "fast", "1Gi", zone="x")) == {"fast"}
    assert index.set_capacity(make_capacity("m", "fast", "1024Mi", zone="x")) == set()
    assert index.set_capacity(make_capacity("m", "slow", "1Gi", zone="x")) == {"fast", "slow"}
    assert index.remove_capacity("drivers", "m") == {"slow"}
    assert index.remove_capacity("drivers", "m") == set()


@pytest.mark.parametrize("seed", range(10))
def test_the_columns_are_the_plain_answer(seed: int) -> None:
    """Whatever selectors there are, a node has room where some object selects it and has enough."""
    chance = random.Random(seed)  # noqa: S311 - no secrets
    nodes = [make_node(f"n{i}").labels(zone=chance.choice("xyz"), rack=chance.choice("12")) for i in range(8)]
    given = []
    for i in range(8):
        selector = chance.choice(
            [
                make_selector(zone=chance.choice("xyz")),
                make_selector(zone=chance.choice("xyz"), rack=chance.choice("12")),
                make_selector(expression("zone", "In", "x", "y")),
                make_selector(expression("rack", "NotIn", "1")),
            ]
        )
        amount = chance.choice(["1Gi", "10Gi", "20Gi"])
        given.append(make_capacity(f"c{i}", chance.choice(["fast", "slow"]), amount, nodes=selector))
    cluster = cluster_with(*nodes, DRIVER, DISK, DATA, *given)
    expected = [
        node.build().metadata.name
        for node in nodes
        if any(
            each.storage_class_name == "fast"
            and each.capacity != "1Gi"
            and parse_label_selector(each.node_topology).matches(node.build().metadata.labels or {})
            for each in given
        )
    ]
    assert feasible(cluster, POD) == expected
