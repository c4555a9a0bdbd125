"""Requests without a full HTTP client: what they send, what is an answer, and when they give up."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.kube.api_resources import PODS
from berth.live import wire
from berth.live.client import Client
from berth.live.connection import connect
from berth.live.errors import NotSent, TooManyRequests, Unauthorized, Unreachable
from tests.support.waiting import until

CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
Script = Callable[[int], bytes | None]


class Wire:
    """A server that answers by a script: bytes to send for the so-manieth request, or None to hang up.

    Attributes:
        requests: What came, head and body.
        connections: How many were made.
        open: How many there are.
    """

    def __init__(self, script: Script) -> None:
        self.requests: list[bytes] = []
        self.connections = self.open = 0
        self._script = script

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                answer = self._script(len(self.requests))
                if answer is None:
                    break
                writer.write(answer)
                await writer.drain()
                if b"until-the-end" in answer:
                    break
        self.open -= 1
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


@asynccontextmanager
async def wired(script: Script, seconds: float = 20.0) -> AsyncIterator[tuple[Wire, Client]]:
    wire = Wire(script)
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    async with server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with Client.with_token(url, "token", context=False, timeout=seconds) as client:
            yield wire, client
        await until(lambda: wire.open == 0)


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


async def bind(client: Client, name: str = "p") -> bytes:
    return await client.bind(name, "default", "n")


def test_a_request_is_what_the_api_wants() -> None:
    """Method, path, proof of who we are, type, length and body are as in any other request."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            assert await client.patch(PODS, "p", {"a": 1}, namespace="default") == b"{}"
        head, _, body = wire.requests[0].partition(b"\r\n\r\n")
        line, *fields = head.decode().split("\r\n")
        assert line == "PATCH /api/v1/namespaces/default/pods/p HTTP/1.1"
        found = dict(field.split(": ", 1) for field in fields)
        assert found["Host"] == client.url.removeprefix("http://")
        assert found["Authorization"] == "Bearer token"
        assert found["Content-Type"] == "application/merge-patch+json"
        assert found["Accept"] == "application/json"
        assert found["Content-Length"] == str(len(body))
        assert msgspec.json.decode(body) == {"a": 1}

    run(story)


