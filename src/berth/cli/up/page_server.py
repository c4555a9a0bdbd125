"""What answers for the page of `berth up`, in the page's process."""

from __future__ import annotations

import asyncio
import shlex
import signal
import socket
import ssl
from functools import partial

from berth.cli.input.manifests import assume_daemon_namespaces
from berth.cli.page_documents import PAGE_DOCUMENTS, same_flags
from berth.cli.up.children import PageProcessSettings, read
from berth.engine.state.options import Options
from berth.live.client import Client
from berth.web.app import Door, PageSettings, serving
from berth.web.sources import LiveSource


def serve(line: bytes, listener: socket.socket, secret: str) -> None:
    """Answer where a connection waits already, until told to stop; the first link has this secret."""
    asyncio.run(_serve(read(line, PageProcessSettings), Door(listener, secret)))


async def _serve(asked: PageProcessSettings, door: Door) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    server, prepared = asked.server, asked.prepared
    options = Options(version=server.version, daemon_namespaces=server.daemon_namespaces, gates=asked.gates)
    page = PageSettings(
        host=server.host,
        port=asked.port,
        token=prepared.token,
        command=shlex.join(("--kubeconfig", str(prepared.kubeconfig))),
        flags=same_flags(options),
    )
    context = ssl.create_default_context(cafile=str(prepared.ca_file))
    async with Client.with_token(prepared.url, prepared.token, context) as client:
        source = LiveSource(client, options, noting=assume_daemon_namespaces)
        following = asyncio.create_task(source.run())
        # Each further link goes to `berth up`.
        async with serving(page, source, PAGE_DOCUMENTS, partial(print, flush=True), door):
            await asyncio.wait(
                (asyncio.create_task(stop.wait()), following), return_when=asyncio.FIRST_COMPLETED
            )
        following.cancel()
