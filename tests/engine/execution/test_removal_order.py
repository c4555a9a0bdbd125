"""Which pods go first when a group shrinks, so that the rest stays even."""

from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.controllers.workloads.pods import deletion_rank
from berth.engine.execution.removal_order import has_order, removal_order
from berth.engine.state.cluster import Cluster
from berth.kube.objects import Condition, LivePod, LivePodStatus, ObjectMeta, PodSpec
from berth.kube.times import seconds
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.snapshots import zone_node

TIME = "2026-01-01T00:00:00Z"


def cluster_of(pods: list[PodBuilder], zones: str = "abc", hosts: int = 3) -> Cluster:
    cluster = Cluster()
    for zone in zones:
        for i in range(hosts):
            cluster.add_node(zone_node(f"{zone}{i}", zone).build())
    for pod in pods:
        cluster.add_pod(pod.build())
    return cluster


def spread(name: str, node: str, *, skew: int = 1, when: str = "DoNotSchedule") -> PodBuilder:
    return make_pod(name).labels({"app": "web"}).on(node).spread(ZONE, max_skew=skew, when=when, app="web")


def zones_left(placed: list[str], gone: list[int]) -> Counter[str]:
    counts = Counter(dict.fromkeys("abc", 0))
    counts.update(node[0] for i, node in enumerate(placed) if i not in gone)
    return counts


def skew(counts: Counter[str]) -> int:
    return max(counts.values()) - min(counts.values())


def order_of(placed: list[str], **how: object) -> list[int]:
    pods = [spread(f"p{i:02}", node, **how) for i, node in enumerate(placed)]  # type: ignore[arg-type]
    cluster = cluster_of(pods)
    names = [f"default/p{i:02}" for i in range(len(placed))]
    return [names.index(name) for name in removal_order(cluster, names)]


def test_the_fullest_domain_loses_first() -> None:
    """Of five in a, three in b and one in c, a shrinks until it is as b, then both in turn."""
    placed = ["a0"] * 5 + ["b0"] * 3 + ["c0"]
    order = order_of(placed)
    assert [placed[i][0] for i in order[:2]] == ["a", "a"]
    for number in range(2, len(placed)):
        left = zones_left(placed, order[:number])
        assert skew(left) <= max(left.values()) - left["c"]
        assert left["a"] - left["b"] <= 1


def test_the_stock_order_leaves_more_skew() -> None:
    """30 pods, ten a zone, go down to 7: even at every step, where a ReplicaSet by itself empties zones."""
    placed = [f"a{i % 3}" for i in range(10)] + ["b0"] * 10 + ["c0"] * 10
    ours = order_of(placed)
    stock = _stock_order(placed)

    skews = [[skew(zones_left(placed, order[:gone])) for gone in range(24)] for order in (ours, stock)]

    assert max(skews[0]) == 1
    assert max(skews[1]) > 1


def _stock_order(placed: list[str]) -> list[int]:
    """In which a ReplicaSet takes pods without costs: those that share their node with most others first."""
    on, ready = Counter(placed), Condition(type="Ready", status="True", last_transition_time=TIME)
    status = LivePodStatus(phase="Running", conditions=[ready])
    meta = [ObjectMeta(name=f"p{i}", uid=f"{i:02}", creation_timestamp=TIME) for i in range(len(placed))]
    pods = [
        LivePod(metadata=m, spec=PodSpec(node_name=n), status=status)
        for m, n in zip(meta, placed, strict=True)
    ]
    return sorted(range(len(pods)), key=lambda i: deletion_rank(pods[i], dict(on), seconds(TIME) + 60))


@settings(max_examples=60)
@given(st.lists(st.sampled_from([f"{z}{i}" for z, i in product("abc", range(2))]), min_size=1, max_size=12))
def test_no_other_choice_leaves_the_rest_more_even(placed: list[str]) -> None:
    """However many go, no choice of as many pods leaves a smaller skew."""
    order = order_of(placed)
    for number in range(len(placed) + 1):
        counts = sorted(zones_left(placed, []).values())
        best = _least_skew(counts, number)
        assert skew(zones_left(placed, order[:number])) == best


def _least_skew(counts: list[int], number: int) -> int:
    """By taking from the fullest, one by one."""
    counts = list(counts)
    for _ in range(number):
        counts[counts.index(max(counts))] -= 1
    return max(counts) - min(counts)


def test_hard_comes_before_soft_and_soft_before_the_busiest_node() -> None:
    """A pod goes for the hard constraint first, whatever the soft one and the node's load say."""
    nodes = [
        zone_node("a1", "a").capacity(cpu="4"),
        zone_node("a2", "a").capacity(cpu="4"),
        zone_node("b1", "b").capacity(cpu="4"),
    ]
    cluster = Cluster()
    for built in nodes:
        cluster.add_node(built.build())
    cluster.add_pod(make_pod("heavy").on("a2").requests(cpu="3").build())
    where = {"p0": "a1", "p1": "a2", "p2": "b1"}
    for name, node in where.items():
        cluster.add_pod(spread(name, node).requests(cpu="100m").build())
    order = removal_order(cluster, [f"default/{name}" for name in where])
    assert order[0] == "default/p1"  # zone a has two, and a2 is the busier of them


def test_pods_that_would_rather_be_apart_leave_the_fullest_host() -> None:
    """A preference against each other counts as a soft constraint."""
    pods = [
        make_pod(f"p{i}")
        .labels({"app": "web"})
        .on(node)
        .prefers_anti_affinity_to(topology=HOSTNAME, weight=50, app="web")
        for i, node in enumerate(["a0", "a0", "b0"])
    ]
    cluster = cluster_of(pods)
    order = removal_order(cluster, ["default/p0", "default/p1", "default/p2"])
    assert order[0] in {"default/p0", "default/p1"}
    assert set(order[1:]) & {"default/p2"}


@pytest.mark.parametrize(("pod", "expected"), [(make_pod("p"), False), (spread("p", "a0"), True)])
def test_only_pods_that_are_spread_have_an_order(pod: PodBuilder, *, expected: bool) -> None:
    """A group without constraints or preferences is left to the controller's own order."""
    assert has_order(Cluster().class_of(pod.build())) is expected


def test_two_constraints_that_fight_still_give_every_pod_a_place() -> None:
    """All pods are in the order, each once, whatever the constraints say."""
    pods = [
        spread(f"p{i}", node).spread(HOSTNAME, app="web")
        for i, node in enumerate(["a0", "a0", "a1", "b0", "c0", "c0"])
    ]
    cluster = cluster_of(pods)
    names = [f"default/p{i}" for i in range(6)]
    assert sorted(removal_order(cluster, names)) == names
    assert removal_order(cluster, []) == []


def test_a_node_without_the_label_counts_nowhere() -> None:
    """A pod where no constraint counts it is as good as any other to keep."""
    cluster = cluster_of([spread("p0", "a0"), spread("p1", "a0")])
    cluster.add_node(make_node("bare").build())
    cluster.add_pod(spread("p2", "bare").build())
    assert set(removal_order(cluster, ["default/p0", "default/p1", "default/p2"])) == {
        f"default/p{i}" for i in range(3)
    }
