"""Bad days: whatever breaks, nobody goes who matches, no budget is overrun, and nothing is forgotten."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.api.client import Json
from tests.support.api.proxy import Proxy, Trouble, proxying
from tests.support.builders import HOSTNAME, make_node
from tests.support.processes.controllers import StartControllers
from tests.support.worlds.cluster import ClusterWorld
from tests.support.worlds.election import election, holder
from tests.system.eviction.fake_controllers import Workload, allow, say_ready, workload
from tests.system.eviction.scenario import (
    annotated,
    budget,
    evicted,
    is_gone,
    of_app,
    tenant,
    unlabel,
)

OLD, KEPT = "old", "kept"
LONG = 60.0
MANY, FEW = 12, 3


def prepare(world: ClusterWorld) -> tuple[list[Json], list[Json]]:
    """Pods on a node that is about to lose its label, and pods on one that keeps it."""
    world.nodes(*(make_node(name).labels({HOSTNAME: name}, team="b") for name in (OLD, KEPT)))
    template = annotated(tenant("any", team="b"))

    def place(name: str, node: str) -> Json:
        metadata = {**template["metadata"], "name": name}
        return world.add_pod({"metadata": metadata, "spec": template["spec"]}, nodeName=node)

    going = [place(f"goes-{number}", OLD) for number in range(MANY)]
    return going, [place(f"stays-{number}", KEPT) for number in range(FEW)]


def left(world: ClusterWorld, pods: Sequence[Json]) -> int:
    uids = {pod["metadata"]["uid"] for pod in world.all_pods()}
    return sum(pod["metadata"]["uid"] in uids for pod in pods)


def until_met(world: ClusterWorld, proxy: Proxy, number: int = 1) -> None:
    """Wait until evictions are on their way."""
    world.until(lambda: proxy.done["met"] >= number, "an eviction is on its way")


def cleared(world: ClusterWorld, going: Sequence[Json], staying: Sequence[Json]) -> None:
    world.until(lambda: not left(world, going), "everybody has gone")
    assert left(world, staying) == len(staying)


@pytest.mark.parametrize(
    ("trouble", "shows"),
    [
        (Trouble(meets="eviction", refusals={429: 0.1, 500: 0.1}), "refused with 500"),
        (Trouble(meets="eviction", lost=0.3, broken=0.2), "lost"),
        (Trouble(meets="eviction", cut_after=12, delay=0.05), "cut"),
    ],
    ids=["refusals", "lost-answers", "cut-watches"],
)
def test_a_round_survives(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path, trouble: Trouble, shows: str
) -> None:
    """Answers that are refused or lost, and watches that end in the middle of a line."""
    going, staying = prepare(world)
    with (
        proxying(world.backend, tmp_path, trouble) as proxy,
        start_controllers(kubeconfig=proxy.kubeconfig) as process,
    ):
        unlabel(world, OLD, "team")
        cleared(world, going, staying)
        assert process.alive, process.log[-3000:]
    assert proxy.done[shows] > 0


def test_the_api_server_dies_in_the_middle(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path
) -> None:
    """kill -9 of the API server amid evictions forgets nobody and evicts nobody who matches."""
    going, staying = prepare(world)
    slowly = Trouble(meets="eviction", delay=0.2, width=1)
    with (
        proxying(world.backend, tmp_path, slowly) as proxy,
        start_controllers(kubeconfig=proxy.kubeconfig) as process,
    ):
        unlabel(world, OLD, "team")
        world.until(lambda: left(world, going) <= MANY - 3, "some have gone")
        assert left(world, going) > 2, "it was too fast to be killed in the middle"
        world.backend.kill()
        world.client.close()
        slowly.delay = 0.0
        world.backend.restart()
        cleared(world, going, staying)
        assert process.alive, process.log[-3000:]


def test_it_dies_between_decision_and_eviction(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path
) -> None:
    """The next one judges afresh: who still has to go goes, who matches again stays."""
    going, staying = prepare(world)
    held = Trouble(meets="eviction", delay=LONG)
    with (
        proxying(world.backend, tmp_path, held) as proxy,
        start_controllers(kubeconfig=proxy.kubeconfig) as process,
    ):
        unlabel(world, OLD, "team")
        unlabel(world, KEPT, "team")
        until_met(world, proxy, MANY + FEW)
        process.kill()
    assert left(world, going) == MANY
    assert all("DisruptionTarget" in str(pod["status"]) for pod in world.all_pods())

    world.label_node(KEPT, team="b")
    with start_controllers():
        cleared(world, going, staying)


def test_a_leader_that_slept_through_its_lease_evicts_nobody(
    world: ClusterWorld, start_controllers: StartControllers
) -> None:
    """It was about to evict more; by then somebody else leads, and the label is back."""
    going, staying = prepare(world)
    slowly = (
        "--domain-eviction-qps=100",
        "--domain-eviction-burst=100",
        "--kube-api-qps=12",
        "--kube-api-burst=1",
    )
    flags = (*election(world), *slowly)
    with start_controllers(*flags, leader_elect=True) as leader:
        first = world.until(lambda: holder(world), "there is a leader")
        with start_controllers(*flags, leader_elect=True) as standby:
            unlabel(world, OLD, "team")
            world.until(lambda: left(world, going) < MANY, "the first has gone")
            leader.process.send_signal(signal.SIGSTOP)
            try:
                world.label_node(OLD, team="b")
                world.until(lambda: holder(world) not in (first, None), "somebody else leads")
                before = left(world, going)
                assert before > 2, "there was no backlog"
            finally:
                leader.process.send_signal(signal.SIGCONT)
            assert leader.process.wait(LONG) == 2
            assert "error: lease " in leader.log
            assert left(world, going) == before
            assert left(world, staying) == FEW
            unlabel(world, OLD, "team")
            world.until(lambda: left(world, going) < before, "the one that leads goes on")
            assert standby.alive


def test_a_pod_that_is_replaced_meanwhile_is_not_taken_for_the_old_one(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path
) -> None:
    """The eviction was meant for another one of the same name, which is elsewhere now."""
    world.nodes(*(make_node(name).labels({HOSTNAME: name}, team="b") for name in (OLD, KEPT)))
    template = annotated(tenant("web", team="b"))
    world.add_pod(template, nodeName=OLD)
    held = Trouble(meets="eviction", delay=1.0)
    with (
        proxying(world.backend, tmp_path, held) as proxy,
        start_controllers(kubeconfig=proxy.kubeconfig),
    ):
        unlabel(world, OLD, "team")
        until_met(world, proxy)
        world.delete_pod("web")
        pod = world.add_pod(template, nodeName=KEPT)
        marker = world.add_pod({**template, "metadata": {**template["metadata"], "name": "m"}}, nodeName=OLD)
        evicted(world, marker)
        assert not is_gone(world, pod)


def test_a_pod_that_matches_again_meanwhile_is_judged_again(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path
) -> None:
    """An eviction that was refused is not simply sent again."""
    world.nodes(*(make_node(name).labels({HOSTNAME: name}, team="b") for name in (OLD, KEPT)))
    template = annotated(tenant("web", team="b"))
    pod = world.add_pod(template, nodeName=OLD)
    refusing = Trouble(meets="eviction", refusals={500: 1.0})
    with (
        proxying(world.backend, tmp_path, refusing) as proxy,
        start_controllers(kubeconfig=proxy.kubeconfig),
    ):
        unlabel(world, OLD, "team")
        until_met(world, proxy)
        world.label_node(OLD, team="b")

        def taken_back() -> bool:
            conditions = world.get_pod("web")["status"].get("conditions") or ()
            return any(one["type"] == "DisruptionTarget" and one["status"] == "False" for one in conditions)

        world.until(taken_back, "the pod is told that it stays")
        refusing.refusals.clear()
        unlabel(world, KEPT, "team")
        marker = world.add_pod({**template, "metadata": {**template["metadata"], "name": "m"}}, nodeName=KEPT)
        evicted(world, marker)
        assert not is_gone(world, pod)


def test_a_budget_that_never_allows_is_never_overrun(
    world: ClusterWorld, start_controllers: StartControllers
) -> None:
    """A budget is never overrun, not by a restart either, and what it allows later goes."""
    going, staying = prepare(world)
    for pod in going:
        say_ready(world, pod["metadata"]["name"])
    budget(world, "any", minAvailable=MANY + FEW)
    allow(world, "any", 0, healthy=MANY + FEW)
    unlabel(world, OLD, "team")
    with start_controllers() as process:
        world.events(going[-1]["metadata"]["name"], "FailedNodeAffinityEviction")
        process.kill()
    assert left(world, going) == MANY
    with start_controllers():
        allow(world, "any", 2, healthy=MANY + FEW)
        world.until(lambda: left(world, going) == MANY - 2, "as many go as may")
        allow(world, "any", 3, healthy=MANY + FEW - 2)
        world.until(lambda: left(world, going) <= MANY - 5, "so many more go")
        assert left(world, going) == MANY - 5
        allow(world, "any", MANY - 5, healthy=MANY + FEW - 5)
        cleared(world, going, staying)


def test_the_leader_dies_in_the_middle(
    world: ClusterWorld, start_controllers: StartControllers, tmp_path: Path
) -> None:
    """The standby takes over: one pod at a time, none twice, and the service keeps what it was promised."""
    world.nodes(*(make_node(name).labels({HOSTNAME: name}, team="b") for name in (OLD, KEPT)))
    slowly = Trouble(meets="eviction", delay=0.2)
    with proxying(world.backend, tmp_path, slowly) as proxy:
        flags = election(world)
        first = start_controllers(*flags, kubeconfig=proxy.kubeconfig, leader_elect=True)
        second = start_controllers(*flags, kubeconfig=proxy.kubeconfig, leader_elect=True)
        with first as leader:
            led = world.until(lambda: holder(world), "there is a leader")
            with second as standby:
                service = service_on(world, OLD)
                world.label_node(KEPT, team="b")
                unlabel(world, OLD, "team")
                until_made(service, 5)
                leader.kill()
                until_made(service, 8)
                settle(service)
                assert holder(world) != led
                assert standby.alive, standby.log[-3000:]
    assert min(service.ready) >= 3
    assert service.made == 8


def service_on(world: ClusterWorld, node: str) -> Workload:
    """Four pods on a node, three of which have to be ready; their replacements go elsewhere."""
    service = workload(world, "ReplicaSet", "web", annotated(tenant("any", team="b")), 4, 3)
    service.template["spec"]["nodeName"] = node
    service.until_ready()
    service.template["spec"]["nodeName"] = KEPT
    return service


def until_made(service: Workload, number: int) -> None:
    def made() -> bool:
        service.tend()
        return service.made >= number

    service.world.until(made, f"{number} pods were made")


def settle(service: Workload) -> None:
    def all_ready() -> bool:
        service.tend()
        return service.ready[-1] == service.replicas

    service.world.until(all_ready, "everybody is ready")
    assert len(of_app(service.world, service.name)) == service.replicas
