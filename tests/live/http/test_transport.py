"""Requests without a full HTTP client: what they send, what is an answer, and when they give up."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from berth.kube.api_resources import PODS
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client
from berth.live.errors import NotSent, TooManyRequests, Unauthorized, Unreachable
from berth.live.http import transport
from berth.live.http.transport import Transport
from tests.support.api.wire import CREATED, Script, Wire, listening
from tests.support.waiting import until


@asynccontextmanager
async def wired(script: Script, seconds: float = 20.0) -> AsyncIterator[tuple[Wire, Client]]:
    async with (
        listening(script) as (wire, port),
        Client.with_token(f"http://127.0.0.1:{port}", "token", context=False, timeout=seconds) as client,
    ):
        yield wire, client


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

            client = Client(plain._transport, plain.url, headers, rejected=lambda: tokens.append("new"))
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

            client = Client(plain._transport, plain.url, headers)
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
    monkeypatch.setattr(transport, "LARGEST", 2000)

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
            (connection,) = client._transport._open
            connection.abort()  # as if the server had
            await until(lambda: wire.open == 0)
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_question_survives_that_the_server_hangs_up_on_a_kept_connection() -> None:
    """It is asked once more, on a connection of its own; what could change something is not."""

    def get(client: Client) -> Coroutine[Any, Any, bytes]:
        return client.get(PODS, "p", "default")

    async def hung_up_on(ask: Callable[[Client], Coroutine[Any, Any, bytes]]) -> int:
        """How often it is sent to a server that answers nothing but the first request."""
        async with wired(lambda number: CREATED if number == 1 else None) as (wire, client):
            await bind(client)
            with pytest.raises(Unreachable, match="closed the connection"):
                await ask(client)
        return len(wire.requests) - 1

    async def story() -> None:
        async with wired(lambda number: None if number == 2 else CREATED) as (wire, client):
            await bind(client)
            assert await get(client) == b"{}"
        assert (len(wire.requests), wire.connections) == (3, 2)
        assert await hung_up_on(get) == 2
        assert await hung_up_on(bind) == 1

    run(story)


def test_a_connection_that_was_idle_for_long_is_not_trusted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Something in between may have forgotten it without saying so."""
    monkeypatch.setattr(transport, "IDLE", 0.0)

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            await bind(client)
            await asyncio.sleep(0.01)
            await bind(client)
            assert wire.connections == 2

    run(story)


def test_a_name_that_needs_quoting() -> None:
    """A name that needs quoting is quoted in the path."""

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
                    assert client._transport._open
                    return False

                async def opened(self) -> bool:
                    return True

            client.fence = Closed()
            with pytest.raises(NotSent):
                await bind(client)
            assert wire.requests == []

    run(story)


# --- lists ----------------------------------------------------------------------------------------


def listed(body: bytes, *more: bytes) -> bytes:
    pieces = b"".join(
        b"%x\r\n%b\r\n" % (len(body[at : at + 999]), body[at : at + 999]) for at in range(0, len(body), 999)
    )
    return b"\r\n".join((b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked", *more, b"", pieces + b"0\r\n\r\n"))


def test_lists_may_be_larger_than_anything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """They have a bound of their own; however many pieces they come in, they are one."""
    monkeypatch.setattr(transport, "LARGEST", 2000)
    body = msgspec.json.encode(
        {"metadata": {}, "items": [{"metadata": {"name": f"p{n}"}} for n in range(999)]}
    )

    async def story() -> None:
        async with wired(lambda _: listed(body)) as (wire, client):
            found = await client.page(PODS, PartialObjectMetadata, limit=7, continue_token="a/b=")  # noqa: S106
            assert len(found.items) == 999
            assert wire.requests[0].startswith(b"GET /api/v1/pods?limit=7&continue=a%2Fb%3D HTTP/1.1\r\n")
            with pytest.raises(Unreachable, match="more than 2000 bytes"):
                await client.get(PODS, "p", "default")

    run(story)


def test_a_list_that_is_cut_off() -> None:
    """Half a list is none."""

    async def story() -> None:
        body = b"HTTP/1.1 200 OK\r\nX: until-the-end\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n"
        async with wired(lambda _: body) as (_, client):
            with pytest.raises(Unreachable, match="closed the connection"):
                await client.page(PODS, PartialObjectMetadata)

    run(story)


def test_lists_may_be_gzipped() -> None:
    """Lists are unpacked if they were asked for compressed."""

    async def story() -> None:
        packed = listed(gzip.compress(b'{"items":[]}'), b"Content-Encoding: gzip")
        async with listening(lambda number: packed if number == 1 else CREATED) as (wire, port):
            asked = Transport(f"http://127.0.0.1:{port}", compressed=True)
            answer = await asked.ask("GET", "/api", None, headers={}, kind=("", "*/*"), seconds=10)
            await asked.close()
            assert answer.body == b'{"items":[]}'
            assert b"Accept-Encoding: gzip\r\n" in wire.requests[0]

    run(story)


def test_every_method_goes_the_same_way() -> None:
    """On one connection; what deletes is held back by the fence as what writes is, and reading is not."""

    async def story() -> None:
        async with wired(lambda _: CREATED) as (wire, client):
            await client.get(PODS, "p", "default")
            await client.update(PODS, {"metadata": {"name": "p"}}, "default")
            await client.delete(PODS, "p", namespace="default")
            await bind(client)
            assert [request.split(b" ", 1)[0] for request in wire.requests] == [
                b"GET",
                b"PUT",
                b"DELETE",
                b"POST",
            ]
            assert wire.connections == 1

            class Closed:
                def lets_through(self) -> bool:
                    return False

                async def opened(self) -> bool:
                    return True

            client.fence = Closed()
            await client.get(PODS, "p", "default")
            with pytest.raises(NotSent):
                await client.delete(PODS, "p", namespace="default")
            assert len(wire.requests) == 5

    run(story)
