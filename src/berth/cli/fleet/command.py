"""`berth fleet`: places Karmada's bindings on member clusters, and the tools around that."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import click
from click.core import ParameterSource
from prometheus_client import CollectorRegistry

from berth.cli.fleet.options import LIVE_IMPROVEMENTS, options_of, placing_options, switch
from berth.cli.input.components import (
    component_of,
    connection_options,
    given,
    operating_options,
    run_to_the_end,
)
from berth.cli.input.options import bool_option, in_this_order, option, refusing
from berth.cli.lazy_group import LazyGroup
from berth.cli.output.decision_log import PlacingLog
from berth.fleet.scheduler import SCHEDULER_NAME, FleetMetrics, FleetScheduler, FleetSettings
from berth.fleet.scheduler.fleet_cache import VIEWS, referred_kind, unlisted_kind
from berth.kube.api_resources import CLUSTERS, POLICIES, RESOURCE_BINDINGS
from berth.kube.scheduler_configuration.model import LeaderElection
from berth.live import logs
from berth.live.client import Client
from berth.live.component.lifecycle import StartError, Work, run_component
from berth.live.errors import ApiError, NotFound
from berth.live.referred_kinds import ReferredKinds
from berth.live.runner import Runner

LEASE, PORT = "berth-fleet", 10261

_COMMANDS = {
    "simulate": ("berth.cli.fleet.simulate", "Place the workloads of manifests onto their clusters."),
    "explain": ("berth.cli.fleet.explain", "Say why a workload goes where it goes, and what would help."),
    "evaluate": ("berth.cli.fleet.evaluate", "Judge cases: JSON lines in, JSON lines out."),
}


@click.group("fleet", cls=LazyGroup, modules=_COMMANDS, invoke_without_command=True)
@connection_options
@option(
    "--scheduler-name",
    f"Whose bindings to place, by spec.schedulerName. May be repeated.  [{SCHEDULER_NAME}]",
    "scheduler_names",
    multiple=True,
    metavar="NAME",
)
@placing_options()
@in_this_order(*(switch(name, words) for name, words in LIVE_IMPROVEMENTS.items()))
@bool_option(
    "--watch-workloads",
    default=True,
    help="Watch the workloads of bindings for their labels, which Karmada's bindings do not carry.",
)
@operating_options(LEASE, PORT)
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:  # noqa: ANN401 - read where they are used
    """Place workloads over many clusters, by affinity: a scheduler for Karmada's bindings.

    Without a command it runs against Karmada's API server, or against 'berth up', and places the bindings
    whose spec.schedulerName is one of its own. With one it works on files.
    """
    if ctx.invoked_subcommand is not None:
        _refuse_stray_flags(ctx)
        return
    logs.set_up(flags["logging_format"], flags["verbosity"])
    fleet = settings_of(flags)
    with refusing(ValueError):
        settings = component_of(flags, LeaderElection(resource_name=LEASE))
    identity = settings.election.identity if settings.election is not None else socket.gethostname()

    def make(client: Client, registry: CollectorRegistry) -> Work:
        machine = FleetScheduler(fleet, identity=identity, metrics=FleetMetrics(registry), tell=PlacingLog())
        return _work(client, machine, watch_workloads=flags["watch_workloads"])

    names = ",".join(sorted(fleet.scheduler_names))
    run_to_the_end(run_component(settings, make, schedulerNames=names, karmadaCompat=fleet.options.compat))


def _refuse_stray_flags(ctx: click.Context) -> None:
    """Refuse flags before a subcommand: they are for running the scheduler, and would have no effect."""
    for parameter in ctx.command.params:
        if ctx.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE:
            flag, name = parameter.opts[-1], ctx.invoked_subcommand
            raise click.UsageError(f"{flag} goes after the command: berth fleet {name} {flag} …", ctx)


def settings_of(flags: Mapping[str, Any]) -> FleetSettings:
    names = frozenset(flags["scheduler_names"] or (SCHEDULER_NAME,))
    compat = flags["karmada_compat"]
    base = FleetSettings.compatible(names) if compat else FleetSettings(scheduler_names=names)
    return replace(
        base,
        options=options_of(flags),
        **{name: given(flags[name], getattr(base, name)) for name in LIVE_IMPROVEMENTS},
    )


def _work(client: Client, machine: FleetScheduler, *, watch_workloads: bool) -> Work:
    workloads = ReferredKinds(client, machine, referred_kind, machine.cache.watched, unlisted_kind)
    runner = Runner(client, [machine], VIEWS, first=(workloads,) if watch_workloads else ())

    async def follow() -> None:
        await _check_served(client)
        async with asyncio.TaskGroup() as group:
            group.create_task(runner.follow())
            if watch_workloads:
                group.create_task(workloads.follow(runner))

    async def act() -> None:
        if watch_workloads:
            await workloads.settled(runner)
        await runner.act()

    return Work(follow=follow, act=act, unsynced=runner.unsynced, abandon=runner.abandon)


async def _check_served(client: Client) -> None:
    """Raise a StartError if the server has not Karmada's kinds."""
    for resource in (CLUSTERS, RESOURCE_BINDINGS, POLICIES):
        try:
            await client.request("GET", f"/apis/{resource.api_version}")
        except NotFound:
            message = (
                f"{client.url} does not serve {resource.api_version}, so that there is nothing to place; "
                "give the --kubeconfig of Karmada's own API server (karmada-apiserver), or that of "
                "'berth up', which serves its kinds, too"
            )
            raise StartError(message) from None
        except ApiError:
            continue  # the informers report the error and try again
