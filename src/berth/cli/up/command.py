"""`berth up`: an API server, controllers, hollow nodes and a scheduler, started by one command."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import ssl
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import uvloop

from berth.cli.input.admission import exclusive_charge_option, limit_options, policy_of
from berth.cli.input.components import log_options
from berth.cli.input.eviction import eviction_of, eviction_options, spreading_of, spreading_options
from berth.cli.input.options import daemon_namespaces_option, option, refusing, version_option
from berth.cli.output.tables import tell
from berth.cli.up.children import PageProcessSettings, ServerProcessSettings
from berth.cli.up.control_plane import Plane, UpSettings, gate_options, read_gates
from berth.cli.up.demo import apply_demo, demo_nodes
from berth.cli.up.processes import PageProcess, ServerProcess, check_port
from berth.controllers.hollow.registration import Shape, make_nodes
from berth.engine.state.options import Options
from berth.kube.api_resources import NODES
from berth.kube.gates import FeatureGates
from berth.kube.manifests.manifest import ManifestError, load
from berth.kube.objects import Node, RawObject
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.live import logs
from berth.live.client import Client
from berth.live.component.lifecycle import StartError
from berth.live.discovery import discover
from berth.live.errors import ApiError
from berth.server.settings import PreparedServer, ServerSettings
from berth.sockets import ServingError, url_host

DEFAULT_NODES = 6
_PORT = click.IntRange(0, 65535)
# Settings that are taken from the flags as they are.
_AS_GIVEN = ("zones", "racks", "demo", "scheduler", "fleet", "logging_format", "verbosity")


@click.command("up")
@option(
    "--data-dir",
    "Where the state is kept; started again with the same one, it continues.",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".berth"),
)
@option("--port", "0 takes a free one.", type=_PORT, default=6443)
@option("--host", "The address to listen on.", default="127.0.0.1")
@option(
    "--nodes",
    f"Hollow nodes to have (by default those that are there, or {DEFAULT_NODES}).",
    type=click.IntRange(0, 65536),
    metavar="N",
)
@option("--zones", "Zones to put them in.", type=click.IntRange(1), default=3)
@option("--racks", "Racks in every zone.", type=click.IntRange(1), default=2)
@option("--node-file", "Node manifests to run hollow nodes for.", type=click.Path(), metavar="FILE")
@option(
    "--kubeconfig-out",
    "Where to write the kubeconfig (by default in the data directory).",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
)
@gate_options
@daemon_namespaces_option
@version_option
@option(
    "--scheduler/--no-scheduler", "Whether to schedule, or leave pods to a scheduler beside it.", default=True
)
@option(
    "--fleet/--no-fleet",
    "Whether to place Karmada's bindings that name no scheduler, or leave them to one beside it.",
    default=True,
)
@option("--web/--no-web", "Whether to serve the page that shows the cluster.", default=True)
@click.option(
    "--web-port", type=_PORT, default=0, metavar="PORT", help="The page's port (by default a free one)."
)
@option("--demo", "Fill in a small, telling scenario.", is_flag=True)
@option(
    "--metrics-port",
    "Serve the scheduler's and the controllers' metrics here; 0 takes a free one (by default nowhere).",
    type=_PORT,
    metavar="PORT",
)
@option("--eviction-dry-run", "Only tell which pods would be evicted for their affinity.", is_flag=True)
@eviction_options
@spreading_options
@limit_options
@exclusive_charge_option
@log_options
def command(**flags: Any) -> None:  # noqa: ANN401 - one an option
    """Run a Kubernetes control plane with hollow nodes, for kubectl to talk to.

    Everything is on this machine: an API server with its state in SQLite, the workload controllers, a
    scheduler, and nodes that run no containers but say they do. Ctrl-C stops it.
    """
    logs.set_up(flags["logging_format"], flags["verbosity"])
    gates, version = read_gates(flags), VERSIONS[flags["kubernetes_version"]]
    options = Options(gates=gates.controllers, daemon_namespaces=flags["daemon_namespaces"], version=version)
    with refusing(ManifestError, ValueError):
        eviction = eviction_of(flags, options, dry_run=flags["eviction_dry_run"])
        spreading = spreading_of(flags, gates.controllers)
        manifests = _read_nodes(flags["node_file"]) if flags["node_file"] else []
    zones, racks, metrics = flags["zones"], flags["racks"], flags["metrics_port"]
    shape = None if flags["nodes"] is None else Shape(nodes=flags["nodes"], zones=zones, racks=racks)
    with _locked(flags["data_dir"]), refusing(StartError, ServingError):
        asked = UpSettings(
            settings=_server(flags, gates.server, version),
            gates=gates,
            shape=shape,
            manifests=manifests,
            metrics_port=None if metrics is None else check_port(flags["host"], metrics),
            eviction=eviction,
            spreading=spreading,
            web_port=check_port(flags["host"], flags["web_port"]) if flags["web"] else None,
            **{name: flags[name] for name in _AS_GIVEN},
        )
        uvloop.run(_up(asked))


def _server(flags: Mapping[str, Any], gates: FeatureGates, version: KubernetesVersion) -> ServerSettings:
    written = flags["kubeconfig_out"]
    return ServerSettings(
        data_dir=flags["data_dir"].absolute(),
        host=flags["host"],
        port=check_port(flags["host"], flags["port"]),
        kubeconfig_out=written.absolute() if written else None,
        gates=gates,
        version=version,
        policy=policy_of(flags),
        exclusive_charge=flags["exclusive_charge"],
        daemon_namespaces=flags["daemon_namespaces"],
    )


def _read_nodes(file: str) -> list[RawObject]:
    found = [manifest for manifest in load((file,)) if manifest.kind == "Node"]
    if not found:
        raise ManifestError(f"{file}: there is no Node in it")
    return [manifest.to_dict() for manifest in found]


@contextlib.contextmanager
def _locked(data_dir: Path) -> Iterator[None]:
    """Lock the data directory before anything in it is touched."""
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(data_dir / "up.lock", os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise click.ClickException(f"{data_dir}: {error.strerror}") from None
    with os.fdopen(handle, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise click.ClickException(f"{data_dir}: another berth up is using this data directory") from None
        yield


# --- running ------------------------------------------------------------------------------------


async def _up(asked: UpSettings) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = await ServerProcess.start(
        ServerProcessSettings(asked.settings, asked.logging_format, asked.verbosity)
    )
    running, stopping = asyncio.create_task(_run(asked, server)), asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
        if stopping.done():
            click.echo("stopping")
        else:
            await running
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop()


async def _run(asked: UpSettings, server: ServerProcess) -> None:
    """Run everything beside the server, until something in it or the server itself fails."""
    prepared = await server.prepared()
    context = ssl.create_default_context(cafile=str(prepared.ca_file))
    async with (
        Client.with_token(prepared.url, prepared.token, context) as client,
        asyncio.TaskGroup() as group,
    ):
        group.create_task(server.watch())
        await server.ready(client)
        nodes = [*asked.manifests, *await _wanted_nodes(asked, client)]
        plane = Plane(client, await discover(client), nodes, asked, prepared.ca_file.read_text())
        group.create_task(plane.run())
        await plane.ready(_show_progress)
        if asked.demo:
            await apply_demo(client)
        link: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        if asked.web_port is None:
            link.set_result("")
        else:
            settings = PageProcessSettings(asked.settings, prepared, asked.web_port, asked.gates.scheduler)
            group.create_task(_serve_page(settings, link))
        _say(prepared, len(plane.plane.cache.all(NODES, Node)), asked, await link)


async def _serve_page(settings: PageProcessSettings, link: asyncio.Future[str]) -> None:
    """Serve the page, and tell of its links, the first by a future; without a page all else goes on."""
    page = await PageProcess.start(settings)
    try:
        link.set_result(await page.link())
        while True:
            click.echo(_line("page", await page.says()))
    except StartError as error:
        tell("warning", f"the page is not served: {error}")
        if not link.done():
            link.set_result("")
    finally:
        await page.stop()


async def _wanted_nodes(asked: UpSettings, client: Client) -> list[RawObject]:
    if asked.shape is not None:
        return make_nodes(asked.shape)
    try:
        page = await client.page(NODES, Node, limit=1)
    except ApiError as error:
        raise StartError(f"cannot list nodes: {error}") from None
    if page.items or asked.manifests:
        return []
    if asked.demo:
        return demo_nodes()
    return make_nodes(Shape(nodes=DEFAULT_NODES, zones=asked.zones, racks=asked.racks))


def _show_progress(done: int, total: int) -> None:
    """Show how many nodes are registered, on a terminal, if it takes more than a moment."""
    if total > 500 and sys.stderr.isatty():
        click.echo(f"\rregistering nodes: {done}/{total}", nl=done == total, err=True)


def _say(prepared: PreparedServer, nodes: int, asked: UpSettings, link: str) -> None:
    kubeconfig, here = prepared.kubeconfig, Path.cwd()
    shown = kubeconfig.relative_to(here) if kubeconfig.is_relative_to(here) else kubeconfig
    metrics = f"https://{url_host(asked.settings.host)}:{asked.metrics_port}/metrics"
    told = {
        "Kubernetes API": prepared.url,
        "kubeconfig": str(kubeconfig),
        "page": link,
        "nodes": str(nodes),
        "metrics": metrics if asked.metrics_port is not None else "",
        "try": f"kubectl --kubeconfig {shown} get {'pods -o wide' if asked.demo else 'nodes'}",
    }
    for what, value in told.items():
        if value:
            click.echo(_line(what, value))
    click.echo("Ctrl-C stops it; the same --data-dir continues where it was.")


def _line(what: str, value: str) -> str:
    return f"{what:<17}{value}"
