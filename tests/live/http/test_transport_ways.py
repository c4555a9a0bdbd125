"""How a server is reached: by its certificate, by a proxy, by a name in the URL."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from berth.live.connection import connect
from berth.live.errors import in_words
from berth.live.http.transport import Transport
from tests.live.kubeconfigs import kubeconfig
from tests.support.api.http2 import Call, Http2Server
from tests.support.api.wire import CREATED, certified, listening
from tests.support.waiting import until


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


async def get(transport: Transport, **headers: str) -> int:
    answer = await transport.ask("GET", "/api", None, headers=headers, kind=("", "*/*"), seconds=10)
    return answer.status


def test_whose_certificate_it_is(tmp_path: Path) -> None:
    """The certificate is to be of the URL's host, or of the name given instead, and of nobody else."""

    async def story() -> None:
        server, trusting = certified(tmp_path, "kubernetes")
        async with listening(lambda _: CREATED, server) as (_, port):
            url = f"https://127.0.0.1:{port}"
            named = Transport(url, trusting, server_hostname="kubernetes")
            assert await get(named) == 201
            await named.close()
            plain = Transport(url, trusting)
            with pytest.raises(ssl.SSLCertVerificationError) as raised:
                await get(plain)
            assert in_words(raised.value).startswith("its certificate is not trusted: IP address mismatch")

    run(story)


class Proxying:
    """A proxy that leads to wherever it is told, or answers what it is given.

    Attributes:
        heads: What it was told.
    """

    def __init__(self, answer: bytes = b"HTTP/1.1 200 Connection established\r\n\r\n") -> None:
        self.heads: list[bytes] = []
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        writer.write(self._answer)
        if b" 200 " in self._answer:
            host, port = head.split()[1].decode().split(":")
            there_reader, there_writer = await asyncio.open_connection(host, int(port))
            await asyncio.gather(self._carry(reader, there_writer), self._carry(there_reader, writer))
        writer.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(2**16):
                writer.write(data)
        writer.close()


SECURE = pytest.mark.parametrize("secure", [False, True], ids=["http", "https"])
LOOPS = pytest.mark.parametrize(
    "loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"]
)


@SECURE
@LOOPS
def test_a_proxy_leads_to_a_server_with_tls(
    loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    secure: bool,
) -> None:
    """It is told where to, and by whom; what is said after that it cannot read."""

    async def story() -> None:
        server, trusting = certified(tmp_path, "127.0.0.1")
        proxying = Proxying()
        own, trusts_proxy = certified(tmp_path, "localhost")
        monkeypatch.setattr(ssl, "create_default_context", lambda: trusts_proxy)
        async with (
            listening(lambda _: CREATED, server) as (wire, port),
            await asyncio.start_server(
                proxying.serve, "localhost", 0, family=socket.AF_INET, ssl=own if secure else None
            ) as proxy,
        ):
            scheme = "https" if secure else "http"
            by = f"{scheme}://me:p%20w@localhost:{proxy.sockets[0].getsockname()[1]}"
            transport = Transport(f"https://127.0.0.1:{port}", trusting, proxy=by)
            assert [await get(transport), await get(transport)] == [201, 201]
            await transport.close()
        (head,) = proxying.heads
        place = f"127.0.0.1:{port}"
        assert head.decode().split("\r\n")[:3] == [
            f"CONNECT {place} HTTP/1.1",
            f"Host: {place}",
            "Proxy-Authorization: Basic bWU6cCB3",
        ]
        assert b"Proxy-Authorization" not in wire.requests[0]

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


@SECURE
@LOOPS
def test_a_proxy_leads_to_a_server_that_speaks_http2(
    loop: Callable[[], asyncio.AbstractEventLoop],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    secure: bool,
) -> None:
    """One connection through it is for all requests, and whoever speaks first is understood."""

    async def story() -> None:
        context, trusting = certified(tmp_path, "127.0.0.1")
        context.set_alpn_protocols(["h2"])
        server, proxying = Http2Server(Call.answer, {}), Proxying()
        own, trusts_proxy = certified(tmp_path, "localhost")
        monkeypatch.setattr(ssl, "create_default_context", lambda: trusts_proxy)
        async with (
            await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=context) as listener,
            await asyncio.start_server(
                proxying.serve, "localhost", 0, family=socket.AF_INET, ssl=own if secure else None
            ) as proxy,
        ):
            by = f"{'https' if secure else 'http'}://localhost:{proxy.sockets[0].getsockname()[1]}"
            url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
            transport = Transport(url, trusting, proxy=by)
            assert await asyncio.gather(*(get(transport) for _ in range(5))) == [201] * 5
            await transport.close()
            await until(lambda: server.open == 0)
        assert len(server.links) == len(proxying.heads) == 1

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(story())


def test_a_proxy_that_refuses(tmp_path: Path) -> None:
    """It is said that it was the proxy."""

    async def story() -> None:
        _, trusting = certified(tmp_path, "127.0.0.1")
        proxying = Proxying(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
        async with await asyncio.start_server(proxying.serve, "127.0.0.1", 0) as proxy:
            by = f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
            transport = Transport("https://api.test:6443", trusting, proxy=by)
            with pytest.raises(OSError, match=r"the proxy does not lead to api\.test:6443: HTTP status 407"):
                await get(transport)

    run(story)


@pytest.mark.parametrize("url", ["api.test:6443", "ftp://api.test", "https://", "/api", "socks5://api.test"])
def test_what_is_no_url_of_a_server(url: str) -> None:
    """It is said at once, of servers and of proxies."""

    async def story() -> None:
        with pytest.raises(ValueError, match="is not the URL of an HTTP server"):
            Transport(url)
        if "://" in url:
            with pytest.raises(ValueError, match="is not the URL of an HTTP server"):
                Transport("https://api.test", proxy=url)

    run(story)


def test_a_name_and_a_password_in_the_url() -> None:
    """They are sent if nothing else proves who we are, and are no part of the server's name."""

    async def story() -> None:
        async with listening(lambda _: CREATED) as (wire, port):
            transport = Transport(f"http://me:secret@127.0.0.1:{port}/under%20it/")
            await get(transport)
            await get(transport, authorization="Bearer t")
            await transport.close()
        first, second = (request.decode() for request in wire.requests)
        assert first.startswith(f"GET /under%20it/api HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n")
        assert "Authorization: Basic bWU6c2VjcmV0" in first
        assert "Basic" not in second

    run(story)


def test_there_is_no_way_around_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a proxy every request goes through it."""
    path = kubeconfig(tmp_path, "http://api.test:1")

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
                assert await client.bind("p", "default", "n") == b"{}"
        assert seen == [b"POST http://api.test:1/api/v1/namespaces/default/pods/p/binding HTTP/1.1\r\n"]

    run(story)
