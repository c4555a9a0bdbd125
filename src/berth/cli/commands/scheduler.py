"""`berth scheduler`: the scheduler on any kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from berth.cli.commands.scheduler_component import ComponentSettings, run
from berth.cli.input.components import (
    connection_options,
    election_of,
    given,
    operating_options,
    run_to_the_end,
    serving_of,
)
from berth.engine.state.profiles import options_of
from berth.kube.gates import FeatureGateError, FeatureGates
from berth.kube.scheduler_configuration import SchedulerConfiguration, default, load
from berth.live import logs
from berth.live.election import ElectionSettings
from berth.scheduler.desk import SchedulerSettings
from berth.scheduler.waiting import Backoff

DEFAULT_NAME = "berth"


@click.command("scheduler")
@connection_options
@click.option(
    "--config", metavar="FILE", help="A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)."
)
@click.option(
    "--scheduler-name",
    metavar="NAME",
    help=f"Place pods with this spec.schedulerName (by default {DEFAULT_NAME}, or as --config says).",
)
@click.option("--feature-gates", default="", metavar="GATE=BOOL,...", help="Switch features.")
@operating_options("berth-scheduler", 10259)
def command(
    *,
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    scheduler_name: str | None,
    feature_gates: str,
    verbosity: int,
    logging_format: logs.Form,
    **flags: Any,  # noqa: ANN401 - read where they are used
) -> None:
    """Place the pods of a cluster: kube-scheduler's rules, and Berth's.

    Runs beside kube-scheduler for pods that name it in spec.schedulerName, or instead of it.
    """
    logs.set_up(logging_format, verbosity)
    try:
        settings, notes = _settings(kubeconfig, context, config, scheduler_name, feature_gates, flags)
    except FeatureGateError as error:
        raise click.ClickException(f"--feature-gates: {error}") from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None
    for note in notes:
        click.echo(f"note: {note}", err=True)
    run_to_the_end(run(settings))


def _settings(
    kubeconfig: str | None,
    context: str | None,
    config: str | None,
    scheduler_name: str | None,
    feature_gates: str,
    flags: Mapping[str, Any],
) -> tuple[ComponentSettings, tuple[str, ...]]:
    """What flags and file say together; a flag wins over the file."""
    gates = FeatureGates.parse(feature_gates)
    name = scheduler_name or DEFAULT_NAME
    configuration = load(config, default_scheduler_name=name) if config else default(name)
    connection = configuration.client_connection
    settings = ComponentSettings(
        scheduler=_scheduler(configuration, scheduler_name, gates),
        kubeconfig=kubeconfig or connection.kubeconfig or None,
        context=context,
        qps=given(flags["kube_api_qps"], connection.qps if config else 0.0),
        burst=given(flags["kube_api_burst"], connection.burst),
        election=_election(configuration, scheduler_name, flags),
        serving=serving_of(flags),
    )
    return settings, configuration.notes


def _scheduler(
    configuration: SchedulerConfiguration, name: str | None, gates: FeatureGates
) -> SchedulerSettings:
    profiles = configuration.by_scheduler_name
    if name and name not in profiles:
        if len(profiles) > 1:
            raise ValueError(
                f"--scheduler-name {name}: the configuration has several profiles and none of this name; "
                "set schedulerName there instead"
            )
        profiles = {name: configuration.profiles[0]}
    return SchedulerSettings(
        profiles={name: options_of(profile, gates) for name, profile in profiles.items()},
        component=next(iter(profiles)),
        backoff=Backoff(
            float(configuration.pod_initial_backoff_seconds), float(configuration.pod_max_backoff_seconds)
        ),
        preemption=frozenset(n for n, p in profiles.items() if p.enables("postFilter", "DefaultPreemption")),
        volume_timeout=float(max(p.args.bind_timeout_seconds for p in profiles.values())),
    )


def _election(
    configuration: SchedulerConfiguration, scheduler_name: str | None, flags: Mapping[str, Any]
) -> ElectionSettings | None:
    stated = configuration.leader_election
    if not given(flags["leader_elect"], stated.leader_elect):
        return None
    name = stated.resource_name
    if scheduler_name == "default-scheduler" and name == "berth-scheduler":
        name = "kube-scheduler"  # only one of the two may place these pods
    return election_of(
        flags,
        name=name,
        namespace=stated.resource_namespace,
        lease=stated.lease_duration,
        renew_deadline=stated.renew_deadline,
        retry=stated.retry_period,
    )
