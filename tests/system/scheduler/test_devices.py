"""Pods with claims to devices go where those are, and are named in the claims before they are bound."""

from __future__ import annotations

from tests.support.builders import make_pod
from tests.support.processes.scheduler import StartScheduler
from tests.support.worlds.cluster import ClusterWorld, zoned
from tests.support.worlds.devices import allocate, claim, consumers, with_claim


def test_a_pod_waits_for_its_devices_and_goes_where_they_are(scheduled: ClusterWorld) -> None:
    """A claim that is missing and one without devices are reasons; then it is reserved, and the pod bound."""
    scheduled.nodes(zoned("n1", "a"), zoned("n2", "b"))
    with_claim(scheduled, "trainer")
    missing = scheduled.refused("trainer")
    assert f'could not find ResourceClaim "{scheduled.namespace}/gpu"' in missing
    claim(scheduled)
    scheduled.refused("trainer", "is not allocated, and Berth allocates no devices")
    allocate(scheduled, "n2")

    assert scheduled.bound("trainer") == "n2"
    assert consumers(scheduled) == [("pods", "trainer")]


def test_pods_share_devices(scheduled: ClusterWorld) -> None:
    """Many pods with one claim are all named in it, whoever comes first."""
    scheduled.nodes(zoned("n1", "a"), zoned("n2", "b"))
    claim(scheduled)
    allocate(scheduled, "n1")
    names = [f"trainer-{i}" for i in range(12)]
    for name in names:
        with_claim(scheduled, name)

    assert {scheduled.bound(name) for name in names} == {"n1"}
    assert consumers(scheduled) == sorted(("pods", name) for name in names)


def test_pods_with_claims_are_left_to_others(world: ClusterWorld, start: StartScheduler) -> None:
    """With the flag they are not touched, and the log says so."""
    world.nodes(zoned("n1", "a"))
    claim(world)
    allocate(world, "n1")
    with start("--skip-pods-with-resource-claims") as process:
        with_claim(world, "trainer")
        world.pod(make_pod("web"))
        assert world.bound("web") == "n1"
        world.until(lambda: "left to another scheduler" in process.log, "the log tells")
        assert world.node_of("trainer") is None
        assert consumers(world) == []
