"""Machines run against an API server that misbehaves, and still everything comes out right."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from berth.cli.commands.scheduler import OPTIONAL, scheduler_runs
from berth.controllers.hollow.pods import Kubelets
from berth.controllers.hollow.registration import Registration, Shape, make_nodes
from berth.controllers.workloads.deployment import DeploymentController
from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.engine.state.options import Options
from berth.kube.api_resources import EVENTS, PODS, VIEWS
from berth.live.runner import Runner
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Event, Evict, Outcome
from berth.scheduler.machine import Scheduler
from berth.scheduler.state import SchedulerSettings
from tests.support.api.fake import FakeApi, Fault, Raw, serving
from tests.support.scripts.script import workload
from tests.support.waiting import running, until


@asynccontextmanager
async def control_plane(api: FakeApi, nodes: int = 3) -> AsyncIterator[Runner]:
    cache = Cache()
    async with serving(api) as client:
        machines: list[Any] = [
            Registration(cache, make_nodes(Shape(nodes=nodes))),
            DeploymentController(cache),
            ReplicaSetController(cache),
            Kubelets(cache),
        ]
        runner = Runner(client, machines, VIEWS, first=(cache,), optional=OPTIONAL)
        options = Options()
        settings = SchedulerSettings(profiles={"": options, "default-scheduler": options})
        runner.add(Scheduler(settings), scheduler_runs(settings))
        async with running(runner.run()):
            await asyncio.wait_for(runner.synced(), 10)
            yield runner


def running_pods(api: FakeApi) -> list[str]:
    return [
        item["spec"].get("nodeName", "")
        for key, item in api.objects.items()
        if key[0] == "pods" and item.get("status", {}).get("phase") == "Running"
    ]


async def deploy(api: FakeApi, replicas: int = 6) -> None:
    body = workload("web", replicas)
    body["metadata"].update(namespace="default", generation=1)
    await api.put("deployments", body)


def test_a_deployment_runs() -> None:
    """From the Deployment to running pods on all nodes, with a status that says so."""

    async def story() -> None:
        api = FakeApi()
        async with control_plane(api):
            await deploy(api)
            await until(lambda: len(running_pods(api)) == 6)
            assert len(set(running_pods(api))) == 3
            await until(
                lambda: (
                    api.objects["deployments", "default", "web"].get("status", {}).get("availableReplicas")
                    == 6
                )
            )

    asyncio.run(story())


def test_conflicts_errors_and_overload_are_retried() -> None:
    """Every fifth write fails, each time in another way; no pod is lost and none is doubled."""

    async def story() -> None:
        api = FakeApi()
        count = 0
        faults = (409, 429, 500, 503)

        def trouble(method: str, path: str) -> None:
            nonlocal count
            if method == "GET" or "/events" in path:
                return
            count += 1
            if count % 5 == 0:
                raise Fault(faults[count // 5 % 4], "Conflict", "0.01")

        api.before = trouble
        async with control_plane(api):
            await deploy(api, 10)
            await until(lambda: len(running_pods(api)) == 10, 20)
            assert len(api.names("pods")) == 10

    asyncio.run(story())


def test_a_watch_that_is_cut_does_not_double_pods() -> None:
    """Creations whose events are late are expected, not repeated."""

    async def story() -> None:
        api = FakeApi()
        async with control_plane(api):
            api.cut_after = 1
            await deploy(api, 8)
            await until(lambda: len(running_pods(api)) == 8, 20)
            assert len(api.names("pods")) == 8

    asyncio.run(story())


def test_a_machine_that_breaks_ends_the_runner() -> None:
    """An error in a machine is a bug, and is not swallowed."""

    async def story() -> None:
        api = FakeApi()
        async with serving(api) as client:
            cache = Cache()
            machine = ReplicaSetController(cache)

            def broken(now: float) -> list[Any]:
                raise ZeroDivisionError(now)

            machine.reconcile = broken  # type: ignore[method-assign]
            runner = Runner(client, [machine], VIEWS, first=(cache,))
            with pytest.raises(ExceptionGroup) as caught:
                await asyncio.wait_for(runner.run(), 10)
            assert caught.group_contains(ZeroDivisionError)

    asyncio.run(story())


class Evictor:
    """A machine that evicts one pod, and has something to say about it."""

    name = "evictor"
    watches = (PODS,)

    def __init__(self) -> None:
        self.learnt: list[int] = []
        self._asked = self._draining = self._told = False

    def handle(self, event: Event) -> None:
        pass

    def due(self) -> float | None:
        if self._draining:
            return 0.0 if self.learnt and not self._told else None
        return None if self._asked else 0.0

    def drain(self) -> None:
        self._draining = True

    def reconcile(self, now: float) -> list[Action]:
        del now
        if self._draining:
            return self._last_words() if self.learnt and not self._told else []
        self._asked = True
        return [Evict(resource=PODS, key=("default", "p"))]

    def done(self, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Evict):
            self.learnt.append(outcome.code)

    def _last_words(self) -> list[Action]:
        self._told = True
        body = {"metadata": {"name": "told"}, "codes": list(self.learnt)}
        return [Create(resource=EVENTS, key=("default", "p"), at=("default", ""), body=body)]


class SlowApi(FakeApi):
    """Answers to an eviction when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.go_on = asyncio.Event(), asyncio.Event()

    async def _act(self, key: tuple[str, str, str], item: Raw, subresource: str, body: Raw) -> Raw:
        self.asked.set()
        await self.go_on.wait()
        return await super()._act(key, item, subresource, body)


def test_an_eviction_that_was_sent_is_heard_to_the_end() -> None:
    """Told to end, the runner waits for the answer, and writes what there is to say about it."""

    async def story() -> None:
        api, machine = SlowApi(), Evictor()
        await api.put("pods", {"metadata": {"namespace": "default", "name": "p"}, "spec": {}})
        async with serving(api) as client:
            runner = Runner(client, [machine], VIEWS)
            async with running(runner.run()) as task:
                await asyncio.wait_for(api.asked.wait(), 10)
                task.cancel()
                await asyncio.sleep(0)
                api.go_on.set()
        assert machine.learnt == [200]
        assert api.objects["events", "default", "told"]["codes"] == [200]

    asyncio.run(story())
