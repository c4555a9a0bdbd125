"""Connections and requests that end early: nobody waits or asks forever, or keeps what is gone."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import uvloop

from berth.kube.api_resources import PODS
from berth.live.client import Client, Selection
from berth.live.errors import Unreachable
from berth.live.http import exchange, http2, transport
from berth.live.http.http2 import Http2Connection
from tests.support.api.http2 import Call, frame, saying, serving, speaking
from tests.support.waiting import until

CALM = 11  # the error of servers that are asked too much
LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)
Loop = Callable[[], asyncio.AbstractEventLoop]


def run(story: Callable[[], Coroutine[Any, Any, None]], loop: Loop = asyncio.new_event_loop) -> None:
    """Run it; nothing may go wrong where nobody looks."""
    unseen: list[dict[str, Any]] = []

    async def main() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
        await story()
        gc.collect()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())
    assert unseen == []


async def bind(client: Client) -> bytes:
    return await client.bind("p", "default", "n")


async def watching(call: Call) -> None:
    """Watches begin, and nothing else is answered."""
    if "watch" in call.path:
        await call.begin()


def test_a_server_that_goes_away_at_once_is_asked_once(tmp_path: Path) -> None:
    """Each connection takes a handshake; who is turned away hears of it and may come back later."""
    connections = 0

    async def leaving(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        writer.write(frame(4, 0, 0) + frame(7, 0, 0, bytes(8)))
        with contextlib.suppress(ConnectionError):
            await reader.read()
        writer.close()

    async def story() -> None:
        async with serving(tmp_path, leaving, 1.0) as client:
            with pytest.raises(Unreachable, match="at once"):
                await bind(client)
            with pytest.raises(Unreachable, match="at once"):
                await anext(client.watch(PODS, resource_version="1"))
        assert connections == 2

    run(story)


def test_a_question_that_the_server_gives_up_is_not_asked_again(tmp_path: Path) -> None:
    """The connection is as good as before, so that nothing would be different."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if len(server.calls) == 1:
                await call.answer()
            else:
                call.link.protocol.reset_stream(call.number, CALM)
                await call.link.flush()

        async with speaking(tmp_path, answering, seconds=1.0) as (server, client):
            await bind(client)
            with pytest.raises(Unreachable, match="gave the request up"):
                await client.get(PODS, "p", "default")
            assert len(server.calls) == 2

    run(story)


def test_a_server_that_leaves_is_left(tmp_path: Path) -> None:
    """A connection that takes no more requests is closed after the last answer, not with the next request."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            call.link.writer.write(frame(7, 0, 0, bytes((0, 0, 0, 1)) + bytes(4)))
            await call.answer()

        async with speaking(tmp_path, answering) as (server, client):
            await bind(client)
            await until(lambda: server.open == 0, timeout=5)

    run(story)


class Coarse(asyncio.SelectorEventLoop):
    """A loop whose clock ticks ten times a second; uvloop's does a thousand times."""

    def time(self) -> float:
        return math.floor(super().time() * 10) / 10


def test_a_server_may_answer_before_the_clock_ticks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It said that it is there: the next silence is another one."""
    monkeypatch.setattr(http2, "QUIET", 0.2)
    monkeypatch.setattr(transport, "QUIET", 0.2)

    async def story() -> None:
        async with speaking(tmp_path, watching) as (_, client):
            frames = client.watch(PODS, resource_version="1")
            assert await anext(frames) == []
            reading = asyncio.ensure_future(anext(frames))
            await asyncio.sleep(1.5)
            assert not reading.done()
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    run(story, Coarse)


def test_who_gives_up_while_connecting_is_not_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection that was just made is closed, and nothing is said about its end."""
    made = Http2Connection.connection_made

    async def story() -> None:
        async with speaking(tmp_path, watching) as (server, client):
            asking = asyncio.create_task(bind(client))

            def cancelled(connection: Http2Connection, given: asyncio.BaseTransport) -> None:
                made(connection, given)
                asking.cancel()

            monkeypatch.setattr(Http2Connection, "connection_made", cancelled)
            with pytest.raises(asyncio.CancelledError):
                await asking
            await until(lambda: len(server.links) == 1 and server.open == 0, timeout=5)

    run(story)


@LOOPS
def test_closing_with_much_under_way(tmp_path: Path, loop: Loop) -> None:
    """Every request and every watch is told, soon, whether it has a connection or waits for one."""

    async def story() -> None:
        async with speaking(tmp_path, watching) as (server, client):
            frames = client.watch(PODS, resource_version="1")
            assert await anext(frames) == []
            reading = asyncio.ensure_future(anext(frames))
            asking = [asyncio.create_task(bind(client)) for _ in range(20)]
            await until(lambda: len(server.calls) == 21)
            began = time.monotonic()
            await client.close()
            found = await asyncio.gather(reading, *asking, return_exceptions=True)
            assert time.monotonic() - began < 3
            assert {type(error) for error in found} == {Unreachable}

    run(story, loop)


@LOOPS
def test_closing_while_connecting(tmp_path: Path, loop: Loop) -> None:
    """Who waits for a connection gets none any more."""

    async def story() -> None:
        async with speaking(tmp_path, watching, seconds=1.0) as (server, client):
            asking = [asyncio.create_task(client.get(PODS, "p", "default")) for _ in range(3)]
            await asyncio.sleep(0)
            await client.close()
            found = await asyncio.gather(*asking, return_exceptions=True)
            assert [str(error) for error in found] == ["the connection was closed at once"] * 3
            assert server.calls == []

    run(story, loop)


# --- what is kept ---------------------------------------------------------------------------------


def test_who_sends_more_than_may_be_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that does not wait for a reader that is behind does not fill the memory."""
    monkeypatch.setattr(http2, "WINDOW", 2**16)
    monkeypatch.setattr(exchange, "AHEAD", 2**14)

    async def story() -> None:
        flood = frame(0, 0, 1, bytes(2**14)) * 20
        async with saying(tmp_path, frame(1, 4, 1, b"\x88"), flood) as client:
            frames = client.watch(PODS, Selection(namespace="default"), resource_version="1", silence=1)
            assert await anext(frames) == []
            await asyncio.sleep(0.3)
            with pytest.raises(Unreachable, match="more was sent than may be"):
                await anext(frames)

    run(story)


def test_what_comes_over_a_closed_connection_is_not_kept() -> None:
    """The other side may go on for a while until it sees that nobody listens."""

    async def story() -> None:
        connection = Http2Connection(Mock())
        connection.connection_made(Mock())
        connection.close()
        tracemalloc.start()
        for _ in range(50):
            connection.data_received(bytes(2**16))
        kept, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert kept < 2**18

    run(story)


def test_many_small_pieces_take_no_more_time_than_few() -> None:
    """However far its reader is behind, a piece is not counted again with each that follows."""

    async def story() -> None:
        loop = asyncio.get_running_loop()
        asked = exchange.Exchange(loop, Mock(), 2**20, streamed=True)
        asked.head(200, None, None)
        assert asked.stream is not None
        began = time.process_time()
        for _ in range(30_000):
            asked.take(b"{}")
            asked.stream.arrived()
        assert time.process_time() - began < 1
        assert len(await asked.stream.read()) == 60_000

    run(story)
