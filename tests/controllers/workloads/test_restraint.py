"""Whose pods are refused by the server, or fail at once, does not get new ones as fast as it can ask."""

from __future__ import annotations

import itertools

import pytest

from berth.controllers.workloads.controller import Restraint
from berth.controllers.workloads.daemon_set import DaemonSetController
from berth.controllers.workloads.deployment import DeploymentController
from berth.controllers.workloads.jobs.job import JobController
from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.controllers.workloads.stateful_set import StatefulSetController
from berth.kube.api_resources import (
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Resource,
)
from berth.machines.contract import Action, Create, Outcome
from berth.machines.rates import Backoff
from tests.support.scripts.script import Script, workload

KINDS = pytest.mark.parametrize(
    "kind", [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS, JOBS], ids=lambda kind: str(kind.kind)
)


def script() -> Script:
    world = Script(
        DeploymentController,
        ReplicaSetController,
        StatefulSetController,
        DaemonSetController,
        JobController,
    )
    world.node("n")
    return world


def start(world: Script, kind: Resource, replicas: int = 3) -> None:
    counts = {DAEMON_SETS: {}, JOBS: {"parallelism": replicas, "completions": replicas, "backoffLimit": 99}}
    fields = counts.get(kind, {"replicas": replicas})
    body = workload("web")
    world.create(kind, {**body, "spec": {**body["spec"], **fields}})


def refusing(world: Script) -> None:
    """The server refuses pods, each time in other words, since it names the pod."""
    numbers = itertools.count()

    def refuse(action: Action) -> Outcome | None:
        if not isinstance(action, Create) or action.resource is not PODS:
            return None
        message = f'pods "web-{next(numbers)}" is forbidden: no'
        return Outcome(at=world.now, code=403, reason="Forbidden", message=message)

    world.refuse = refuse


def asked(world: Script) -> int:
    return sum(isinstance(action, Create) and action.resource is PODS for action in world.done)


def fail_all(world: Script) -> None:
    """A kubelet that takes none."""
    for pod in world.all(PODS):
        if pod.get("status", {}).get("phase") != "Failed" and "deletionTimestamp" not in pod["metadata"]:
            world.finish(pod["metadata"]["name"], "Failed")


@KINDS
def test_a_refused_pod_is_asked_for_later_each_time(kind: Resource) -> None:
    """Twelve seconds bring a dozen attempts, the next ten minutes half a dozen, whatever the message says."""
    world = script()
    refusing(world)
    start(world, kind)
    world.advance(12)
    assert 5 <= asked(world) <= 20
    writes = len(world.done)
    world.advance(600)
    assert asked(world) <= 30
    assert len(world.done) - writes <= 100


@KINDS
def test_pods_are_made_at_once_when_they_are_no_longer_refused(kind: Resource) -> None:
    """The next attempt goes through, and the rest with it."""
    world = script()
    refusing(world)
    start(world, kind)
    world.advance(12)
    world.refuse = lambda _action: None
    world.advance(16)
    world.set_ready()
    world.settle()
    wanted = {DAEMON_SETS: 1, STATEFUL_SETS: 2}.get(kind, 3)  # a StatefulSet makes one after the other
    assert len(world.names(PODS)) >= wanted


@pytest.mark.parametrize("kind", [REPLICA_SETS, STATEFUL_SETS], ids=lambda kind: str(kind.kind))
def test_a_changed_workload_is_tried_at_once(kind: Resource) -> None:
    """What was refused or failed before says nothing about what was changed."""
    world = script()
    refusing(world)
    start(world, kind, 1)
    world.advance(600)
    world.refuse = lambda _action: None
    world.change(kind, "web", {"spec": {"minReadySeconds": 1}})
    world.settle()
    assert len(world.names(PODS)) == 1


@pytest.mark.parametrize("kind", [DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS], ids=lambda kind: str(kind.kind))
def test_pods_that_fail_at_once_are_replaced_later_each_time(kind: Resource) -> None:
    """The first replacement comes at once, as upstream; the next ones after one, two, four seconds."""
    world = script()
    start(world, kind, 1)
    world.settle()
    for _ in range(1200):  # two minutes
        fail_all(world)
        world.advance(0.1)
        for pod in world.all(PODS):
            if "deletionTimestamp" in pod["metadata"]:
                world.delete(PODS, pod["metadata"]["name"], grace=0)
    assert 6 <= asked(world) <= 10


def test_pods_that_fail_together_are_one_failure() -> None:
    """A node that takes twenty pods with it does not make their replacements wait."""
    world = script()
    start(world, REPLICA_SETS, 20)
    world.settle()
    fail_all(world)
    world.settle()
    assert asked(world) == 40


def test_a_pod_that_fails_now_and_then_is_replaced_at_once() -> None:
    """Failures that are far apart have nothing to do with each other."""
    world = script()
    start(world, REPLICA_SETS, 1)
    for times in range(1, 20):
        world.advance(300)
        assert asked(world) == times
        fail_all(world)
        world.settle()


def test_waits_grow_and_end() -> None:
    """Each failure doubles the wait, up to the longest; the free ones cost nothing; calm starts anew."""
    restraint = Restraint(Backoff(first=1.0, longest=8.0), free=1)
    waits = []
    now = 0.0
    for _ in range(6):
        until = restraint.note("o", now)
        waits.append(until - now)
        now = until
    assert waits == [0, 1, 2, 4, 8, 8]
    assert restraint.note("o", now + 1000) == now + 1000
    assert restraint.until("o", "elsewhere") == 0
    restraint.forget("o")
    assert restraint.until("o") == 0
