"""Bad days: whatever breaks, no pod is bound twice, no rule is broken, and nothing that fits stays behind."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.support.api.histories.pod_recorder import Recorder, recording
from tests.support.api.proxy import Trouble, proxying
from tests.support.builders import HOSTNAME, PodBuilder, make_pod
from tests.support.processes.process import BerthProcess
from tests.support.processes.scheduler import StartScheduler
from tests.support.worlds.cluster import ClusterWorld
from tests.support.worlds.election import election, holder
from tests.system.scheduler import backlog

SPREAD = frozenset({"PodTopologySpread"})
_PATIENCE = 120.0
# Enough pods that one a node is a backlog when they are bound a few a second.
APART, ONE_BY_ONE = 24, ("--kube-api-qps=6", "--kube-api-burst=4")
# Eighty bindings a second: there is time to do something in the middle of a drain.
SLOW_ENOUGH = Trouble(delay=0.1, width=8)


def drained(
    world: ClusterWorld, recorder: Recorder, process: BerthProcess, ignoring: frozenset[str] = frozenset()
) -> None:
    """Everything fits, so everything is bound in the end, once and by the rules."""

    def ended() -> bool:
        assert process.alive, process.log[-3000:]
        return not backlog.unbound(world)

    world.until(ended, "every pod is bound", _PATIENCE)
    assert recorder.moved == {}
    assert backlog.broken_rules(world, ignoring) == {}


def test_broken_rules_would_be_noticed(world: ClusterWorld) -> None:
    """The proof is worth something: pods that were put where they must not be are found."""
    world.nodes(*backlog.nodes()[:2])
    apart = make_pod("a").labels(app="x").anti_affinity_to(app="x", topology=HOSTNAME).on("node-000")
    world.pods(apart, make_pod("b").labels(app="x").on("node-000"))
    world.pod(make_pod("c").requests(cpu="2").on("node-001"))

    found = {name.split("/")[1]: rules for name, rules in backlog.broken_rules(world).items()}
    assert found == {"a": ["InterPodAffinity"], "b": ["InterPodAffinity"], "c": ["NodeResourcesFit"]}


@pytest.mark.parametrize(
    ("trouble", "shows"),
    [
        (Trouble(refusals={409: 0.3}), "refused with 409"),
        (Trouble(refusals={429: 0.1}), "refused with 429"),
        (Trouble(refusals={500: 0.3}), "refused with 500"),
        (Trouble(lost=0.3), "lost"),
        (Trouble(broken=0.2), "broken"),
        (Trouble(delay=0.3), ""),
        (Trouble(cut_after=40), "cut"),
        (Trouble(refusals={409: 0.1, 500: 0.1}, lost=0.1, broken=0.1, delay=0.05, cut_after=60), "cut"),
    ],
    ids=["409", "429", "500", "lost-answers", "broken-answers", "slow", "cut-watches", "everything"],
)
def test_a_drain_survives(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path, trouble: Trouble, shows: str
) -> None:
    """Answers that are refused, lost or late, and watches that end in the middle of a line."""
    backlog.prepare(world)
    with (
        recording(world.backend, world.path("pods")) as recorder,
        proxying(world.backend, tmp_path, trouble) as proxy,
        start(kubeconfig=proxy.kubeconfig) as process,
    ):
        drained(world, recorder, process)
    assert not shows or proxy.done[shows] > 0


def test_the_api_server_dies_in_the_middle(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path
) -> None:
    """It is killed while bindings are under way and comes back with what it had."""
    backlog.prepare(world)
    with (
        recording(world.backend, world.path("pods")) as recorder,
        proxying(world.backend, tmp_path, SLOW_ENOUGH) as proxy,
        start(kubeconfig=proxy.kubeconfig) as process,
    ):
        recorder.until(40)
        world.backend.kill()
        world.client.close()
        world.backend.restart()
        assert backlog.unbound(world), "it was too fast to be killed in the middle"
        drained(world, recorder, process)


def test_the_leader_dies_in_the_middle(world: ClusterWorld, start: StartScheduler, tmp_path: Path) -> None:
    """The standby takes over what the leader left, and binds nothing again."""
    backlog.prepare(world)
    with (
        recording(world.backend, world.path("pods")) as recorder,
        proxying(world.backend, tmp_path, SLOW_ENOUGH) as proxy,
        start(*election(world), kubeconfig=proxy.kubeconfig, leader_elect=True) as leader,
    ):
        first = world.until(lambda: holder(world), "there is a leader")
        with start(*election(world), kubeconfig=proxy.kubeconfig, leader_elect=True) as standby:
            recorder.until(40)
            leader.kill()
            assert backlog.unbound(world), "it was too fast to be killed in the middle"
            drained(world, recorder, standby)
            assert holder(world) != first


def test_a_leader_that_slept_through_its_lease_binds_nothing(
    world: ClusterWorld, start: StartScheduler
) -> None:
    """It had chosen a node for every pod; by then another one has put other pods there."""
    world.nodes(*backlog.nodes()[:APART])
    flags = (*election(world), *ONE_BY_ONE)
    urgent = world.priority_class("urgent", 1000)
    with recording(world.backend, world.path("pods")) as recorder, start(*flags, leader_elect=True) as leader:
        first = world.until(lambda: holder(world), "there is a leader")
        with start(*flags, leader_elect=True) as standby:
            world.pods(*apart("low", APART))
            recorder.until(2)
            leader.process.send_signal(signal.SIGSTOP)
            before = recorder.bound
            try:
                for pod in apart("high", 4):
                    world.pod(pod, priorityClassName=urgent)
                world.until(lambda: holder(world) != first, "somebody else leads")
                world.until(lambda: all(world.node_of(f"high-{n}") for n in range(2)), "some are bound")
            finally:
                leader.process.send_signal(signal.SIGCONT)
            assert before < APART - 8, "there was no backlog"
            assert leader.process.wait(_PATIENCE) == 2
            assert "error: lease " in leader.log
            world.until(lambda: len(backlog.unbound(world)) == 4, "every node has a pod", _PATIENCE)
            assert standby.alive
        assert recorder.moved == {}
        assert backlog.broken_rules(world) == {}


def test_a_leader_that_slept_a_moment_goes_on(world: ClusterWorld, start: StartScheduler) -> None:
    """Within its renew deadline it still leads: it renews its lease and binds what it had chosen."""
    world.nodes(*backlog.nodes()[:APART])
    flags = (*election(world), *ONE_BY_ONE)
    with recording(world.backend, world.path("pods")) as recorder, start(*flags, leader_elect=True) as leader:
        world.pods(*apart("low", APART))
        recorder.until(2)
        leader.process.send_signal(signal.SIGSTOP)
        time.sleep(1.0)  # longer than the retry period, shorter than the renew deadline
        leader.process.send_signal(signal.SIGCONT)
        drained(world, recorder, leader)


def apart(name: str, number: int) -> list[PodBuilder]:
    pods = (make_pod(f"{name}-{each}").labels(app="x") for each in range(number))
    return [pod.anti_affinity_to(app="x", topology=HOSTNAME) for pod in pods]


def test_the_scheduler_dies_and_starts_again(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path
) -> None:
    """What it had not bound is decided afresh, beside what it had."""
    backlog.prepare(world)
    with (
        recording(world.backend, world.path("pods")) as recorder,
        proxying(world.backend, tmp_path, SLOW_ENOUGH) as proxy,
    ):
        with start(kubeconfig=proxy.kubeconfig) as process:
            recorder.until(40)
            process.kill()
        assert backlog.unbound(world)
        with start(kubeconfig=proxy.kubeconfig) as process:
            drained(world, recorder, process)


def test_nodes_and_pods_go_while_pods_are_bound(
    world: ClusterWorld, start: StartScheduler, tmp_path: Path
) -> None:
    """Bindings to what is gone fail or are cleaned up; the rest is placed by the rules."""
    backlog.prepare(world)
    gone_nodes = [f"node-{number:03d}" for number in range(12)]
    gone_pods = [pod["metadata"]["name"] for pod in world.all_pods()][::7]
    with (
        recording(world.backend, world.path("pods")) as recorder,
        proxying(world.backend, tmp_path, SLOW_ENOUGH) as proxy,
        start(kubeconfig=proxy.kubeconfig) as process,
    ):
        recorder.until(20)
        for node, pod in zip(gone_nodes, gone_pods, strict=False):
            world.delete_node(node)
            world.delete_pod(pod)
        for pod in gone_pods[len(gone_nodes) :]:
            world.delete_pod(pod)
        assert backlog.unbound(world), "it was too fast to be disturbed"
        drained(world, recorder, process, SPREAD)
        # Pods on nodes that went are collected by a controller; their successors must find a place.
        lost = [p["metadata"]["name"] for p in world.all_pods() if p["spec"]["nodeName"] in gone_nodes]
        for name in lost:
            world.delete_pod(name)
        again = {builder.build().metadata.name: builder for builder in backlog.pods()}
        world.pods(*(again[name] for name in lost))
        drained(world, recorder, process, SPREAD)
