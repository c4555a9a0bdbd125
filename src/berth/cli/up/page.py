"""The page's process: started by `berth up`, with settings as one line of JSON on standard input.

It is a process of its own, so that the page does not slow the scheduler down, and it reads the cluster only
once a page is open.  Each link that opens the page is a line on standard output.  When standard input ends,
whoever started this process is gone, and it stops, too.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import ssl
import sys
from functools import partial

import msgspec

from berth.cli.input.manifests import assume_daemon_namespaces
from berth.cli.page_documents import PAGE_DOCUMENTS, same_flags
from berth.cli.up.parent import when_parent_is_gone
from berth.engine.state.options import Options
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.versions import VERSIONS
from berth.live.client import Client
from berth.live.component.endpoint import ServingError
from berth.web.app import PageSettings, serving
from berth.web.sources import LiveSource

REFUSED = 2


class PageProcessSettings(msgspec.Struct, rename="camel", kw_only=True):
    """Which cluster the page is about, and where it is served; `token` is the API's."""

    url: str
    ca_file: str
    token: str
    host: str
    port: int
    kubeconfig: str
    kubernetes_version: str
    daemon_namespaces: frozenset[str] = frozenset()
    gates: FeatureGates = DEFAULT_GATES


def main() -> int:
    asked = msgspec.json.decode(sys.stdin.buffer.readline(), type=PageProcessSettings)
    when_parent_is_gone(partial(os._exit, 0))
    try:
        asyncio.run(_serve(asked))
    except ServingError as error:
        print(error, file=sys.stderr)  # noqa: T201 - the starter reads it
        return REFUSED
    return 0


async def _serve(asked: PageProcessSettings) -> None:
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    options = Options(
        version=VERSIONS[asked.kubernetes_version],
        daemon_namespaces=asked.daemon_namespaces,
        gates=asked.gates,
    )
    page = PageSettings(
        host=asked.host,
        port=asked.port,
        token=asked.token,
        command=shlex.join(("--kubeconfig", asked.kubeconfig)),
        flags=same_flags(options),
    )
    context = ssl.create_default_context(cafile=asked.ca_file)
    async with Client.with_token(asked.url, asked.token, context) as client:
        source = LiveSource(client, options, noting=assume_daemon_namespaces)
        following = asyncio.create_task(source.run())
        async with serving(page, source, PAGE_DOCUMENTS, partial(print, flush=True)):  # for `berth up`
            await asyncio.wait(
                (asyncio.create_task(stop.wait()), following), return_when=asyncio.FIRST_COMPLETED
            )
        following.cancel()


if __name__ == "__main__":
    sys.exit(main())
