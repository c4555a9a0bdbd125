"""`berth controllers`: the execution-time controllers on any kube-apiserver."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click
from prometheus_client import CollectorRegistry

from berth.charging import ExclusiveCharges
from berth.cli.input.admission import exclusive_charge_option
from berth.cli.input.components import (
    DURATION,
    component_of,
    connection_options,
    operating_options,
    run_to_the_end,
)
from berth.cli.input.eviction import eviction_of, eviction_options, spreading_of, spreading_options
from berth.cli.input.options import daemon_namespaces_option, gates_of, gates_option, option, refusing
from berth.cli.output.decision_log import log_decision, log_move
from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionMetrics, EvictionSettings, TellEviction
from berth.kube.api_resources import EVICTION_REQUESTS, VIEWS
from berth.kube.scheduler_configuration.model import LeaderElection
from berth.live import logs
from berth.live.client import Client
from berth.live.component.lifecycle import FollowedVersion, StartError, Work, run_component
from berth.live.discovery import find
from berth.live.runner import Runner
from berth.machines.cache import Cache
from berth.machines.contract import Machine
from berth.machines.recorder import silent
from berth.spreading import SpreadController, SpreadingSettings
from berth.spreading.machine import SpreadingMetrics, TellPlan

LEASE, PORT = "berth-controllers", 10260


@click.command("controllers")
@connection_options
@option("--dry-run", "Only tell what would be evicted; write nothing at all.", is_flag=True)
@daemon_namespaces_option
@gates_option("Switch features.")
@eviction_options
@spreading_options
@option(
    "--exclusive-quota",
    "Keep what quotas that name berth.dev/exclusive.* say of what pods keep for themselves.",
    is_flag=True,
)
@exclusive_charge_option
@option(
    "--use-eviction-requests",
    "Ask for evictions by EvictionRequests (lifecycle.k8s.io/v1alpha1) instead of the Eviction API.",
    is_flag=True,
)
@option(
    "--eviction-request-timeout",
    "Withdraw an EvictionRequest after so long without an eviction, and try again later.",
    type=DURATION,
    default="30m",
)
@operating_options(LEASE, PORT)
def command(**flags: Any) -> None:  # noqa: ANN401 - read where they are used
    """Evict running pods whose required rules stop holding.

    Pods with requiredDuringSchedulingRequiredDuringExecution rules, in spec.affinity or in the annotation
    berth.dev/affinity, go through the Eviction API when their node or their peers no longer match.
    """
    logs.set_up(flags["logging_format"], flags["verbosity"])
    with refusing(ValueError):
        gates = gates_of(flags["feature_gates"])
        options = Options(gates=gates, daemon_namespaces=flags["daemon_namespaces"])
        eviction = replace(
            eviction_of(flags, options, dry_run=flags["dry_run"]),
            uses_requests=flags["use_eviction_requests"],
            request_timeout=flags["eviction_request_timeout"],
        )
        spreading = spreading_of(flags, gates, dry_run=flags["dry_run"])
        settings = component_of(flags, LeaderElection(resource_name=LEASE), writes=not eviction.dry_run)

    server = FollowedVersion()

    def make(client: Client, registry: CollectorRegistry) -> Work:
        cache = Cache()
        current = replace(eviction, options=replace(options, version=server.version))
        machines: list[Machine] = [*rule_keepers(cache, current, spreading, registry, log_decision, log_move)]
        if flags["exclusive_quota"] and not current.dry_run:
            daemons = flags["daemon_namespaces"]
            machines.append(ExclusiveCharges(cache, flags["exclusive_charge"], daemons))
        runner = Runner(client, machines, VIEWS, first=(cache,))
        return Work(follow=runner.follow, act=runner.act, unsynced=runner.unsynced, abandon=runner.abandon)

    check = _find_requests if eviction.uses_requests else None
    starting = {"gates": str(gates), "dryRun": eviction.dry_run}
    run_to_the_end(run_component(settings, make, version=server, check=check, **starting))


def rule_keepers(
    cache: Cache,
    eviction: EvictionSettings,
    spreading: SpreadingSettings,
    registry: CollectorRegistry | None,
    tell: TellEviction,
    tell_plan: TellPlan = silent,
) -> tuple[AffinityEviction, SpreadController]:
    """Eviction, and spreading, which looks at eviction's mirror and has it evict those who should move."""
    evicting = AffinityEviction(cache, eviction, metrics=EvictionMetrics(registry), tell=tell)
    spreads = SpreadController(
        cache,
        evicting.state.mirror,
        replace(spreading, options=eviction.options),
        metrics=SpreadingMetrics(registry),
        wakes=(evicting,),
        tell=tell_plan,
    )
    evicting.follow(spreads.rebalancer)
    return evicting, spreads


async def _find_requests(client: Client) -> None:
    """Raise a StartError if the server has no EvictionRequests."""
    if await find(client, EVICTION_REQUESTS.api_version, EVICTION_REQUESTS.kind) is None:
        raise StartError(
            f"--use-eviction-requests: the server does not serve {EVICTION_REQUESTS.name} "
            f"({EVICTION_REQUESTS.version}); switch its feature gate EvictionRequestAPI and that API on, "
            "or leave the flag out"
        )