def test_connections_are_kept() -> None:
    """One after the other they take one connection, side by side as many as they are."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            for _ in range(5):
                await bind(client)
            assert wire.connections == 1
            await asyncio.gather(*(bind(client) for _ in range(4)))
            assert wire.connections == 4
            await asyncio.gather(*(bind(client) for _ in range(4)))
            assert wire.connections == 4

    run(story)


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1\r\n}\r\n0\r\n\r\n",
        b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CREATED,
        b"HTTP/1.1 200 OK\r\nX: until-the-end\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}",
        b"http/1.1 200 ok\r\ncontent-length: 2\r\n\r\n{}".replace(b"http", b"HTTP"),
    ],
    ids=["chunked", "announced", "until the end", "closing", "HTTP/1.0", "lower case"],
)
def test_answers_of_every_form(answer: bytes) -> None:
    """However an answer is framed it is read whole, and the next request is answered, too."""

    async def story() -> None:
        async with wired(lambda _: answer) as (_, client):
            assert [await bind(client), await bind(client)] == [b"{}", b"{}"]

    run(story)


def test_an_answer_in_small_pieces() -> None:
    """It does not matter where the network cuts an answer."""

    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            for number in range(len(CREATED)):
                writer.write(CREATED[number : number + 1])
                await writer.drain()
                await asyncio.sleep(0)
            await reader.read()
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Client.with_token(url, "token", context=False) as client:
                assert await bind(client) == b"{}"

    run(story)


def test_refusals() -> None:
    """A refusal has its code and how long to wait, and the connection goes on."""

    async def story() -> None:
        status = b'{"kind":"Status","reason":"TooManyRequests","message":"not now"}'
        busy = b"HTTP/1.1 429 Busy\r\nretry-after: 7\r\nContent-Length: %d\r\n\r\n%b" % (len(status), status)
        async with wired(lambda number: busy if number == 1 else CREATED) as (wire, client):
            with pytest.raises(TooManyRequests) as refused:
                await bind(client)
            assert (refused.value.retry_after, refused.value.message) == (7.0, "not now")
            await bind(client)
            assert wire.connections == 1

    run(story)


def test_rejected_credentials_are_told_and_renewed() -> None:
    """Who gives the credentials hears that they were not accepted; the next request has the new ones."""

    async def story() -> None:
        refused = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"
        tokens = ["old"]
        async with wired(lambda number: refused if number == 1 else CREATED) as (wire, plain):

            async def headers() -> dict[str, str]:
                return {"Authorization": f"Bearer {tokens[-1]}"}

            client = Client(
                plain._session,
                plain.url,
                headers,
                rejected=lambda: tokens.append("new"),
                direct=plain._direct,
            )
            with pytest.raises(Unauthorized):
                await bind(client)
            await bind(client)
            assert [b"Bearer old" in wire.requests[0], b"Bearer new" in wire.requests[1]] == [True, True]

    run(story)


def test_a_line_break_in_a_token_sends_nothing() -> None:
    """Credentials cannot add headers of their own."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, plain):

            async def headers() -> dict[str, str]:
                return {"Authorization": "Bearer a\r\nX-Remote-User: root"}

            client = Client(plain._session, plain.url, headers, direct=plain._direct)
            with pytest.raises(Unreachable, match="line break"):
                await bind(client)
            assert wire.requests == []

    run(story)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (None, "closed the connection"),
        (b"HTTP/1.1 200 OK\r\nX: until-the-end\r\nContent-Length: 9\r\n\r\n{}", "closed the connection"),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "not HTTP"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 4000, "more than 2000 bytes"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4000\r\n\r\n" + b"x" * 4000, "more than 2000 bytes"),
    ],
    ids=["hung up", "cut off", "another protocol", "long head", "long body"],
)
def test_what_is_no_answer(answer: bytes | None, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It fails once, is not repeated, and the next request is made on another connection."""
    monkeypatch.setattr(wire, "LARGEST", 2000)

    async def story() -> None:
        async with wired(lambda number: answer if number == 1 else CREATED) as (wire, client):
            with pytest.raises(Unreachable, match=why):
                await bind(client)
            assert len(wire.requests) == 1
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_nobody_waits_forever() -> None:
    """A server that does not answer is unreachable after the client's time."""

    async def story() -> None:
        async with wired(lambda number: b"" if number == 1 else CREATED, seconds=0.3) as (wire, client):
            with pytest.raises(Unreachable):
                await bind(client)
            assert len(wire.requests) == 1

    run(story)


def test_an_answer_that_comes_too_late_is_for_nobody() -> None:
    """Who was cancelled leaves no connection behind on which an answer is still to come."""

    async def story() -> None:
        async with wired(lambda number: b"" if number == 1 else CREATED) as (wire, client):
            asking = asyncio.create_task(bind(client))
            await until(lambda: len(wire.requests) == 1)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_second_answer_is_no_answer_to_the_next_request() -> None:
    """What nobody asked for ends the connection: the next answer would be somebody else's."""

    async def story() -> None:
        twice = CREATED + CREATED.replace(b"201 Created", b"500 Broken!")
        async with wired(lambda number: twice if number == 1 else CREATED) as (wire, client):
            await bind(client)
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_connection_that_the_server_closed_is_not_used() -> None:
    """A server that ends idle connections costs a new one, not a request."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            await bind(client)
            assert client._direct is not None
            (connection,) = client._direct._open
            connection.transport.abort()  # as if the server had
            await until(lambda: wire.open == 0)
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_connection_that_was_idle_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in between may have forgotten it without saying so."""
    monkeypatch.setattr(wire, "IDLE", 0.0)

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            await bind(client)
            await asyncio.sleep(0.01)
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_name_that_needs_quoting() -> None:
    """Such a request is made all the same, the other way."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            await bind(client, "a b")
            assert wire.requests[0].startswith(b"POST /api/v1/namespaces/default/pods/a%20b/binding HTTP/1.1")

    run(story)


def test_what_is_held_back_is_not_sent() -> None:
    """The fence is asked once there is a connection, right before the request is written to it."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):

            class Closed:
                def lets_through(self) -> bool:
                    assert client._direct is not None
                    assert client._direct._open
                    return False

                async def opened(self) -> bool:
                    return True

            client.fence = Closed()
            with pytest.raises(NotSent):
                await bind(client)
            assert wire.requests == []

    run(story)


def test_there_is_no_way_around_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proxy every request goes through it."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "http://api.test:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }
    path = tmp_path / "config"
    path.write_bytes(msgspec.json.encode(config))

    async def story() -> None:
        seen: list[bytes] = []

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            seen.append(await reader.readuntil(b"\r\n"))
            writer.write(b"HTTP/1.1 201 Created\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}")
            writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            proxy = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            monkeypatch.setenv("http_proxy", proxy)
            monkeypatch.setenv("no_proxy", "")
            async with await connect(path) as client:
                assert await bind(client) == b"{}"
        assert seen == [b"POST http://api.test:1/api/v1/namespaces/default/pods/p/binding HTTP/1.1\r\n"]

    run(story)
