"""Options that all components share that run against a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import math
import signal
from collections.abc import Coroutine, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
import uvloop

from berth.cli.input.options import (
    Decorator,
    ParsedParam,
    bool_option,
    context_option,
    in_this_order,
    option,
    refusing,
)
from berth.kube.scheduler_configuration.model import ClientConnection, LeaderElection
from berth.kube.times import DurationError, parse_duration
from berth.live.component.election import ElectionSettings, LeadershipLost
from berth.live.component.endpoint import ServingSettings
from berth.live.component.lifecycle import ComponentSettings, StartError
from berth.live.connection import ConnectionSettingsError
from berth.sockets import ServingError

_T = TypeVar("_T")


def _duration(text: str) -> float:
    try:
        found = parse_duration(text)
    except DurationError as error:
        raise ValueError(f"{error}; write it like 30s or 1m30s") from None
    if found < 0:
        raise ValueError(f"{text} is negative")
    return found


def _rate(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not 0 < found < math.inf:
        raise ValueError(f"{text} is not greater than zero and finite")
    return found


DURATION, RATE = ParsedParam("duration", _duration), ParsedParam("number", _rate)


# Options that say where the cluster is.
connection_options = in_this_order(
    option("--kubeconfig", "Credentials (by default the user's, or the pod's own).", metavar="FILE"),
    context_option,
)
log_options = in_this_order(
    click.option("--logging-format", type=click.Choice(("text", "json")), default="text", show_default=True),
    option("-v", "How much to log.", "--v", "verbosity", type=click.IntRange(0, 10), default=2),
)


def operating_options(lease: str, port: int) -> Decorator:
    """Election, request limits, endpoints and logs; `lease` and `port` are the defaults."""
    return in_this_order(
        log_options,
        bool_option("--leader-elect", help="Elect a leader first (by default true)."),
        option("--leader-elect-lease-duration", "How long a leader is trusted.  [15s]", type=DURATION),
        option("--leader-elect-renew-deadline", "How long it tries to renew.  [10s]", type=DURATION),
        option("--leader-elect-retry-period", "Between two tries.  [2s]", type=DURATION),
        option("--leader-elect-resource-name", f"The Lease.  [{lease}]", metavar="NAME"),
        option("--leader-elect-resource-namespace", "Its namespace.  [kube-system]", metavar="NS"),
        option("--kube-api-qps", "Requests a second (by default unlimited).", type=float, metavar="N"),
        option("--kube-api-burst", "Requests at once within that rate.  [100]", type=int, metavar="N"),
        option("--bind-address", "Where to serve health and metrics.", default="127.0.0.1"),
        option("--secure-port", "0: serve nothing.", type=click.IntRange(0, 65535), default=port),
        option("--tls-cert-file", "Certificate to serve with (by default self-signed).", metavar="FILE"),
        option("--tls-private-key-file", "Its key.", metavar="FILE"),
    )


# --- reading them ---------------------------------------------------------------------------------

# The settings of an election, under the names of the flags.
_ELECTION = {
    "namespace": "resource_namespace",
    "name": "resource_name",
    "lease": "lease_duration",
    "renew_deadline": "renew_deadline",
    "retry": "retry_period",
}


def given(flag: _T | None, otherwise: _T) -> _T:
    return otherwise if flag is None else flag


def component_of(
    flags: Mapping[str, Any],
    election: LeaderElection,
    connection: ClientConnection | None = None,
    *,
    writes: bool = True,
) -> ComponentSettings:
    """The settings of a component: flags win over the arguments; one that writes nothing elects no leader."""
    connection = connection or ClientConnection()
    elects = writes and given(flags["leader_elect"], election.leader_elect)
    return ComponentSettings(
        kubeconfig=flags["kubeconfig"] or connection.kubeconfig or None,
        context=flags["context"],
        qps=given(flags["kube_api_qps"], connection.qps),
        burst=given(flags["kube_api_burst"], connection.burst),
        election=_election_of(flags, election) if elects else None,
        serving=serving_of(flags) if flags["secure_port"] else None,
    )


def _election_of(flags: Mapping[str, Any], stated: LeaderElection) -> ElectionSettings:
    return ElectionSettings(
        **{
            name: given(flags[f"leader_elect_{field}"], getattr(stated, field))
            for name, field in _ELECTION.items()
        }
    )


def serving_of(flags: Mapping[str, Any], **more: Any) -> ServingSettings:  # noqa: ANN401 - further settings
    certificate, key = flags["tls_cert_file"], flags["tls_private_key_file"]
    if bool(certificate) != bool(key):
        raise ValueError("--tls-cert-file and --tls-private-key-file go together; give both or neither")
    return ServingSettings(
        host=flags["bind_address"],
        port=flags["secure_port"],
        cert_file=Path(certificate) if certificate else None,
        key_file=Path(key) if key else None,
        **more,
    )


# --- running --------------------------------------------------------------------------------------


def run_to_the_end(work: Coroutine[Any, Any, None]) -> None:
    """Run a component until SIGTERM or Ctrl-C, which let it finish in order; an error ends the command."""

    async def main() -> None:
        task = asyncio.ensure_future(work)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        with contextlib.suppress(asyncio.CancelledError):
            await task

    with refusing(ConnectionSettingsError, ServingError, StartError, LeadershipLost):
        uvloop.run(main())
