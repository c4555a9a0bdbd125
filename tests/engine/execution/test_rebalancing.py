"""Which pods are moved so that a group is even again, and that every move makes it more so."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.engine.execution.rebalancing import (
    NO_BETTER_PLACE,
    NO_NODE,
    MovableGroup,
    Move,
    Rebalance,
    RebalancePolicy,
    next_move,
    plan_moves,
    supposed,
    unevenness,
)
from berth.engine.state.cluster import Cluster
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_pod
from tests.support.cluster import Cluster as World
from tests.support.engine import engine_of
from tests.support.snapshots import zone_node

HARD = Rebalance(policy=RebalancePolicy.HARD)
SOFT = Rebalance(policy=RebalancePolicy.SOFT)
ANYWAY = "ScheduleAnyway"


def pod(name: str, node: str, app: str = "web") -> PodBuilder:
    return make_pod(name).labels({"app": app}).on(node)


def zoned(name: str, node: str, when: str = "DoNotSchedule", skew: int = 1) -> PodBuilder:
    return pod(name, node).spread(ZONE, max_skew=skew, when=when, app="web")


def cluster_of(pods: list[PodBuilder], nodes: list[NodeBuilder]) -> Cluster:
    built = tuple(node.build() for node in nodes)
    return engine_of(World(nodes=built, pods=tuple(each.build() for each in pods)))


def one_a_zone(zones: str = "abc", hosts: int = 1) -> list[NodeBuilder]:
    return [zone_node(f"{zone}{i}", zone) for zone in zones for i in range(hosts)]


def group_of(cluster: Cluster, how: Rebalance = HARD) -> MovableGroup:
    pods = tuple(cluster.pods.index)
    return MovableGroup(pods, pods[:1], how)


def zones_after(cluster: Cluster, moves: list[Move]) -> dict[str, int]:
    slots = cluster.pods.node[list(cluster.pods.index.values())]
    counts = Counter(str(cluster.nodes.names[slot])[0] for slot in slots.tolist())
    for move in moves:
        counts[move.node[0]] -= 1
        counts[(move.replacement_node or "?")[0]] += 1
    return dict(counts)


@pytest.mark.parametrize(
    ("counts", "skew", "needed"),
    [([15, 15, 0], 1, 10), ([15, 15, 0], 2, 9), ([2, 3, 4], 1, 1), ([6, 6, 0, 0], 1, 6), ([3, 2, 2], 1, 0)],
)
def test_a_zone_that_comes_back_is_filled_with_the_fewest_moves(
    counts: list[int], skew: int, needed: int
) -> None:
    """As many pods move as have to, each to where there are too few, and then all is well."""
    names = "abcd"[: len(counts)]
    places = [zone for zone, count in zip(names, counts, strict=True) for _ in range(count)]
    cluster = cluster_of(
        [zoned(f"p{i}", f"{zone}0", skew=skew) for i, zone in enumerate(places)], one_a_zone(names)
    )
    moves, ends = plan_moves(cluster, [group_of(cluster)])
    assert (len(moves), ends) == (needed, [None])
    after = zones_after(cluster, moves)
    assert max(after.values()) - min(after.get(zone, 0) for zone in names) <= skew


@pytest.mark.parametrize("how", [HARD, SOFT])
def test_two_three_four_stays_where_nobody_can_go_to_the_emptiest(how: Rebalance) -> None:
    """The descheduler sends a pod back and forth between the other two for ever; here nobody is moved."""
    places = ["a"] * 2 + ["b"] * 3 + ["c"] * 4
    for when in ("DoNotSchedule", ANYWAY):
        nodes = [zone_node("a0", "a").taint("full"), zone_node("b0", "b"), zone_node("c0", "c")]
        cluster = cluster_of([zoned(f"p{i}", f"{z}0", when) for i, z in enumerate(places)], nodes)
        assert not isinstance(next_move(cluster, group_of(cluster, how)), Move)


def test_why_nobody_is_moved_is_said() -> None:
    """No node for the replacement is another thing than only nodes that are no better."""
    crowd = [zoned(f"p{i}", "a0") for i in range(3)]
    shut = cluster_of(crowd, [zone_node("a0", "a"), zone_node("b0", "b").unschedulable()])
    assert next_move(shut, group_of(shut)) == NO_NODE
    crowd = [zoned(f"p{i}", "a0", ANYWAY) for i in range(3)]
    soft = cluster_of(crowd, [zone_node("a0", "a"), zone_node("b0", "b").unschedulable()])
    assert next_move(soft, group_of(soft, SOFT)) == NO_BETTER_PLACE


def test_only_a_hard_constraint_may_wait_for_a_new_node_and_only_if_told() -> None:
    """A pod goes though its replacement has no node only where that was asked for."""
    crowd = [zoned(f"p{i}", "a0") for i in range(3)]
    nodes = [zone_node("a0", "a"), zone_node("b0", "b").unschedulable()]
    cluster = cluster_of(crowd, nodes)
    waits = Rebalance(policy=RebalancePolicy.HARD, waits=True)
    move = next_move(cluster, group_of(cluster, waits))
    assert isinstance(move, Move)
    assert move.replacement_node is None
    moves, ends = plan_moves(cluster, [group_of(cluster, waits)])
    assert (len(moves), ends) == (1, [NO_NODE])


def test_soft_constraints_are_left_alone_by_the_hard_policy() -> None:
    """What only scores is moved for if the workload says soft."""
    cluster = cluster_of([zoned(f"p{i}", "a0", ANYWAY) for i in range(4)], one_a_zone("ab"))
    assert next_move(cluster, group_of(cluster, HARD)) is None
    moves, _ = plan_moves(cluster, [group_of(cluster, SOFT)])
    assert 1 <= len(moves) <= 2


def test_a_margin_keeps_small_gains_from_disturbing() -> None:
    """What gets better by less than the margin is not worth a move."""
    places = ["a"] * 3 + ["b"] * 2 + ["c"]
    cluster = cluster_of([zoned(f"p{i}", f"{z}0") for i, z in enumerate(places)], one_a_zone())
    small = Rebalance(policy=RebalancePolicy.HARD, margin=2)
    assert isinstance(next_move(cluster, group_of(cluster)), Move)
    assert not isinstance(next_move(cluster, group_of(cluster, small)), Move)


def test_preferences_for_being_apart_count() -> None:
    """Two on one node while another is free: one goes there, with the policy soft."""
    pods = [
        pod(f"p{i}", "a0").prefers_anti_affinity_to(weight=100, topology=HOSTNAME, app="web")
        for i in range(2)
    ]
    cluster = cluster_of(pods, one_a_zone("a", hosts=2))
    moves, _ = plan_moves(cluster, [group_of(cluster, SOFT)])
    assert [(move.node, move.replacement_node) for move in moves] == [("a0", "a1")]


def test_a_pod_that_terminates_still_takes_its_place() -> None:
    """While the pod goes its node is closed by anti-affinity; wherever it lands must be better."""
    pods = [
        zoned(f"p{i}", node, ANYWAY).anti_affinity_to(topology=HOSTNAME, app="web")
        for i, node in enumerate(["a0", "a1", "a2", "b0"])
    ]
    cluster = cluster_of(pods, [*one_a_zone("a", hosts=4), *one_a_zone("b")])
    assert not isinstance(next_move(cluster, group_of(cluster, SOFT)), Move)


def test_moves_under_way_are_counted_where_they_will_land() -> None:
    """A place that a replacement is on its way to is not given to another."""
    cluster = cluster_of([zoned(f"p{i}", "a0") for i in range(3)], one_a_zone("ab"))
    first = next_move(cluster, group_of(cluster))
    assert isinstance(first, Move)
    with supposed(cluster, [first]):
        assert next_move(cluster, group_of(cluster)) is None
    assert next_move(cluster, group_of(cluster)) == first


PLACES = st.lists(st.sampled_from(["a0", "a1", "b0", "b1", "c0", "c1"]), min_size=1, max_size=14)
KINDS = st.sampled_from([None, "DoNotSchedule", ANYWAY])


@settings(max_examples=120, deadline=None)
@given(
    PLACES,
    KINDS,
    KINDS,
    st.integers(1, 2),
    st.integers(0, 100),
    st.sampled_from([HARD, SOFT]),
    st.sets(st.sampled_from(["a0", "b0", "c0", "c1"])),
)
def test_no_move_raises_the_violation_and_moves_come_to_an_end(
    places: list[str],
    zone: str | None,
    host: str | None,
    skew: int,
    weight: int,
    how: Rebalance,
    shut: set[str],
) -> None:
    """Whatever constraints fight, no move makes it worse, and there are only so many moves."""
    nodes = [
        node.unschedulable() if node.build().metadata.name in shut else node
        for node in one_a_zone("abc", hosts=2)
    ]
    built = []
    for i, place in enumerate(places):
        made = pod(f"p{i}", place)
        if zone:
            made = made.spread(ZONE, max_skew=skew, when=zone, app="web")
        if host:
            made = made.spread(HOSTNAME, max_skew=1, when=host, app="web")
        if weight:
            made = made.prefers_anti_affinity_to(weight=weight, topology=ZONE, app="web")
        built.append(made)
    cluster = cluster_of(built, nodes)
    group = group_of(cluster, how)
    before_all = {each: (cluster.pods.index[each], cluster.find_pod(each)) for each in group.pods}
    planned, _ = plan_moves(cluster, [group])
    assert len(planned) < 100
    assert before_all == {each: (cluster.pods.index[each], cluster.find_pod(each)) for each in group.pods}
    done = []
    while isinstance(move := next_move(cluster, group), Move):
        before = unevenness(cluster, group.witnesses)
        found = cluster.find_pod(move.pod)
        assert found is not None
        cluster.remove_pod(move.pod)
        cluster.assume(move.pod, found[0], move.replacement_node or "")
        after = unevenness(cluster, group.witnesses)
        assert (before, after) == (move.before, move.after)
        assert after < before
        done.append(move)
        pods = (*(each for each in group.pods if each != move.pod), move.pod)
        group = MovableGroup(pods, group.witnesses, how)
    assert done == planned
