"""Many requests over one connection: what is sent, what is an answer, and what others do not suffer from."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import msgspec
import pytest

from berth.kube.api_resources import NODES, PODS
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client
from berth.live.errors import Conflict, TooManyRequests, Unreachable
from berth.live.http import exchange, http2, transport
from tests.support.api.http2 import Call, Link, frame, speaking
from tests.support.waiting import until

CONCURRENT, INITIAL_WINDOW = 3, 4
REFUSED, INTERNAL = 7, 2
GOING_AWAY = frame(7, 0, 0, bytes((0, 0, 0, 1)) + bytes(4))  # after the first request


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


async def bind(client: Client, name: str = "p") -> bytes:
    return await client.bind(name, "default", "n")


async def created(call: Call) -> None:
    await call.answer()


def test_a_request_is_what_the_api_wants(tmp_path: Path) -> None:
    """Method, path, proof of who we are, type, length and body are as in any other request."""

    async def story() -> None:
        async with speaking(tmp_path, created) as (server, client):
            assert await client.patch(PODS, "p", {"a": 1}, namespace="default") == b"{}"
            await client.delete(PODS, "p", namespace="default")
            await client.get(PODS, "p", "default")
        patch, delete, get = server.calls
        authority = client.url.removeprefix("https://")
        body = bytes(patch.body)
        assert msgspec.json.decode(body) == {"a": 1}
        assert patch.headers == {
            ":method": "PATCH",
            ":scheme": "https",
            ":path": "/api/v1/namespaces/default/pods/p",
            ":authority": authority,
            "accept": "application/json",
            "accept-encoding": "identity",
            "content-type": "application/merge-patch+json",
            "authorization": "Bearer token",
            "content-length": str(len(body)),
        }
        assert [delete.headers[":method"], get.headers[":method"]] == ["DELETE", "GET"]
        assert "content-length" not in get.headers

    run(story)


def test_a_field_may_be_there_several_times(tmp_path: Path) -> None:
    """Fields that every request has are sent one by one and in order, beside those of the request."""
    groups = [("Impersonate-Group", "devs"), ("Impersonate-Group", "ops")]

    async def story() -> None:
        async with speaking(tmp_path, created) as (server, client):
            several = transport.Transport(client.url, client._transport._context, fields=groups)
            for _ in range(2):
                await several.ask(
                    "GET", "/api", None, headers={"Authorization": "Bearer t"}, kind=("", "a/b"), seconds=5.0
                )
            await several.close()
        for call in server.calls:
            assert [value for name, value in call.fields if name == "impersonate-group"] == ["devs", "ops"]
            assert (call.headers["authorization"], call.headers["accept"]) == ("Bearer t", "a/b")

    run(story)


def test_one_connection_is_for_all(tmp_path: Path) -> None:
    """However many are made side by side, and answered in whatever order, each gets its own answer."""

    async def story() -> None:
        async def late_first(call: Call) -> None:
            await asyncio.sleep(0.2 / (1 + call.number))
            await call.answer(body=call.path.encode())

        async with speaking(tmp_path, late_first) as (server, client):
            found = await asyncio.gather(*(bind(client, f"p{i}") for i in range(60)))
            assert found == [f"/api/v1/namespaces/default/pods/p{i}/binding".encode() for i in range(60)]
            assert len(server.links) == 1

    run(story)


def test_bodies_of_every_size(tmp_path: Path) -> None:
    """Large ones go as fast as the other side takes them, both ways."""

    async def story() -> None:
        sizes = [0, 1, 2**14, 2**14 + 1, 2**16, 3 * 2**20]

        async def echoed(call: Call) -> None:
            await call.answer(200, bytes(call.body))

        async with speaking(tmp_path, echoed, settings={INITIAL_WINDOW: 1000}) as (_, client):
            bodies = [b"x" * size for size in sizes]
            found = await asyncio.gather(*(client.request("POST", "/large", body=body) for body in bodies))
            assert found == bodies

    run(story)


def test_lists_may_be_larger_than_what_a_server_may_send_ahead(tmp_path: Path) -> None:
    """It hears in time that it may go on, and other answers come in between."""

    async def story() -> None:
        large = msgspec.json.encode(
            {"metadata": {"resourceVersion": "1"}, "items": [{"metadata": {"name": "n" * 2**24}}]}
        )

        async def answering(call: Call) -> None:
            await call.answer(200, large if "nodes" in call.path else b"{}")

        async with speaking(tmp_path, answering) as (_, client):
            listing = asyncio.create_task(client.list_all(NODES, PartialObjectMetadata))
            assert await bind(client) == b"{}"
            (item,) = await listing
            assert len(item.metadata.name or "") == 2**24

    run(story)


def test_refusals_and_packed_answers(tmp_path: Path) -> None:
    """They are what they are over any other connection."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if "busy" in call.path:
                await call.answer(429, headers={"retry-after": "7"})
            elif "packed" in call.path:
                await call.answer(200, gzip.compress(b"plain"), {"content-encoding": "gzip"})
            else:
                await call.answer(409)

        async with speaking(tmp_path, answering) as (server, client):
            with pytest.raises(TooManyRequests) as raised:
                await bind(client, "busy")
            assert raised.value.retry_after == 7
            with pytest.raises(Conflict):
                await bind(client)
            assert await client.get(PODS, "packed", "default") == b"plain"
            assert len(server.links) == 1

    run(story)


