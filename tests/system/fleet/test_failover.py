"""What happens to placed workloads when a cluster fails or nothing fits any more."""

from __future__ import annotations

import signal

from tests.support.fleet.builders import BindingBuilder, make_binding
from tests.support.processes.fleet import StartFleet
from tests.support.worlds.election import election, holder
from tests.support.worlds.fleet import FleetWorld

GROUP = "karmada.io/group=payments"


def single(name: str) -> BindingBuilder:
    return make_binding(name).spread("cluster", 1, 1)


def test_a_duplicate_whose_cluster_fails_does_not_join_the_other(placed: FleetWorld) -> None:
    """It goes to a third cluster; nobody comes in where it is still being evicted from."""
    world = placed
    world.clusters("m1", "m2", "m3")
    for name in "ab":
        world.detected(single(name).anti_group(GROUP), {})
    (left,), stays = world.targets("a", "b")
    world.evict("a", left)
    world.until(lambda: world.places("a") - {left}, "a moved on")
    assert world.places("a") == {"m1", "m2", "m3"} - {left} - stays
    world.detected(single("c").anti_group(GROUP), {})
    assert "a-deployment" in world.refused("c")
    world.evicted("a")
    assert world.targets("c") == [{left}]
    assert world.places("b") == stays


def test_without_a_third_cluster_it_waits(placed: FleetWorld) -> None:
    """The other never shares its cluster, and one that comes later takes the waiting one up."""
    world = placed
    world.clusters("m1", "m2")
    for name in "ab":
        world.detected(single(name).anti_group(GROUP), {})
    (left,), stays = world.targets("a", "b")
    world.evict("a", left)
    assert "b-deployment" in world.refused("a")
    assert world.places("a") == set()
    world.clusters("m3")
    assert world.targets("a") == [{"m3"}]
    assert world.places("b") == stays


def test_an_affinity_group_moves_together(placed: FleetWorld) -> None:
    """One member is evicted; the rest leave gracefully for its new place, instead of a deadlock."""
    world = placed
    world.clusters("m1", "m2", "m3")
    names = ("a", "b", "c")
    for name in names:
        world.detected(single(name).group(GROUP), {})
    places = world.targets(*names)
    (left,) = places[0]
    assert places == [{left}] * 3
    world.evict("a", left)
    world.until(lambda: all(world.places(name) - {left} for name in names), "the group moved")
    assert len({frozenset(world.places(name)) for name in names}) == 1
    for name in ("b", "c"):
        (task,) = world.binding(name)["spec"]["gracefulEvictionTasks"]
        assert (task["fromCluster"], task["producer"]) == (left, "BerthFleet")


def test_what_has_too_little_room_keeps_its_clusters(placed: FleetWorld) -> None:
    """The condition says why, and nothing is taken away."""
    world = placed
    world.clusters("m1", "m2")
    world.detected(single("a").replicas(1).dynamic(), {})
    places = world.targets("a")
    world.edit("a", {"spec": {"replicas": 1_000_000}})
    world.refused("a")
    assert [world.places("a")] == places


def test_what_cluster_affinity_no_longer_matches_is_left(placed: FleetWorld) -> None:
    """A cluster that the affinity no longer matches is left, and the condition says why."""
    world = placed
    world.clusters("m1", "m2")
    world.detected(single("a"), {})
    world.targets("a")
    world.edit("a", {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["no-such"]}}}})
    world.refused("a")
    assert world.places("a") == set()
    assert world.condition("a")["reason"] == "NoClusterFit"


def test_karmadas_way_takes_them(world: FleetWorld, start: StartFleet) -> None:
    """With --karmada-compat a binding that fits nowhere loses its clusters."""
    world.clusters("m1")
    with start("--karmada-compat"):
        world.detected(single("a"), {}, policy="p")
        world.targets("a")
        world.edit("a", {"spec": {"placement": {"clusterAffinity": {"clusterNames": ["no-such"]}}}})
        world.refused("a")
        assert world.places("a") == set()


def test_a_leader_that_slept_through_its_lease_places_nothing(world: FleetWorld, start: StartFleet) -> None:
    """It had chosen a cluster for every binding; by then another one has put other workloads there."""
    names = [f"m{number}" for number in range(12)]
    world.clusters(*names)
    flags = (*election(world), "--watch-workloads=false", "--kube-api-qps=5", "--kube-api-burst=2")
    with start(*flags, leader_elect=True) as leader:
        first = world.until(lambda: holder(world), "there is a leader")
        with start(*flags, leader_elect=True) as standby:
            for number in range(12):
                world.bind(single(f"low-{number}").anti_group(GROUP))
            world.until(lambda: len(occupied(world)) >= 2, "some are placed")
            leader.process.send_signal(signal.SIGSTOP)
            try:
                assert len(occupied(world)) < 8, "there was no backlog"
                for number in range(4):
                    world.bind(single(f"high-{number}").anti_group(GROUP).priority(100))
                world.until(lambda: holder(world) not in (first, None), "somebody else leads")
                world.until(lambda: any(world.places(f"high-{n}") for n in range(4)), "some are placed")
            finally:
                leader.process.send_signal(signal.SIGCONT)
            assert leader.process.wait(60) == 2
            assert "error: lease " in leader.log
            world.until(lambda: len(occupied(world)) == len(names), "every cluster has one")
            assert standby.alive
        assert sorted(occupied(world)) == sorted(names)


def occupied(world: FleetWorld) -> list[str]:
    """The clusters of all bindings, each as often as it is used."""
    return [name for places in world.everywhere().values() for name in places]
