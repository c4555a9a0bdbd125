"""The controllers, hollow nodes and schedulers of `berth up`, as one asynchronous task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry

from berth.cli.commands.scheduler_shell import Shell
from berth.cli.output.decision_log import PlacingLog, log_decision
from berth.cli.up.control_plane import ControlPlane, assemble, view_of
from berth.engine.state.options import Options
from berth.fleet.scheduler import FleetMetrics, FleetScheduler, FleetSettings
from berth.fleet.scheduler.views import VIEWS as FLEET_VIEWS
from berth.kube.api_resources import Resource
from berth.kube.gates import FeatureGates
from berth.kube.karmada import DEFAULT_SCHEDULER
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client
from berth.live.discovery import discover
from berth.live.growing import Growing
from berth.live.runner import Runner
from berth.live.serving import ServingSettings, serve
from berth.machines.contract import Machine, RawObject
from berth.scheduler.desk import SchedulerSettings
from berth.scheduler.machine import Scheduler
from berth.scheduler.metrics import Metrics

# Registering thousands of nodes is only as fast as requests are made side by side.
CONCURRENCY = 32
# The server is one process: more requests of the scheduler at a time would only make others wait.
BINDINGS, WRITERS = 12, 3
# Pods that name no scheduler are ours, too: there is no other.
SCHEDULER_NAMES = ("default-scheduler", "berth")
# Bindings with another name, such as that of `berth fleet`, are left to a scheduler beside us.
FLEET_NAMES = frozenset((DEFAULT_SCHEDULER,))


class Plane:
    """Everything that is a client of the API server.

    Attributes:
        registry: What the schedulers and the controllers count.
    """

    def __init__(
        self,
        client: Client,
        resources: Iterable[Resource],
        nodes: list[RawObject],
        gates: FeatureGates,
        *,
        scheduler: bool = True,
        fleet: bool = True,
    ) -> None:
        known = list(resources)
        self._client = client
        self.registry = CollectorRegistry()
        self.plane: ControlPlane = assemble(
            known, nodes=nodes, gates=gates, registry=self.registry, tell=log_decision
        )
        options = Options(gates=gates)
        settings = SchedulerSettings(profiles=dict.fromkeys(SCHEDULER_NAMES, options), in_flight=BINDINGS)
        self._scheduler = None
        if scheduler:
            metrics = Metrics(time.perf_counter, self.registry)
            self._scheduler = Shell(client, Scheduler(settings, metrics=metrics), writers=WRITERS)
        self.runner = Runner(
            client,
            self.plane.controllers,
            {resource: view_of(resource) for resource in known},
            first=(self.plane.cache,),
            concurrency=CONCURRENCY,
        )
        self._growing = Growing(client, self.runner, known, self._learn, PartialObjectMetadata)
        self._fleet = None
        if fleet and set(FLEET_VIEWS) <= set(known):
            self._fleet = _make_fleet(client, self.registry)

    def _learn(self, resource: Resource) -> tuple[Machine, ...]:
        return self.plane.learn(resource)

    async def run(self, serving: ServingSettings | None = None) -> None:
        """Run until cancelled; `serving`: where to show health and metrics."""
        async with asyncio.TaskGroup() as group:
            if serving is not None:
                group.create_task(self._serve(serving))
            group.create_task(self.runner.run())
            group.create_task(self._growing.run())
            if self._scheduler is not None:
                group.create_task(self._scheduler.follow())
                group.create_task(self._scheduler.schedule())
            if self._fleet is not None:
                group.create_task(self._fleet.run())

    async def _serve(self, settings: ServingSettings) -> None:
        checks = {"informers": self.runner.unsynced}
        if self._fleet is not None:
            checks["fleet-informers"] = self._fleet.unsynced
        async with serve(settings, checks, self.registry, self._client):
            await asyncio.Event().wait()

    async def ready(self, progress: Callable[[int, int], None]) -> None:
        """Wait until everything is in step and every node is registered."""
        await self.runner.synced()
        if self._fleet is not None:
            await self._fleet.synced()
        total = len(self.plane.registration.waiting)
        while left := len(self.plane.registration.waiting):
            progress(total - left, total)
            await asyncio.sleep(0.05)
        progress(total, total)


def _make_fleet(client: Client, registry: CollectorRegistry) -> Runner:
    """The scheduler of bindings, with informers of its own: it looks at objects in another way.

    The bindings that our own controllers make have the labels of their workloads, which need not be watched.
    """
    settings = FleetSettings(scheduler_names=FLEET_NAMES)
    machine = FleetScheduler(settings, identity="berth-up", metrics=FleetMetrics(registry), tell=PlacingLog())
    return Runner(client, [machine], FLEET_VIEWS)


async def make_plane(
    client: Client, nodes: list[RawObject], gates: FeatureGates, *, scheduler: bool = True, fleet: bool = True
) -> Plane:
    return Plane(client, await discover(client), nodes, gates, scheduler=scheduler, fleet=fleet)
