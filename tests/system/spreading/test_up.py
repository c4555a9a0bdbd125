"""Scaling down on `berth up`: the rest stays spread at every step, and costs come and go with the feature."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator

import pytest

from berth.kube.well_known import POD_DELETION_COST
from tests.support.api.client import Json
from tests.support.api.servers import REAL, started
from tests.support.builders import ZONE, make_pod
from tests.support.worlds.cluster import manifest
from tests.support.worlds.control_plane import APPS, POLICY, ControlPlane, PlaneWorld, hollow

pytestmark = pytest.mark.skipif(REAL, reason="it brings its own API server")

ZONES = ("a", "b", "c")
_numbers = itertools.count()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with started(lambda folder: ControlPlane(folder, "", "--rebalance-delay=1s")) as running_plane:
        yield running_plane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[PlaneWorld]:
    made = PlaneWorld(plane, f"spread-{next(_numbers)}")
    made.nodes(*(hollow(f"{zone}{i}", **{ZONE: zone}) for zone in ZONES for i in range(2)))
    yield made
    made.clear()


def spread(world: PlaneWorld, name: str, replicas: int, **metadata: object) -> None:
    template = manifest(make_pod(name).spread(ZONE, max_skew=1, app=name).build())
    template["metadata"] = {}
    world.add_workload("deployments", name, template, replicas=replicas)
    if metadata:
        path = world.path("deployments", name, prefix=APPS)
        world.patch(path, {"metadata": metadata})


def pods(world: PlaneWorld, name: str) -> list[Json]:
    found = world.client.get(world.path("pods"), labelSelector=f"app={name}").json["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def cost(pod: Json) -> str | None:
    found: str | None = (pod["metadata"].get("annotations") or {}).get(POD_DELETION_COST)
    return found


def settled(world: PlaneWorld, name: str, number: int) -> bool:
    """So many pods run, and every one has a cost of its own."""
    found = pods(world, name)
    costs = {cost(pod) for pod in found}
    ready = [pod for pod in found if pod["status"].get("phase") == "Running"]
    return len(found) == len(ready) == number == len(costs) and None not in costs


def scale(world: PlaneWorld, name: str, replicas: int) -> None:
    path = world.path("deployments", name, prefix=APPS)
    world.patch(path, {"spec": {"replicas": replicas}})


def zones(world: PlaneWorld, name: str) -> Counter[str]:
    counts = Counter(dict.fromkeys(ZONES, 0))
    counts.update(pod["spec"]["nodeName"][0] for pod in pods(world, name))
    return counts


def test_whatever_the_steps_the_rest_is_even(world: PlaneWorld) -> None:
    """30 pods over three zones go down to 7 in random steps, and no zone ever has two more than another."""
    spread(world, "web", 30)
    world.until(lambda: settled(world, "web", 30), "web has its pods and their costs")
    rng, number = random.Random(7), 30  # noqa: S311 - steps, not secrets
    while number > 7:
        number = max(7, number - rng.randint(1, 6))
        scale(world, "web", number)
        world.until(lambda: settled(world, "web", number), "web has its pods and their costs")  # noqa: B023 - it is asked at once
        counts = zones(world, "web")
        assert max(counts.values()) - min(counts.values()) <= 1, (number, counts)


def test_a_workload_that_opts_out_has_no_costs(world: PlaneWorld) -> None:
    """The annotation on the Deployment takes the costs back, and gives them again when it is gone."""
    spread(world, "free", 3)
    world.until(lambda: settled(world, "free", 3), "free has its pods and their costs")
    path = world.path("deployments", "free", prefix=APPS)
    world.patch(path, {"metadata": {"annotations": {"berth.dev/keep-spread": "false"}}})
    world.until(
        lambda: {cost(pod) for pod in pods(world, "free")} == {None}, "the costs are as they should be"
    )
    world.patch(path, {"metadata": {"annotations": {"berth.dev/keep-spread": None}}})
    world.until(lambda: settled(world, "free", 3), "free has its pods and their costs")


def test_a_zone_that_comes_is_filled_with_the_fewest_moves(plane: ControlPlane) -> None:
    """Nine pods over two zones, then a third: three are moved, never two at once, as the budget has it."""
    world = PlaneWorld(plane, f"spread-{next(_numbers)}")
    world.nodes(*(hollow(f"{zone}0", **{ZONE: zone}) for zone in "ab"))
    spread(world, "web", 9, annotations={"berth.dev/rebalance": "hard"})
    world.until(lambda: settled(world, "web", 9), "web has its pods and their costs")
    selector = {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1}
    world.make(
        world.path("poddisruptionbudgets", prefix=POLICY), {"metadata": {"name": "b"}, "spec": selector}
    )
    before = {pod["metadata"]["name"] for pod in pods(world, "web")}
    world.nodes(hollow("c0", **{ZONE: "c"}))
    even = Counter(dict.fromkeys(ZONES, 3))
    world.until(lambda: settled(world, "web", 9) and zones(world, "web") == even, "the zones are even")
    assert len({pod["metadata"]["name"] for pod in pods(world, "web")} - before) == 3
    events = world.get(world.path("events"))["items"]
    assert sum(event["reason"] == "Rebalanced" for event in events) == 3
    assert any(event["reason"] == "Rebalancing" for event in events)
    world.clear()


def test_costs_go_when_the_feature_is_switched_off() -> None:
    """Started again without it, the control plane takes back what it wrote, and nothing else."""
    with started(ControlPlane) as own:
        world = PlaneWorld(own, "off")
        world.nodes(*(hollow(zone, **{ZONE: zone}) for zone in ZONES))
        spread(world, "web", 3)
        world.until(lambda: settled(world, "web", 3), "web has its pods and their costs")
        kept = pods(world, "web")[0]["metadata"]["name"]
        world.patch(world.path("pods", kept), {"metadata": {"annotations": {POD_DELETION_COST: "12345"}}})
        world.restart_with("KeepSpread=false")
        world.client = own.client()
        world.until(
            lambda: {cost(pod) for pod in pods(world, "web")} == {None, "12345"},
            "the costs are as they should be",
        )
        world.client.close()
