"""What `deploy/` grants is enough, to the authorizer of a real API server: nothing is ever forbidden."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.api.servers import REAL, assets_folder, started
from tests.support.builders import HOSTNAME, NodeBuilder, make_node, make_pod
from tests.support.manifests.rendered import BASE, KUSTOMIZE, kustomized, one
from tests.support.processes.controllers import controllers, metrics
from tests.support.processes.process import free_port
from tests.support.processes.scheduler import IS_KUBE_SCHEDULER, scheduler
from tests.support.worlds.cluster import ClusterWorld
from tests.support.worlds.devices import allocate, claim, consumers, with_claim
from tests.support.worlds.rights import (
    Guarded,
    credentials,
    deploy,
    flags_of,
)
from tests.system.eviction.scenario import annotated, is_gone, native, nine_steps

pytestmark = pytest.mark.skipif(
    not REAL or IS_KUBE_SCHEDULER,
    reason="only a real API server has an authorizer, and only Berth these roles",
)

CONTROLLERS, SCHEDULER = "berth-controllers", "berth-scheduler"


@pytest.fixture(scope="module")
def guarded() -> Iterator[Guarded]:
    assets = assets_folder()
    assert assets is not None
    with started(lambda folder: Guarded(folder, assets)) as backend:
        yield backend


@pytest.fixture(scope="module")
def world(guarded: Guarded) -> Iterator[ClusterWorld]:
    """A cluster in which everything is deployed, but nothing runs yet."""
    made = ClusterWorld(guarded, "rights")
    for folder in (BASE, KUSTOMIZE / "controllers"):
        deploy(made, kustomized(folder))
    yield made
    made.clear()


@contextmanager
def at_work(world: ClusterWorld, folder: Path, port: int) -> Iterator[None]:
    """The scheduler and the controllers run as they are deployed, with their accounts."""
    base, own = kustomized(BASE), kustomized(KUSTOMIZE / "controllers")
    config = folder / "config.yaml"
    config.write_text(one(base, "ConfigMap")["data"]["config.yaml"])
    with (
        scheduler(
            credentials(world, SCHEDULER, folder),
            folder,
            *flags_of(base, "--config", "--secure-port"),
            f"--config={config}",
            "--secure-port=0",
            leader_elect=True,
        ) as placing,
        controllers(
            credentials(world, CONTROLLERS, folder),
            folder,
            *flags_of(own, "--secure-port"),
            f"--secure-port={port}",
            leader_elect=True,
        ) as evicting,
    ):
        yield
        for process in (placing, evicting):
            assert process.alive, process.log[-3000:]
            assert "forbidden" not in process.log


def node(name: str, **labels: str) -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, **labels})


def preempt(world: ClusterWorld) -> None:
    """A pod that matters more takes the place of another one."""
    world.nodes(node("tiny", tiny="yes").capacity(cpu="2"))
    first, second = (
        native(make_pod(name).requests(cpu="1500m").node_selector(tiny="yes")) for name in ("first", "second")
    )
    victim = world.add_pod(first)
    world.bound("first")
    world.add_pod(second, priorityClassName=world.priority_class("urgent", 1000))
    world.until(lambda: is_gone(world, victim), "the first pod made way")
    world.bound("second")


def reserve(world: ClusterWorld) -> None:
    """A pod is named in its claim to devices, and bound to where they are."""
    world.nodes(node("large"))
    claim(world)
    allocate(world, "large")
    with_claim(world, "trainer")
    assert world.bound("trainer") == "large"
    assert consumers(world) == [("pods", "trainer")]


def test_nothing_is_forbidden_that_the_scheduler_and_the_controllers_do(
    guarded: Guarded, world: ClusterWorld, tmp_path: Path
) -> None:
    """Pods are placed, evicted, preempted and given devices; whoever may sees the metrics."""
    port = free_port()
    with at_work(world, tmp_path, port):
        nine_steps(world, annotated, node)
        preempt(world)
        reserve(world)
        assert "evictions_node_affinity_total 1.0" in metrics(port, guarded.prepared.token)
    for account, wanted in (
        (SCHEDULER, {"create pods/binding", "patch pods/status", "delete pods", "create events"}),
        (SCHEDULER, {"patch resourceclaims/status"}),
        (CONTROLLERS, {"create pods/eviction", "patch pods/status", "get nodes", "create events"}),
        (CONTROLLERS, {"create tokenreviews", "create subjectaccessreviews", "update leases"}),
    ):
        answers = guarded.answers(account)
        assert {answer for answer in answers if answer[0] in (401, 403)} == set()
        assert wanted <= {f"{verb} {resource}" for code, verb, resource in answers if code < 300}
