"""`berth web`: the page over a live cluster or a dump."""

from __future__ import annotations

import asyncio
import shlex
import signal
import webbrowser
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import click

from berth.cli.input.cluster import client_of
from berth.cli.input.manifests import (
    Flags,
    assume_daemon_namespaces,
    options_of,
    progress_bar,
    showing_options,
)
from berth.cli.input.options import option, refusing
from berth.cli.input.validating import WARN, check_fields
from berth.cli.output.tables import tell
from berth.cli.page_documents import page_documents, same_flags
from berth.engine.offline.snapshot import SnapshotError
from berth.engine.state.options import Options
from berth.kube.manifests.manifest import Manifest, ManifestError, load
from berth.live.connection import ConnectionSettingsError
from berth.live.discovery import ask_version
from berth.live.errors import ApiError
from berth.sockets import ServingError
from berth.web.app import PageSettings, serving
from berth.web.questions import CommandDocuments
from berth.web.sources import ClusterSource, DumpSource, LiveSource

_KUBECONFIG = "Config"
_NAMED = 5  # kinds without anything to show that are named in the message


@click.command("web")
@showing_options
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on; by default a free one."
)
@option("--host", "The address to listen on.", default="127.0.0.1")
@option("--open", "Open the page in a browser.", "opens", is_flag=True)
def command(**flags: Any) -> None:  # noqa: ANN401 - one an option
    """Show where pods are, how even they are spread, and why a pod waits, on a page.

    The page reads a live cluster with your kubeconfig, and changes nothing there, or the manifests of -f,
    such as a dump that somebody has mailed. The address that is printed opens it once; a browser that has
    opened it stays in. Ctrl-C ends it.
    """
    options = options_of(flags)
    if flags["files"] and (flags["kubeconfig"] or flags["context"]):
        raise click.UsageError("-f shows files and --kubeconfig a cluster; give one of them")
    asked = PageSettings(
        host=flags["host"],
        port=flags["port"],
        command=_same_input(flags),
        flags=same_flags(options, flags["kubernetes_version"]),
    )
    serve = partial(_serve, asked, page_documents(flags["validate"]), opens=flags["opens"])
    with refusing(ServingError, ConnectionSettingsError, ApiError):
        if flags["files"]:
            asyncio.run(serve(_dump(flags, options)))
        else:
            asyncio.run(_serve_cluster(serve, flags, options))


def _same_input(flags: Flags) -> str:
    """The options with which another command reads the same cluster."""
    found = [part for file in flags["files"] for part in ("-f", file)]
    if flags["files"] and flags["validate"] != WARN:
        found += ["--validate", flags["validate"]]
    for name in ("kubeconfig", "context"):
        found += [f"--{name}", flags[name]] if flags[name] else []
    return shlex.join(found)


def _dump(flags: Flags, options: Options) -> DumpSource:
    with refusing(ManifestError, SnapshotError):
        with progress_bar("reading") as progress:
            manifests = load(flags["files"], progress=progress)
        if not manifests:
            raise click.ClickException(f"{', '.join(flags['files'])}: there is no object in it")
        warnings = check_fields(manifests, flags["validate"])
        source = DumpSource(manifests, options, "among the files", warnings)
    if not source.shows_anything:
        raise click.ClickException(_nothing_shown(flags["files"], manifests))
    return source


def _nothing_shown(files: Sequence[str], manifests: Sequence[Manifest]) -> str:
    kinds = sorted({manifest.kind for manifest in manifests})
    if kinds == [_KUBECONFIG]:
        return f"{files[0]} is a kubeconfig: give it as --kubeconfig"
    found = f"{', '.join(kinds[:_NAMED])}{' …' if len(kinds) > _NAMED else ''}"
    return f"{', '.join(files)}: no node, pod, workload, event or cluster is in it, only {found}"


async def _serve_cluster(
    serve: Callable[[ClusterSource], Awaitable[None]], flags: Flags, options: Options
) -> None:
    async with await client_of(flags) as client:
        server = await ask_version(client)  # fails early if the cluster cannot be reached
        notes: tuple[str, ...] = ()
        if flags["kubernetes_version"] is None:
            options = replace(options, version=server.followed)
            notes = (server.note,) if server.note else ()
        tell("note", *notes)
        source = LiveSource(client, options, notes=notes, noting=assume_daemon_namespaces)
        source.want()
        async with asyncio.TaskGroup() as group:
            following = group.create_task(source.run())
            await serve(source)
            following.cancel()


async def _serve(
    asked: PageSettings, documents: CommandDocuments, source: ClusterSource, *, opens: bool
) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    links: list[str] = []

    def told(link: str) -> None:
        click.echo(f"{'for another browser' if links else 'page'}   {link}")
        links.append(link)

    async with serving(asked, source, documents, told):
        if opens:
            await asyncio.to_thread(webbrowser.open, links[0])
        await stop.wait()