def test_answers_of_every_form(tmp_path: Path) -> None:
    """An answer is read that is announced, padded, in pieces, and has something after it."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            call.link.protocol.send_headers(call.number, [(":status", "103"), ("link", "x")])
            await call.begin(200, {"x-long": "y" * 40_000})
            await call.send(b"{", padding=17)
            await call.send(b"")
            await call.send(b"}")
            call.link.protocol.send_headers(call.number, [("x-sum", "0")], end_stream=True)
            await call.link.flush()

        async with speaking(tmp_path, answering) as (_, client):
            assert [await bind(client), await bind(client)] == [b"{}", b"{}"]

    run(story)


def test_who_waits_no_longer_disturbs_nobody(tmp_path: Path) -> None:
    """The server is told to give the request up, and others go on over the same connection."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if "slow" not in call.path:
                await call.answer()

        async with speaking(tmp_path, answering, seconds=0.3) as (server, client):
            asking = asyncio.create_task(bind(client, "slow"))
            with pytest.raises(Unreachable, match=r"no answer for 0\.3 seconds"):
                await bind(client, "slow")
            with pytest.raises(Unreachable):
                await asking
            cancelled = asyncio.create_task(bind(client, "slow"))
            await until(lambda: len(server.calls) == 3)
            cancelled.cancel()
            assert await bind(client) == b"{}"
            (link,) = server.links
            await until(lambda: len(link.resets) == 3)

    run(story)


def test_an_answer_that_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is too large is given up, and no other one with it."""
    monkeypatch.setattr(transport, "LARGEST", 1000)

    async def story() -> None:
        async def answering(call: Call) -> None:
            await call.answer(body=b"x" * (5000 if "large" in call.path else 5))

        async with speaking(tmp_path, answering) as (server, client):
            with pytest.raises(Unreachable, match="more than 1000 bytes"):
                await bind(client, "large")
            assert await bind(client) == b"xxxxx"
            assert len(server.links) == 1

    run(story)


# --- watches --------------------------------------------------------------------------------------


def line(number: int, padding: int = 0) -> bytes:
    return msgspec.json.encode({"type": "ADDED", "object": {"n": number, "p": "x" * padding}}) + b"\n"


def test_watches_and_requests_go_side_by_side(tmp_path: Path) -> None:
    """Frames come as they are sent; who stops watching tells the server, and everything else goes on."""

    async def story() -> None:
        more = asyncio.Event()

        async def answering(call: Call) -> None:
            if "watch" not in call.path:
                await call.answer()
                return
            await call.begin()
            await call.send(line(1) + line(2)[:10])
            await more.wait()
            await call.send(line(2)[10:])

        async with speaking(tmp_path, answering) as (server, client):
            frames = client.watch(PODS, resource_version="1")
            assert await anext(frames) == []
            assert len(await anext(frames)) == 1
            await bind(client)
            more.set()
            assert len(await anext(frames)) == 1
            await frames.aclose()
            await bind(client)
            (link,) = server.links
            await until(lambda: len(link.resets) == 1)

    run(story)


def test_a_reader_that_is_behind_keeps_the_server_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only so much is taken in advance, requests go on meanwhile, and nothing is lost."""
    monkeypatch.setattr(exchange, "AHEAD", 2**16)

    async def story() -> None:
        sent = 0

        async def answering(call: Call) -> None:
            nonlocal sent
            if "watch" not in call.path:
                await call.answer()
                return
            await call.begin()
            for number in range(100):
                await call.send(line(number, padding=2**17))
                sent += 1
            call.link.protocol.end_stream(call.number)
            await call.link.flush()

        async with speaking(tmp_path, answering) as (_, client):
            frames = client.watch(PODS, resource_version="1", silence=0.3)
            found = len(await anext(frames))
            await asyncio.sleep(0.7)
            assert 0 < sent < 100
            await bind(client)
            async for some in frames:
                found += len(some)
            assert found == 100

    run(story)


# --- connections that end -------------------------------------------------------------------------


