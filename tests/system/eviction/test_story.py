"""The user story on `berth up`: a tenant moves to nodes of its own, however much of the cluster it has."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator

import pytest

from tests.support.api.servers import REAL, started
from tests.support.processes.controllers import metrics
from tests.support.worlds.control_plane import ControlPlane, PlaneWorld, hollow
from tests.system.eviction.scenario import (
    budget,
    is_ready,
    native,
    numbers_ready,
    of_app,
    tenant,
    uid_of,
    unlabel,
    version,
)

pytestmark = pytest.mark.skipif(REAL, reason="it brings its own API server")

# Faster than by default: what is seen is the pace, not the rate.
RATES = (
    "--eviction-qps=100",
    "--eviction-burst=20",
    "--domain-eviction-qps=100",
    "--domain-eviction-burst=20",
)
USER_A = 4
_numbers = itertools.count()


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with started(lambda folder: ControlPlane(folder, "", *RATES)) as running_plane:
        yield running_plane


@pytest.fixture
def world(plane: ControlPlane) -> Iterator[PlaneWorld]:
    made = PlaneWorld(plane, f"story-{next(_numbers)}")
    yield made
    made.clear()


def ready_nodes(world: PlaneWorld, *apps: str) -> list[str]:
    """Where the pods of apps are that run and stay."""
    pods = [pod for app in apps for pod in of_app(world, app)]
    return [pod["spec"]["nodeName"] for pod in pods if is_ready(pod)]


def populate(world: PlaneWorld, apps: int, replicas: int) -> list[str]:
    """User A has a few pods, user B these, all on shared nodes; the apps of user B."""
    world.nodes(*(hollow(f"shared-{number}", userA="allow", userB="allow") for number in range(4)))
    world.add_workload("deployments", "usera", native(tenant("any", userA="allow")), replicas=USER_A)
    tenants = [f"userb-{number}" for number in range(apps)]
    for app in tenants:
        world.add_workload("deployments", app, native(tenant("any", userB="allow")), replicas=replicas)
        budget(world, app, maxUnavailable=1)
    world.until(lambda: len(ready_nodes(world, "usera")) == USER_A, "user A runs")
    world.until(lambda: len(ready_nodes(world, *tenants)) == apps * replicas, "user B runs")
    return tenants


@pytest.mark.parametrize(("apps", "replicas"), [(1, 2), (3, 4), (5, 12)])
def test_a_tenant_moves_whatever_its_share(world: PlaneWorld, apps: int, replicas: int) -> None:
    """2, 12 and 60 pods beside 4: all move, no app ever lacks more than one, and user A's stay."""
    since = version(world)
    tenants = populate(world, apps, replicas)
    total = apps * replicas
    stays = {uid_of(pod) for pod in of_app(world, "usera")}
    before = {uid_of(pod) for app in tenants for pod in of_app(world, app)}
    new = [f"own-{number}" for number in range(4)]
    world.nodes(*(hollow(name, userB="allow") for name in new))
    for number in range(4):
        unlabel(world, f"shared-{number}", "userB")

    def moved() -> bool:
        nodes = ready_nodes(world, *tenants)
        return len(nodes) == total and set(nodes) <= set(new)

    world.until(moved, "user B has moved")
    assert before.isdisjoint(uid_of(pod) for app in tenants for pod in of_app(world, app))
    assert {uid_of(pod) for pod in of_app(world, "usera")} == stays
    history = numbers_ready(world, tenants, since)
    full = history.index(total)
    assert min(history[full:]) >= total - apps
    log = world.backend.log("up", characters=1_000_000)
    moved_pods = re.findall(rf'"Evicted pod" pod="{world.namespace}/[^ ]+"(.*)', log)
    assert moved_pods == [""] * total
    bound = re.findall(rf'"Successfully bound pod to node" pod="{world.namespace}/', log)
    assert len(bound) == 2 * total + USER_A


def test_an_accident_moves_nobody(world: PlaneWorld) -> None:
    """The label is gone from the only node that had it: everybody stays, and it is said why."""
    world.nodes(hollow("only", userB="allow"), hollow("other"))
    world.add_workload("deployments", "web", native(tenant("any", userB="allow")), replicas=12)
    world.until(lambda: len(ready_nodes(world, "web")) == 12, "it runs")
    before = {uid_of(pod) for pod in of_app(world, "web")}
    unlabel(world, "only", "userB")

    def halted() -> bool:
        served = metrics(world.backend.metrics_port)
        return 'affinity_evictions_without_place{domain="*"} 12.0' in served

    world.until(halted, "evictions are halted")
    assert {uid_of(pod) for pod in of_app(world, "web")} == before
    assert len(ready_nodes(world, "web")) == 12
    assert '"Evictions halted" domain="the cluster"' in world.backend.log("up", characters=100_000)

    world.nodes(hollow("new", userB="allow"))
    world.until(lambda: ready_nodes(world, "web") == ["new"] * 12, "they move when there is a place")
