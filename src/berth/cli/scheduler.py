"""`berth scheduler`: the scheduler on any kube-apiserver."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import uvloop

from berth.engine.profiles import options_of
from berth.kube.durations import DurationError, parse_duration
from berth.kube.gates import FeatureGateError, FeatureGates
from berth.kube.scheduler_configuration import SchedulerConfiguration, default, load
from berth.live import logs
from berth.live.connection import ConnectionSettingsError
from berth.live.election import ElectionSettings, LeadershipLost
from berth.live.scheduler.component import ComponentSettings, StartError, run
from berth.live.scheduler.desk import SchedulerSettings
from berth.live.scheduler.waiting import Backoff
from berth.live.serving import ServingError, ServingSettings

DEFAULT_NAME = "berth"
_T = TypeVar("_T")


class _Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, int | float):
            return float(value)
        try:
            return parse_duration(str(value))
        except DurationError as error:
            self.fail(str(error), param, ctx)


DURATION = _Duration()


@click.command("scheduler")
@click.option("--kubeconfig", metavar="FILE", help="Credentials (by default the user's, or the pod's own).")
@click.option("--context", metavar="NAME", help="The kubeconfig's context to use.")
@click.option(
    "--config", metavar="FILE", help="A KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1)."
)
@click.option(
    "--scheduler-name",
    metavar="NAME",
    help=f"Place pods with this spec.schedulerName (by default {DEFAULT_NAME}, or as --config says).",
)
@click.option("--feature-gates", default="", metavar="GATE=BOOL,...", help="Switch features.")
@click.option(
    "--leader-elect",
    type=bool,
    is_flag=False,
    flag_value=True,
    metavar="BOOL",
    help="Elect a leader first (by default true).",
)
@click.option("--leader-elect-lease-duration", type=DURATION, help="How long a leader is trusted.  [15s]")
@click.option("--leader-elect-renew-deadline", type=DURATION, help="How long it tries to renew.  [10s]")
@click.option("--leader-elect-retry-period", type=DURATION, help="Between two tries.  [2s]")
@click.option("--leader-elect-resource-name", metavar="NAME", help="The Lease.  [berth-scheduler]")
@click.option("--leader-elect-resource-namespace", metavar="NS", help="Its namespace.  [kube-system]")
@click.option("--kube-api-qps", type=float, metavar="N", help="Requests a second (by default unlimited).")
@click.option("--kube-api-burst", type=int, metavar="N", help="Requests at once within that rate.  [100]")
@click.option(
    "--bind-address", default="127.0.0.1", show_default=True, help="Where to serve health and metrics."
)
@click.option(
    "--secure-port", type=click.IntRange(0, 65535), default=10259, show_default=True, help="0: serve nothing."
)
@click.option("--tls-cert-file", metavar="FILE", help="Certificate to serve with (by default self-signed).")
@click.option("--tls-private-key-file", metavar="FILE", help="Its key.")
@click.option("--logging-format", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option(
    "-v",
    "--v",
    "verbosity",
    type=click.IntRange(0, 10),
    default=2,
    show_default=True,
    help="How much to log.",
)
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
    failed: BaseException | None = None
    try:
        run_until_told(run(settings))
    except* (ConnectionSettingsError, ServingError, StartError, LeadershipLost) as group:
        failed = first_of(group)
    if failed is not None:
        raise click.ClickException(str(failed))


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
        qps=_given(flags["kube_api_qps"], connection.qps if config else 0.0),
        burst=_given(flags["kube_api_burst"], connection.burst),
        election=_election(configuration, flags),
        serving=_serving(flags),
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


def _election(configuration: SchedulerConfiguration, flags: Mapping[str, Any]) -> ElectionSettings | None:
    stated = configuration.leader_election
    if not _given(flags["leader_elect"], stated.leader_elect):
        return None
    return ElectionSettings(
        namespace=_given(flags["leader_elect_resource_namespace"], stated.resource_namespace),
        name=_given(flags["leader_elect_resource_name"], stated.resource_name),
        lease=_given(flags["leader_elect_lease_duration"], stated.lease_duration),
        renew_deadline=_given(flags["leader_elect_renew_deadline"], stated.renew_deadline),
        retry=_given(flags["leader_elect_retry_period"], stated.retry_period),
    )


def _serving(flags: Mapping[str, Any]) -> ServingSettings | None:
    if not flags["secure_port"]:
        return None
    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if bool(certificate) != bool(key):
        raise ValueError("--tls-cert-file and --tls-private-key-file go together; give both or neither")
    return ServingSettings(
        host=flags["bind_address"],
        port=flags["secure_port"],
        cert_file=Path(certificate) if certificate else None,
        key_file=Path(key) if key else None,
    )


def _given(flag: _T | None, otherwise: _T) -> _T:
    return otherwise if flag is None else flag


def first_of(group: BaseExceptionGroup[Exception]) -> BaseException:
    """The first error in a group, however deep."""
    found = group.exceptions[0]
    return first_of(found) if isinstance(found, BaseExceptionGroup) else found


def run_until_told(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until SIGTERM or Ctrl-C; then let it finish in order."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    uvloop.run(main())
