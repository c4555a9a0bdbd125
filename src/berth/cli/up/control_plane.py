"""The machines of `berth up`, the cache they share, and the one task that they run in."""

from __future__ import annotations

import asyncio
import importlib
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from prometheus_client import CollectorRegistry

from berth.cli.commands.controllers import rule_keepers
from berth.cli.commands.scheduler import OPTIONAL, scheduler_runs
from berth.cli.input.options import gates_of, gates_option, in_this_order
from berth.cli.output.decision_log import PlacingLog, log_decision, log_failed_attempt
from berth.controllers.disruption import DisruptionController
from berth.controllers.garbage import GarbageCollector
from berth.controllers.hollow.leases import Leases
from berth.controllers.hollow.pods import Kubelets
from berth.controllers.hollow.registration import Registration, Shape
from berth.controllers.namespaces import NamespaceController, RootCertificatePublisher
from berth.controllers.node_lifecycle import NodeLifecycle, TaintEviction
from berth.controllers.propagation import ClusterEvictionController, PropagationController, UnmatchedPolicies
from berth.controllers.workloads.daemon_set import DaemonSetController
from berth.controllers.workloads.deployment import DeploymentController
from berth.controllers.workloads.jobs.cron_job import CronJobController
from berth.controllers.workloads.jobs.job import JobController
from berth.controllers.workloads.replica_set import ReplicaSetController
from berth.controllers.workloads.stateful_set import StatefulSetController
from berth.engine.state.options import Options
from berth.eviction import EvictionSettings, TellEviction
from berth.fleet.scheduler import FleetMetrics, FleetScheduler, FleetSettings
from berth.kube.api_resources import CLUSTER_BINDINGS, EVENTS, POLICIES, RESOURCE_BINDINGS, VIEWS, Resource
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.karmada import as_scheduled
from berth.kube.objects import PartialObjectMetadata, RawObject
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.live import logs
from berth.live.client import Client
from berth.live.component.endpoint import ServingSettings
from berth.live.component.lifecycle import StartError
from berth.live.machine_loop import MachineSettings
from berth.live.referred_kinds import LateResources
from berth.live.runner import Runner
from berth.machines.cache import Cache
from berth.machines.contract import Machine
from berth.machines.recorder import silent
from berth.scheduler.machine import Scheduler
from berth.scheduler.metrics import SchedulerMetrics
from berth.scheduler.state import SchedulerSettings
from berth.server.settings import ServerSettings
from berth.sockets import ServingError
from berth.spreading import SpreadingSettings

# --- gates ----------------------------------------------------------------------------------------
# Feature gates can be set for all components, and for each one, as in a cluster that is half upgraded.