def test_what_the_server_has_not_begun_with_is_asked_again(tmp_path: Path) -> None:
    """A request that the server has not begun with is made again, even one that changes something."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if call.link is server.links[0] and "first" not in call.path:
                call.link.protocol.reset_stream(call.number, REFUSED)
                await call.link.flush()
                call.link.writer.write(GOING_AWAY)
            elif call.link is server.links[0]:
                await asyncio.sleep(0.2)
                await call.answer(body=b"first")
            else:
                await call.answer(body=b"again")

        async with speaking(tmp_path, answering) as (server, client):
            first = asyncio.create_task(bind(client, "first"))
            await until(lambda: len(server.calls) == 1)
            assert await bind(client, "second") == b"again"
            assert await first == b"first"
            await until(lambda: server.open == 1)
            assert len(server.links) == 2

    run(story)


def test_who_is_always_refused_gives_up(tmp_path: Path) -> None:
    """A server that begins with nothing is not asked forever."""

    async def story() -> None:
        async def refused(call: Call) -> None:
            call.link.protocol.reset_stream(call.number, REFUSED)
            await call.link.flush()

        async with speaking(tmp_path, refused) as (server, client):
            with pytest.raises(Unreachable, match="does not take the request"):
                await bind(client)
            assert len(server.calls) == 3

    run(story)


def test_a_server_that_goes_away_names_what_it_has_begun_with(tmp_path: Path) -> None:
    """What came later is asked again elsewhere; what it has begun with is waited for."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if call.link is server.links[0]:
                if len(server.calls) == 3:
                    call.link.writer.write(GOING_AWAY)
                    await asyncio.sleep(0.1)
                    await server.calls[0].answer(body=b"old")
            else:
                await call.answer(body=b"new")

        async with speaking(tmp_path, answering) as (server, client):
            found = await asyncio.gather(*(bind(client, f"p{i}") for i in range(3)))
            assert found == [b"old", b"new", b"new"]
            await until(lambda: server.open == 1)

    run(story)


@pytest.mark.parametrize("how", ["reset", "closed"])
def test_what_may_have_been_carried_out_is_not_repeated(tmp_path: Path, how: str) -> None:
    """A request that the server gives up, or hangs up on, fails; a question is asked again elsewhere."""

    async def story() -> None:
        async def answering(call: Call) -> None:
            if "broken" not in call.path or (how == "closed" and len(server.links) > 1):
                await call.answer()
            elif how == "reset":
                call.link.protocol.reset_stream(call.number, INTERNAL)
                await call.link.flush()
            else:
                call.link.writer.close()

        async with speaking(tmp_path, answering) as (server, client):
            await bind(client)
            why = "gave the request up" if how == "reset" else "connection"
            with pytest.raises(Unreachable, match=why):
                await bind(client, "broken")
            assert len(server.calls) == 2
            if how == "closed":
                server.links.clear()
                await bind(client)
                await client.get(PODS, "broken", "default")
            assert await bind(client) == b"{}"

    run(story)


def test_no_more_requests_at_a_time_than_a_server_takes(tmp_path: Path) -> None:
    """There are several connections then, and one again afterwards."""

    async def story() -> None:
        async def slow(call: Call) -> None:
            await asyncio.sleep(0.2)
            await call.answer()

        async with speaking(tmp_path, slow, settings={CONCURRENT: 2}) as (server, client):
            await bind(client)
            await asyncio.gather(*(bind(client) for _ in range(5)))
            assert 2 < len(server.links) < 5
            await until(lambda: server.open == 1)

    run(story)


def test_a_silent_server_is_asked_whether_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A watch of which nothing comes goes on as long as it says so; if it does not there is another."""
    monkeypatch.setattr(http2, "QUIET", 0.2)
    monkeypatch.setattr(transport, "QUIET", 0.2)

    async def story() -> None:
        async def answering(call: Call) -> None:
            await (call.begin() if "watch" in call.path else call.answer())

        async with speaking(tmp_path, answering) as (server, client):
            frames = client.watch(PODS, resource_version="1")
            assert await anext(frames) == []
            reading = asyncio.ensure_future(anext(frames))
            await asyncio.sleep(1)
            assert not reading.done()
            server.deaf = True
            with pytest.raises(Unreachable, match="the server was silent"):
                await reading
            server.deaf = False
            await bind(client)
            assert len(server.links) == 2

    run(story)


def test_a_connection_that_was_idle_for_long_is_not_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something on the way may have forgotten it."""
    monkeypatch.setattr(http2, "QUIET", 0.1)

    async def story() -> None:
        async with speaking(tmp_path, created) as (server, client):
            await bind(client)
            await asyncio.sleep(0.2)
            await bind(client)
            assert len(server.links) == 2
            await until(lambda: server.open == 1)

    run(story)


def test_http2_can_be_turned_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DISABLE_HTTP2, which other Kubernetes clients know, turns HTTP/2 off."""
    monkeypatch.setenv("DISABLE_HTTP2", "1")
    spoken: list[str | None] = []

    async def story() -> None:
        def asked(link: Link) -> None:
            secure: ssl.SSLObject = link.writer.get_extra_info("ssl_object")
            spoken.append(secure.selected_alpn_protocol())
            link.writer.close()

        async with speaking(tmp_path, created) as (server, client):
            monkeypatch.setattr(Link, "serve", lambda link, _: _done(asked, link))
            with pytest.raises(Unreachable):
                await bind(client)
        assert spoken == ["http/1.1"]
        assert len(server.links) == 1

    run(story)


async def _done(act: Callable[[Link], None], link: Link) -> None:
    act(link)
