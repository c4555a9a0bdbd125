"""A flood of streams, most of which are never read: the page answers all the same."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import httpx
import pytest

from berth.cli.page_documents import PAGE_DOCUMENTS
from berth.engine.state.options import Options
from berth.live.component import serving as component_serving
from berth.web import changes
from berth.web.app import PageSettings, serving
from berth.web.sources import DumpSource
from tests.support.snapshots import manifest, zone_node

TOKEN = "of the API"  # noqa: S105
PLACES, READERS = 8, 40


@contextlib.asynccontextmanager
async def page(source: DumpSource) -> AsyncIterator[tuple[int, httpx.AsyncClient]]:
    async with serving(PageSettings(token=TOKEN), source, PAGE_DOCUMENTS, lambda _: None) as port:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        base = f"http://127.0.0.1:{port}"
        # A connection that is kept may be ended as idle at the very moment it is used again.
        once = httpx.Limits(max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=base, headers=headers, timeout=60, limits=once) as client:
            yield port, client


async def deaf(port: int) -> socket.socket:
    """A connection that asks for the stream, and never reads it."""
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(made, ("127.0.0.1", port))
    asked = f"GET /api/v1/changes HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    await loop.sock_sendall(made, asked.encode())
    return made


def dump() -> DumpSource:
    return DumpSource([manifest(zone_node("n1", "a").build())], Options(), "among the files")


async def answers(client: httpx.AsyncClient) -> None:
    for path in ("/topology", "/api/v1/overview", "/api/v1/simulation", "/static/app.js"):
        assert (await client.get(path)).status_code == 200, path


def test_a_flood_of_streams_that_nobody_reads_keeps_nobody_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Page and API answer meanwhile; streams whose client takes nothing are ended, which makes room."""
    monkeypatch.setattr(changes, "_MOST_READERS", PLACES)
    monkeypatch.setattr(component_serving, "_IDLE", 0.2)

    async def script() -> None:
        source = dump()
        async with page(source) as (port, client):
            flood = [await deaf(port) for _ in range(READERS)]
            for _ in range(6000):
                if source.stream.readers == PLACES:
                    break
                await asyncio.sleep(0.01)
            await answers(client)
            async with client.stream("GET", "/api/v1/changes") as refused:
                assert "event: refused" in (await refused.aread()).decode()
            async with asyncio.timeout(120):  # more and more, until no buffer takes it
                while source.stream.readers:
                    source.stream.tell("change", {"filling": "x" * 500_000})
                    await asyncio.sleep(0.02)
            await answers(client)
            async with client.stream("GET", "/api/v1/changes") as heard:
                assert "event: reset" in await anext(heard.aiter_text())
            for each in flood:
                each.close()

    asyncio.run(script())


def test_a_stream_in_which_nothing_happens_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has taken all that there was waits for news as long as it takes."""
    monkeypatch.setattr(component_serving, "_IDLE", 0.02)

    async def script() -> None:
        source = dump()
        async with page(source) as (_, client), client.stream("GET", "/api/v1/changes") as heard:
            pieces = heard.aiter_text()
            assert "event: reset" in await anext(pieces)
            await asyncio.sleep(0.5)  # many looks at who is idle
            source.stream.tell("change", {"n": 7})
            assert '{"n":7}' in await anext(pieces)

    asyncio.run(script())
