"""`berth scheduler`: the scheduler on any kube-apiserver."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
from prometheus_client import CollectorRegistry

from berth.cli.input.components import component_of, connection_options, operating_options, run_to_the_end
from berth.cli.input.options import (
    bool_option,
    configured_daemon_namespaces_option,
    gates_of,
    gates_option,
    option,
    refusing,
)
from berth.cli.output.decision_log import log_failed_attempt
from berth.cli.output.tables import tell
from berth.engine.state.options import options_of
from berth.kube import api_resources
from berth.kube.api_resources import (
    DRIVERS,
    LABELLED_POD_GROUPS,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    RESOURCE_CLAIMS,
    STATEFUL_SETS,
    Resource,
)
from berth.kube.objects import Pod, Workload
from berth.kube.scheduler_configuration.load import default, load
from berth.kube.scheduler_configuration.model import SchedulerConfiguration
from berth.kube.well_known import DEFAULT_SCHEDULER_NAME
from berth.live import logs
from berth.live.client import Client
from berth.live.component.lifecycle import ComponentSettings, FollowedVersion, Work, run_component
from berth.live.machine_loop import MachineSettings
from berth.live.runner import Runner
from berth.machines.contract import Action, Bind, Get
from berth.machines.rates import Backoff, steady
from berth.scheduler.machine import Scheduler
from berth.scheduler.metrics import SchedulerMetrics
from berth.scheduler.queue import SchedulerPurpose
from berth.scheduler.state import SchedulerSettings

DEFAULT_NAME, LEASE = "berth", "berth-scheduler"
# Kinds that not every API server has; without the kind there are simply no objects of it.
OPTIONAL = frozenset({POD_GROUPS, LABELLED_POD_GROUPS, *DRIVERS, RESOURCE_CLAIMS})
# The scheduler needs fewer fields of pods and of their owners than the controllers do.
VIEWS: dict[Resource, type[Any]] = {
    **{resource: api_resources.VIEWS[resource] for resource in Scheduler.watches},
    PODS: Pod,
    REPLICA_SETS: Workload,
    STATEFUL_SETS: Workload,
}
# Events written at a time, once no binding is under way.
WRITERS = 12
# Seconds to sleep while a few bindings are under way, and while many are, so that answers are read together.
RESTS = (0.01, 0.002)


@click.command("scheduler")
@connection_options
@option("--config", "A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1).", metavar="FILE")
@option(
    "--scheduler-name",
    f"Place pods with this spec.schedulerName (by default {DEFAULT_NAME}, or as --config says).",
    metavar="NAME",
)
@configured_daemon_namespaces_option
@bool_option(
    "--announce-groups",
    default=True,
    help="Agree with other schedulers on which pod starts a group of pods with affinity to each other.",
)
@option(
    "--skip-pods-with-resource-claims",
    "Leave pods with spec.resourceClaims to another scheduler, one that allocates devices.",
    is_flag=True,
)
@gates_option("Switch features.")
@operating_options(LEASE, 10259)
def command(**flags: Any) -> None:  # noqa: ANN401 - read where they are used
    """Place the pods of a cluster: kube-scheduler's rules, and Berth's.

    Runs beside kube-scheduler for pods that name it in spec.schedulerName, or instead of it.
    """
    logs.set_up(flags["logging_format"], flags["verbosity"])
    with refusing(ValueError):
        scheduler, settings, notes = _settings(flags)
    tell("note", *notes)
    run_to_the_end(run(scheduler, settings))


async def run(scheduler: SchedulerSettings, settings: ComponentSettings) -> None:
    """Schedule until cancelled; see `berth.live.component.lifecycle.run_component`."""
    server = FollowedVersion()

    def make(client: Client, registry: CollectorRegistry) -> Work:
        metrics = SchedulerMetrics(time.perf_counter, registry)
        profiles = {
            name: replace(found, version=server.version) for name, found in scheduler.profiles.items()
        }
        settled, identity = replace(scheduler, profiles=profiles), str(uuid.uuid4())
        machine = Scheduler(settled, metrics=metrics, tell=log_failed_attempt, identity=identity)
        runner = Runner(
            client, (machine,), VIEWS, optional=OPTIONAL, settings=scheduler_runs(scheduler, rests=RESTS)
        )
        return Work(follow=runner.follow, act=runner.act, unsynced=runner.unsynced, abandon=runner.abandon)

    await run_component(settings, make, version=server, profiles=", ".join(scheduler.profiles))


def scheduler_runs(
    scheduler: SchedulerSettings, *, writers: int = WRITERS, rests: tuple[float, float] | None = None
) -> MachineSettings:
    """How the scheduler is run: bindings go first, and are finished before it ends."""
    return MachineSettings(
        concurrency=scheduler.in_flight,
        writers=writers,
        rank=_rank,
        apart=True,
        gather=0.0005,
        rests=rests,
        drain=15.0,
        failures=logging.WARNING,
        clock=steady,
    )


def _rank(action: Action) -> int:
    """Bindings and what they depend on go before what is said about pods that cannot be bound."""
    if isinstance(action, Bind | Get):
        return 0
    return 2 if action.purpose in (SchedulerPurpose.CONDITION, SchedulerPurpose.GROUP) else 1


def _settings(flags: Mapping[str, Any]) -> tuple[SchedulerSettings, ComponentSettings, tuple[str, ...]]:
    """What flags and file say together; a flag wins over the file."""
    config, scheduler_name = flags["config"], flags["scheduler_name"]
    name = scheduler_name or DEFAULT_NAME
    configuration = load(config, default_scheduler_name=name) if config else default(name)
    election = configuration.leader_election
    if scheduler_name == DEFAULT_SCHEDULER_NAME and election.resource_name == LEASE:
        # It takes kube-scheduler's lease: only one of the two may place these pods.
        election = replace(election, resource_name="kube-scheduler")
    settings = component_of(flags, election, configuration.client_connection)
    return _scheduler(flags, configuration), settings, configuration.notes


def _scheduler(flags: Mapping[str, Any], configuration: SchedulerConfiguration) -> SchedulerSettings:
    profiles, name = configuration.by_scheduler_name, flags["scheduler_name"]
    if name and name not in profiles:
        if len(profiles) > 1:
            raise ValueError(
                f"--scheduler-name {name}: the configuration has several profiles and none of this name; "
                "set schedulerName there instead"
            )
        profiles = {name: configuration.profiles[0]}
    gates, daemons = gates_of(flags["feature_gates"]), flags["daemon_namespaces"]
    options = {name: options_of(profile, gates) for name, profile in profiles.items()}
    if daemons is not None:
        options = {name: replace(found, daemon_namespaces=daemons) for name, found in options.items()}
    return SchedulerSettings(
        profiles=options,
        component=next(iter(profiles)),
        backoff=Backoff(
            float(configuration.pod_initial_backoff_seconds), float(configuration.pod_max_backoff_seconds)
        ),
        preemption=frozenset(n for n, p in profiles.items() if p.enables("postFilter", "DefaultPreemption")),
        volume_timeout=float(max(p.args.bind_timeout_seconds for p in profiles.values())),
        device_timeout=max(p.args.device_timeout_seconds for p in profiles.values()),
        announce_groups=flags["announce_groups"],
        skips_claims=flags["skip_pods_with_resource_claims"],
    )
