"""What is sent on and on is read piece by piece, and nothing is kept that nobody reads."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import pytest

from berth.kube.api_resources import NODES
from berth.live.client import Client
from berth.live.errors import Expired, Silent, Unreachable
from berth.live.http import exchange
from berth.live.http.exchange import unpacked
from berth.live.wire import Frame
from tests.support.api.wire import Answering, AnsweringServer
from tests.support.waiting import until

HEAD = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


@asynccontextmanager
async def sending(answer: Answering, seconds: float = 20.0) -> AsyncIterator[tuple[AnsweringServer, Client]]:
    found = AnsweringServer(answer)
    async with await asyncio.start_server(found.serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client.with_token(url, "token", context=False, timeout=seconds) as client:
            yield found, client
        await until(lambda: found.open == 0)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def watch(client: Client, silence: float = 20.0) -> AsyncGenerator[list[Frame], None]:
    return client.watch(NODES, resource_version="7", silence=silence)


def line(number: int, padding: int = 0) -> bytes:
    return b'{"type":"ADDED","object":{"number":%d,"padding":"%b"}}\n' % (number, b"x" * padding)


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def test_frames_come_as_they_are_sent() -> None:
    """A watch asks as the API wants it; at first it tells that it may, then what comes, when it comes."""

    async def story() -> None:
        step = asyncio.Event()

        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD)
            await step.wait()
            writer.write(chunk(line(1)) + chunk(line(2)[:9]) + chunk(line(2)[9:]))
            writer.write(END)

        async with sending(script) as (server, client):
            frames = watch(client)
            assert await anext(frames) == []
            step.set()
            assert [frame.type async for some in frames for frame in some] == ["ADDED", "ADDED"]
            head = server.requests[0].decode()
            assert head.startswith(
                "GET /api/v1/nodes?watch=true&allowWatchBookmarks=true&resourceVersion=7&timeoutSeconds=300 "
            )
            assert "Content-Length" not in head
            assert "Content-Type" not in head

    run(story)


def test_a_watch_that_ended_leaves_its_connection() -> None:
    """The next request goes on the connection of a watch that ended."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD + chunk(line(1)) + END)

        async with sending(script) as (server, client):
            for _ in range(3):
                assert [len(some) async for some in watch(client)] == [0, 1]
            assert server.connections == 1

    run(story)


def test_a_stream_that_is_cut_off() -> None:
    """What came before is told; then it is an error, for its end did not come."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD + chunk(line(1)) + b"ff\r\n{")
            await writer.drain()
            writer.close()

        async with sending(script) as (_, client):
            frames = watch(client)
            assert [len(await anext(frames)), len(await anext(frames))] == [0, 1]
            with pytest.raises(Unreachable, match="closed the connection"):
                await anext(frames)

    run(story)


def test_a_stream_without_a_length() -> None:
    """A stream without a length ends with its connection."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n" + line(1))
            writer.close()

        async with sending(script) as (_, client):
            assert sum([len(some) async for some in watch(client)]) == 1

    run(story)


def test_a_silent_watch() -> None:
    """Nothing for long, after something came, is told apart from a connection that broke."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD)
            for number in range(4):
                writer.write(chunk(line(number)))
                await asyncio.sleep(0.1)
            await asyncio.sleep(2)

        async with sending(script) as (server, client):
            found: list[Frame] = []

            async def read() -> None:
                async for some in watch(client, silence=0.3):
                    found.extend(some)

            with pytest.raises(Silent, match=r"nothing came for 0\.3 seconds"):
                await read()
            assert len(found) == 4
            assert server.connections == 1

    run(story)


def test_a_watch_that_is_not_answered() -> None:
    """There was none, so it is not silent."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            del writer
            await asyncio.sleep(1)

        async with sending(script) as (_, client):
            with pytest.raises(Unreachable, match=r"no answer for 0\.2 seconds") as raised:
                await anext(watch(client, silence=0.2))
            assert not isinstance(raised.value, Silent)

    run(story)


def test_a_refused_watch() -> None:
    """It is what any other refusal is, and the connection goes on."""

    async def story() -> None:
        status = b'{"kind":"Status","reason":"Expired","message":"too old"}'

        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 410 Gone\r\nContent-Length: %d\r\n\r\n%b" % (len(status), status))

        async with sending(script) as (server, client):
            for _ in range(2):
                with pytest.raises(Expired, match="too old"):
                    await anext(watch(client))
            assert server.connections == 1

    run(story)


def test_who_stops_reading_hangs_up() -> None:
    """Who stops reading, or is cancelled while nothing comes, closes the connection."""

    async def story() -> None:
        async def script(writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD + chunk(line(1)))
            await asyncio.sleep(0.2)

        async with sending(script) as (server, client):
            frames = watch(client)
            await anext(frames)
            await frames.aclose()
            await until(lambda: server.open == 0)

            async def read() -> None:
                async for _ in watch(client):
                    pass

            reading = asyncio.create_task(read())
            await until(lambda: server.open == 1)
            await asyncio.sleep(0.05)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await until(lambda: server.open == 0)

    run(story)


def test_a_reader_that_is_behind_keeps_the_server_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so much is taken in advance; it is not silence, and nothing of it is lost."""
    monkeypatch.setattr(exchange, "AHEAD", 2**16)

    async def story() -> None:
        sent = 0

        async def script(writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            writer.write(HEAD)
            for number in range(400):
                writer.write(chunk(line(number, padding=2**17)))
                await writer.drain()
                sent += 1
            writer.write(END)

        async with sending(script) as (_, client):
            frames = watch(client, silence=0.3)
            found = len(await anext(frames))
            await asyncio.sleep(0.7)
            assert 0 < sent < 400
            async for some in frames:
                found += len(some)
            assert found == 400

    run(story)


def test_what_is_gzipped_is_unpacked() -> None:
    """Up to so many bytes, and only if it is whole."""
    packed = gzip.compress(b"x" * 1000)
    assert unpacked(packed, 1000) == b"x" * 1000
    with pytest.raises(OSError, match="more than 999 bytes"):
        unpacked(packed, 999)
    with pytest.raises(OSError, match="cut off"):
        unpacked(packed[:-9], 1000)
    with pytest.raises(OSError, match="not gzipped"):
        unpacked(b"plain text", 1000)
