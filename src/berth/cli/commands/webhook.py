"""`berth webhook`: what a stock API server does not check, checked before objects are stored."""

from __future__ import annotations

import base64
import datetime as dt
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives import serialization

from berth import certificates
from berth.cli.input.admission import exclusive_charge_option, limit_options, policy_of
from berth.cli.input.components import connection_options, log_options, run_to_the_end, serving_of
from berth.cli.input.options import option
from berth.cli.output.tables import tell
from berth.files import write_private
from berth.kube import names
from berth.live import logs
from berth.live.component.endpoint import HEALTH_PATHS
from berth.live.webhook.component import ChargingSettings, WebhookSettings, run

# Metrics are open, too: they say how many and how fast, nothing about objects. So no TokenReviews are needed.
_OPEN = (*HEALTH_PATHS, "/metrics")
_CONNECTIONS = 512
_FILES = ("ca.crt", "tls.crt", "tls.key")


@click.group("webhook", invoke_without_command=True)
@option("--bind-address", "Where to listen.", default="127.0.0.1")
@click.option("--secure-port", type=click.IntRange(1, 65535), default=8443, show_default=True)
@option("--tls-cert-file", "Certificate; read again when it changes.", metavar="FILE")
@option("--tls-private-key-file", "Its key.", metavar="FILE")
@limit_options
@option(
    "--charge-exclusive",
    "Charge quotas that name berth.dev/exclusive.* for what pods keep for themselves.",
    is_flag=True,
)
@exclusive_charge_option
@connection_options
@log_options
@click.pass_context
def command(ctx: click.Context, /, **flags: Any) -> None:  # noqa: ANN401 - read where they are used
    """Answer an API server that asks whether pods may be stored.

    Refuses a berth.dev/affinity annotation that cannot be read or is not valid, and required anti-affinity
    beyond the limit, in pods and in the templates of workloads.
    """
    if ctx.invoked_subcommand is not None:
        return
    if not (flags["tls_cert_file"] and flags["tls_private_key_file"]):
        raise click.UsageError(
            "an API server talks TLS only: give --tls-cert-file and --tls-private-key-file "
            "('berth webhook certificate' makes them)",
            ctx,
        )
    logs.set_up(flags["logging_format"], flags["verbosity"])
    charging = ChargingSettings(
        kubeconfig=flags["kubeconfig"], context=flags["context"], estimate=flags["exclusive_charge"]
    )
    settings = WebhookSettings(
        serving=serving_of(flags, always_allow=_OPEN, connections=_CONNECTIONS),
        policy=policy_of(flags),
        charging=charging if flags["charge_exclusive"] else None,
    )
    run_to_the_end(run(settings))


# --- certificates ---------------------------------------------------------------------------------


@command.command("certificate")
@option("--service", "The Service.", default="berth-webhook", metavar="NAME")
@option("--namespace", "Its namespace.", default="berth-system", metavar="NS")
@option("--name", "A further name or address.", "more", multiple=True, metavar="NAME")
@option("--days", "Its life.", type=click.IntRange(1, 3650), default=365)
@click.option(
    "--out", "folder", type=click.Path(path_type=Path), default=Path(), metavar="DIR", help="Where to."
)
@option("--overwrite", "Replace the files that are there.", is_flag=True)
def certificate(
    *, service: str, namespace: str, more: tuple[str, ...], days: int, folder: Path, overwrite: bool
) -> None:
    """Make a certificate for the webhook's Service, and print the caBundle to trust it by.

    Writes ca.crt, tls.crt and tls.key.  The authority's key is not kept: a new certificate is a new
    authority, and a new caBundle.
    """
    for flag, value in (("--service", service), ("--namespace", namespace)):
        if problems := names.dns_label_errors(value):
            raise click.ClickException(f"{flag} {value}: {problems[0]}")
    there = [name for name in _FILES if (folder / name).exists()]
    if there and not overwrite:
        raise click.ClickException(f"{folder / there[0]} is there already; --overwrite replaces it")
    full = f"{service}.{namespace}.svc"
    given = (full, service, f"{service}.{namespace}", f"{full}.cluster.local", *more)
    now = dt.datetime.now(dt.UTC)
    authority = certificates.new_authority("berth-webhook-ca", now, days)
    own, key = certificates.issue(authority, service, given, now, days)
    trusted = authority[1].public_bytes(serialization.Encoding.PEM)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in zip(_FILES, (trusted, own, key), strict=True):
            write_private(folder / name, content)
    except OSError as error:
        raise click.ClickException(f"{folder}: {error.strerror or error}") from None
    click.echo(base64.b64encode(trusted).decode())
    tell("note", f"{', '.join(_FILES)} are in {folder}, for {full}; above is the caBundle")