_COMPONENTS = {
    "server": "the API server",
    "scheduler": "the scheduler",
    "controllers": "the controllers",
    "kubelet": "the hollow nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentGates:
    """Which features each component has."""

    server: FeatureGates = DEFAULT_GATES
    scheduler: FeatureGates = DEFAULT_GATES
    controllers: FeatureGates = DEFAULT_GATES
    kubelet: FeatureGates = DEFAULT_GATES


# The options that `read_gates` reads.
gate_options = in_this_order(
    gates_option("Switch features of every component."),
    *(
        gates_option(
            f"The same for {words} alone, on top of --feature-gates.", f"--{component}-feature-gates"
        )
        for component, words in _COMPONENTS.items()
    ),
)


def read_gates(flags: Mapping[str, Any]) -> ComponentGates:
    """What the flags say.

    Raises:
        ClickException: a gate or a value that there is not; the message names the option.
    """
    # KeepSpread is off elsewhere, so that it surprises nobody; here it is on, to be tried.
    everywhere = gates_of(flags["feature_gates"], replace(DEFAULT_GATES, keep_spread=True))
    return ComponentGates(
        **{
            each: gates_of(flags[f"{each}_feature_gates"], everywhere, f"--{each}-feature-gates")
            for each in _COMPONENTS
        }
    )


# --- machines -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """The machines, and the cache they share, which must get every event first."""

    cache: Cache
    controllers: list[Machine]
    registration: Registration
    of_every_kind: list[GarbageCollector | NamespaceController | PropagationController]

    def learn(self, resource: Resource) -> Sequence[Machine]:
        """Take in a new resource of the server; returns the machines that watch it."""
        for machine in self.of_every_kind:
            machine.learn(resource)
        return self.of_every_kind


def assemble(  # noqa: PLR0913 - most have defaults
    resources: Iterable[Resource],
    *,
    gates: ComponentGates,
    eviction: EvictionSettings,
    spreading: SpreadingSettings | None = None,
    nodes: Iterable[RawObject] = (),
    registry: CollectorRegistry | None = None,
    tell: TellEviction = silent,
    certificate: str = "",
) -> ControlPlane:
    """Everything but scheduling, for a server with these resources.

    Args:
        resources: What the server has.
        gates: Which features the components have.
        eviction: How pods are evicted for affinity, and for kubelets, too, which namespaces are those
            of daemons and which version they are of.
        spreading: How groups are kept spread.
        nodes: Hollow nodes to register.
        registry: The metrics that count evictions.
        tell: Called with every decision about evictions.
        certificate: The CA of the server, for the ConfigMap kube-root-ca.crt in every namespace; empty: none.
    """
    cache, known = Cache(), list(resources)
    kept = [resource for resource in known if resource.plural != EVENTS.plural]
    garbage = GarbageCollector(kept)
    namespaces = NamespaceController(cache, known)
    registration = Registration(cache, nodes, eviction.options.version.release)
    controllers: list[Machine] = [
        registration,
        Leases(),
        Kubelets(cache, options=replace(eviction.options, gates=gates.kubelet)),
        DeploymentController(cache),
        ReplicaSetController(cache),
        StatefulSetController(cache),
        DaemonSetController(cache, gates.controllers),
        JobController(cache),
        CronJobController(cache),
        DisruptionController(cache),
        NodeLifecycle(cache),
        TaintEviction(cache),
        *rule_keepers(cache, eviction, spreading or SpreadingSettings(), registry, tell),
        garbage,
        namespaces,
    ]
    if certificate:
        controllers.append(RootCertificatePublisher(cache, certificate))
    plane = ControlPlane(cache, controllers, registration, [garbage, namespaces])
    if POLICIES in known:
        propagation = PropagationController(cache, kept)
        plane.of_every_kind.append(propagation)
        controllers += [
            propagation,
            UnmatchedPolicies(cache, propagation.kinds),
            ClusterEvictionController(cache),
        ]
    return plane


# --- running them ---------------------------------------------------------------------------------

# Registering thousands of nodes takes many requests side by side.
CONTROLLERS = MachineSettings(concurrency=32)
# The server is one process: more requests of the scheduler at a time would only make other clients wait.
BINDINGS, WRITERS = 12, 3
# `berth up` has no other scheduler, so pods that name none are placed by this one, too.
SCHEDULER_NAMES = (DEFAULT_SCHEDULER_NAME, "berth")
# Bindings that name another scheduler, such as `berth fleet` run beside it, are left to that.
FLEET_NAMES = frozenset((DEFAULT_SCHEDULER_NAME,))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpSettings:
    """What the user asked for; `shape` None means: what is there, or a few if there is nothing."""

    settings: ServerSettings
    gates: ComponentGates
    shape: Shape | None
    zones: int
    racks: int
    manifests: list[RawObject]
    demo: bool
    scheduler: bool = True
    fleet: bool = True
    metrics_port: int | None = None
    logging_format: logs.Form = "text"
    verbosity: int = 0
    eviction: EvictionSettings
    spreading: SpreadingSettings
    web_port: int | None = None


class Plane:
    """Everything that is a client of the API server: controllers, hollow nodes and schedulers.

    Attributes:
        registry: What the schedulers and the controllers count.
    """

    def __init__(
        self,
        client: Client,
        resources: Iterable[Resource],
        nodes: list[RawObject],
        asked: UpSettings,
        certificate: str,
    ) -> None:
        known = list(resources)
        self._client = client
        self._asked = asked
        self.registry = CollectorRegistry()
        self.plane: ControlPlane = assemble(
            known,
            nodes=nodes,
            gates=asked.gates,
            registry=self.registry,
            tell=log_decision,
            eviction=asked.eviction,
            spreading=asked.spreading,
            certificate=certificate,
        )
        self._dynamic = LateResources(client, known, self.plane.learn)
        self.runner = Runner(
            client,
            self.plane.controllers,
            {each: VIEWS.get(each, PartialObjectMetadata) for each in {*known, *Scheduler.watches}},
            first=(self.plane.cache, self._dynamic),
            optional=OPTIONAL,
            settings=CONTROLLERS,
        )
        if asked.scheduler:
            options = replace(asked.eviction.options, gates=asked.gates.scheduler)
            self.runner.add(*_make_scheduler(options, self.registry))
        if asked.fleet and set(FleetScheduler.watches) <= set(known):
            self.runner.add(*_make_fleet(self.registry))

    async def run(self) -> None:
        """Run until cancelled."""
        async with asyncio.TaskGroup() as group:
            if self._asked.metrics_port is not None:
                group.create_task(self._serve(self._asked.settings.host, self._asked.metrics_port))
            group.create_task(self.runner.run())
            group.create_task(self._dynamic.run(self.runner))

    async def _serve(self, host: str, port: int) -> None:
        """Show health and metrics."""
        serving = await asyncio.to_thread(importlib.import_module, "berth.live.component.serving")
        settings, checks = ServingSettings(host=host, port=port), {"informers": self.runner.unsynced}
        try:
            async with serving.serve(settings, checks, self.registry, self._client):
                await asyncio.Event().wait()
        except ServingError as error:
            raise StartError(f"--metrics-port: {error}") from None

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
    machine = Scheduler(settings, metrics=metrics, tell=log_failed_attempt, identity=str(uuid.uuid4()))
    return machine, scheduler_runs(settings, writers=WRITERS)


def _make_fleet(registry: CollectorRegistry) -> tuple[FleetScheduler, MachineSettings]:
    """The scheduler of bindings, which decodes them differently than the controllers that make them.

    The bindings that our own controllers make have the labels of their workloads, which need not be watched.
    """
    settings = FleetSettings(scheduler_names=FLEET_NAMES)
    machine = FleetScheduler(settings, identity="berth-up", metrics=FleetMetrics(registry), tell=PlacingLog())
    return machine, MachineSettings(lenses={RESOURCE_BINDINGS: as_scheduled, CLUSTER_BINDINGS: as_scheduled})
