"""The controllers, hollow nodes and schedulers of `berth up`, as one asynchronous task."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from prometheus_client import CollectorRegistry

from berth.cli.commands.scheduler import OPTIONAL, scheduler_runs
from berth.cli.output.attempt_log import log_failed_attempt
from berth.cli.output.decision_log import PlacingLog, log_decision
from berth.cli.up.control_plane import ComponentGates, ControlPlane, assemble, view_of
from berth.engine.state.options import Options
from berth.eviction import EvictionSettings
from berth.fleet.scheduler import FleetMetrics, FleetScheduler, FleetSettings
from berth.kube.api_resources import CLUSTER_BINDINGS, RESOURCE_BINDINGS, Resource
from berth.kube.karmada import as_scheduled
from berth.kube.objects import RawObject
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.live.client import Client
from berth.live.component.endpoint import ServingSettings
from berth.live.component.serving import serve
from berth.live.machine_loop import MachineSettings
from berth.live.referred_kinds import LateResources
from berth.live.runner import Runner
from berth.scheduler.machine import Scheduler
from berth.scheduler.metrics import SchedulerMetrics
from berth.scheduler.state import SchedulerSettings
from berth.spreading import SpreadingSettings

# Registering thousands of nodes is only as fast as requests are made side by side.
CONTROLLERS = MachineSettings(concurrency=32)
# The server is one process: more requests of the scheduler at a time would only make others wait.
BINDINGS, WRITERS = 12, 3
# Pods that name no scheduler are ours, too: there is no other.
SCHEDULER_NAMES = ("default-scheduler", "berth")
# Bindings with another name, such as that of `berth fleet`, are left to a scheduler beside us.
FLEET_NAMES = frozenset((DEFAULT_SCHEDULER_NAME,))


class Plane:
    """Everything that is a client of the API server.

    Attributes:
        registry: What the schedulers and the controllers count.
    """

    def __init__(  # noqa: PLR0913 - what `berth up` is asked for
        self,
        client: Client,
        resources: Iterable[Resource],
        nodes: list[RawObject],
        gates: ComponentGates,
        *,
        scheduler: bool,
        fleet: bool,
        eviction: EvictionSettings,
        spreading: SpreadingSettings,
        certificate: str,
    ) -> None:
        known = list(resources)
        self._client = client
        self.registry = CollectorRegistry()
        self.plane: ControlPlane = assemble(
            known,
            nodes=nodes,
            gates=gates,
            registry=self.registry,
            tell=log_decision,
            eviction=eviction,
            spreading=spreading,
            certificate=certificate,
        )
        self._dynamic = LateResources(client, known, self.plane.learn)
        self.runner = Runner(
            client,
            self.plane.controllers,
            {resource: view_of(resource) for resource in {*known, *Scheduler.watches}},
            first=(self.plane.cache, self._dynamic),
            optional=OPTIONAL,
            settings=CONTROLLERS,
        )
        if scheduler:
            options = replace(eviction.options, gates=gates.scheduler)
            self.runner.add(*_make_scheduler(options, self.registry))
        if fleet and set(FleetScheduler.watches) <= set(known):
            self.runner.add(*_make_fleet(self.registry))

    async def run(self, serving: ServingSettings | None = None) -> None:
        """Run until cancelled; `serving`: where to show health and metrics."""
        async with asyncio.TaskGroup() as group:
            if serving is not None:
                group.create_task(self._serve(serving))
            group.create_task(self.runner.run())
            group.create_task(self._dynamic.run(self.runner))

    async def _serve(self, settings: ServingSettings) -> None:
        async with serve(settings, {"informers": self.runner.unsynced}, self.registry, self._client):
            await asyncio.Event().wait()

    async def ready(self, progress: Callable[[int, int], None]) -> None:
        """Wait until everything is in step and every node is registered."""
        await self.runner.synced()
        total = len(self.plane.registration.waiting)
        while left := len(self.plane.registration.waiting):
            progress(total - left, total)
            await asyncio.sleep(0.05)
        progress(total, total)


def _make_scheduler(options: Options, registry: CollectorRegistry) -> tuple[Scheduler, MachineSettings]:
    profiles = dict.fromkeys(SCHEDULER_NAMES, options)
    settings = SchedulerSettings(profiles=profiles, in_flight=BINDINGS, announce_groups=True)
    metrics = SchedulerMetrics(time.perf_counter, registry)
    machine = Scheduler(settings, metrics=metrics, tell=log_failed_attempt)
    return machine, scheduler_runs(settings, writers=WRITERS)


def _make_fleet(registry: CollectorRegistry) -> tuple[FleetScheduler, MachineSettings]:
    """The scheduler of bindings, which sees them in another way than the controllers that make them.

    The bindings that our own controllers make have the labels of their workloads, which need not be watched.
    """
    settings = FleetSettings(scheduler_names=FLEET_NAMES)
    machine = FleetScheduler(settings, identity="berth-up", metrics=FleetMetrics(registry), tell=PlacingLog())
    return machine, MachineSettings(lenses={RESOURCE_BINDINGS: as_scheduled, CLUSTER_BINDINGS: as_scheduled})
