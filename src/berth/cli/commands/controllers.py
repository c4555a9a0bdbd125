"""`berth controllers`: the execution-time controllers on any kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click
from prometheus_client import CollectorRegistry

from berth.cli.input.components import (
    DURATION,
    LABEL_KEY,
    RATE,
    connection_options,
    election_of,
    given,
    operating_options,
    run_to_the_end,
    serving_of,
)
from berth.cli.output.decision_log import log_decision
from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionMetrics, EvictionRate, EvictionSettings
from berth.kube.gates import FeatureGateError, FeatureGates
from berth.live import logs
from berth.live.client import Client
from berth.live.component.lifecycle import ComponentSettings, Work, run_component
from berth.live.runner import Runner
from berth.machines.cache import Cache
from berth.machines.views import VIEWS

LEASE, PORT = "berth-controllers", 10260


@click.command("controllers")
@connection_options
@click.option("--dry-run", is_flag=True, help="Only tell what would be evicted; write nothing at all.")
@click.option("--feature-gates", default="", metavar="GATE=BOOL,...", help="Switch features.")
@click.option(
    "--affinity-violation-grace",
    type=DURATION,
    default="30s",
    show_default=True,
    help="How long pod affinity may be broken before a pod goes for it.",
)
@click.option("--eviction-qps", type=RATE, default=1.0, show_default=True, help="Evictions a second.")
@click.option(
    "--eviction-burst", type=click.IntRange(1), default=10, show_default=True, help="Evictions at once."
)
@click.option(
    "--domain-eviction-qps",
    type=RATE,
    default=0.5,
    show_default=True,
    help="Evictions a second in one topology domain.",
)
@click.option(
    "--domain-eviction-burst",
    type=click.IntRange(1),
    default=5,
    show_default=True,
    help="Evictions at once in one domain.",
)
@click.option(
    "--eviction-domain",
    type=LABEL_KEY,
    default=EvictionSettings().domain_key,
    show_default=True,
    metavar="LABEL",
    help="The node label that says which domain a node is in.",
)
@click.option(
    "--max-evicted-share",
    type=float,
    default=0.55,
    show_default=True,
    help="Evict nobody from a domain while more than this share of its pods would go.",
)
@click.option(
    "--halt-above",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    metavar="PODS",
    help="So few pods are never too many, whatever their share.",
)
@click.option(
    "--pace-by-owner",
    type=bool,
    is_flag=False,
    flag_value=True,
    default=True,
    show_default=True,
    metavar="BOOL",
    help="Wait until a replacement is Ready before the next pod of its owner goes.",
)
@click.option(
    "--pace-timeout",
    type=DURATION,
    default="10m",
    show_default=True,
    help="How long to wait for one that gets no node; 0 for ever.",
)
@operating_options(LEASE, PORT)
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    verbosity: int,
    logging_format: logs.Form,
    **flags: Any,  # noqa: ANN401 - read where they are used
) -> None:
    """Evict running pods whose required rules stop holding.

    Pods with requiredDuringSchedulingRequiredDuringExecution rules, in spec.affinity or in the annotation
    berth.dev/affinity, go through the Eviction API when their node or their peers no longer match.
    """
    logs.set_up(logging_format, verbosity)
    try:
        eviction = _eviction(flags)
        settings = ComponentSettings(
            kubeconfig=kubeconfig,
            context=context,
            qps=given(flags["kube_api_qps"], 0.0),
            burst=given(flags["kube_api_burst"], 100),
            # A dry run writes nothing, not even a lease.
            election=election_of(flags, name=LEASE)
            if given(flags["leader_elect"], otherwise=True) and not eviction.dry_run
            else None,
            serving=serving_of(flags),
        )
    except FeatureGateError as error:
        raise click.ClickException(f"--feature-gates: {error}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None

    def make(client: Client, registry: CollectorRegistry) -> Work:
        cache = Cache()
        machine = AffinityEviction(cache, eviction, metrics=EvictionMetrics(registry), tell=log_decision)
        runner = Runner(client, [machine], VIEWS, first=(cache,))
        return Work(follow=runner.follow, act=runner.act, unsynced=runner.unsynced)

    gates = str(eviction.options.gates)
    run_to_the_end(run_component(settings, make, gates=gates, dryRun=eviction.dry_run))


def _eviction(flags: Mapping[str, Any]) -> EvictionSettings:
    return EvictionSettings(
        options=Options(gates=FeatureGates.parse(flags["feature_gates"])),
        grace=flags["affinity_violation_grace"],
        rate=EvictionRate(qps=flags["eviction_qps"], burst=flags["eviction_burst"]),
        domain_rate=EvictionRate(qps=flags["domain_eviction_qps"], burst=flags["domain_eviction_burst"]),
        domain_key=flags["eviction_domain"],
        max_share=flags["max_evicted_share"],
        halt_above=flags["halt_above"],
        pace_by_owner=flags["pace_by_owner"],
        pace_timeout=flags["pace_timeout"],
        dry_run=flags["dry_run"],
    )
