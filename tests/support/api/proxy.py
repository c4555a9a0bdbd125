"""A proxy between a scheduler and its API server that does what networks and servers do on bad days.

It has a certificate authority and a kubeconfig of its own, runs in a thread, and is told what to do by
a :class:`Trouble`, which may change while it runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from berth.server.credentials import prepare
from berth.server.settings import PreparedServer, ServerSettings
from tests.support.api.servers import Backend
from tests.support.processes.process import free_port

_HOP = {"connection", "content-length", "host", "keep-alive", "transfer-encoding"}
_REASONS = {409: "Conflict", 429: "TooManyRequests", 500: "InternalError"}


@dataclass
class Trouble:
    """What goes wrong.

    Attributes:
        meets: What it happens to: requests to create a `binding`, or an `eviction`.
        refusals: Status -> the share of them that get it without reaching the server.
        lost: The share of them that the server does and of which the client hears a 500.
        broken: The share of them whose connection is cut after the server did them.
        retry_after: What a 429 says, in seconds.
        delay: Seconds every one takes longer.
        width: How many are let through at a time; None for all.
        cut_after: Watches are cut in the middle of the line after so many lines; None leaves them alone.
    """

    meets: str = "binding"
    refusals: dict[int, float] = field(default_factory=dict)
    lost: float = 0.0
    broken: float = 0.0
    retry_after: int = 1
    delay: float = 0.0
    width: int | None = None
    cut_after: int | None = None


@dataclass
class Proxy:
    """The proxy as a test sees it.

    Attributes:
        done: What the proxy did, to see that a test tested something.
    """

    prepared: PreparedServer
    trouble: Trouble
    done: Counter[str] = field(default_factory=Counter)

    @property
    def kubeconfig(self) -> Path:
        return self.prepared.kubeconfig


class _Handler:
    def __init__(self, proxy: Proxy, backend: Backend, session: aiohttp.ClientSession) -> None:
        self._proxy, self._backend, self._session = proxy, backend, session
        width = proxy.trouble.width
        self._door = asyncio.Semaphore(width) if width else None
        self._random = random.Random(1)  # noqa: S311 - the same troubles each time

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        if request.method == "POST" and request.path.endswith(f"/{self._proxy.trouble.meets}"):
            return await self._meet(request, body)
        return await self._forward(request, body)

    async def _meet(self, request: web.Request, body: bytes) -> web.StreamResponse:
        trouble, done = self._proxy.trouble, self._proxy.done
        done["met"] += 1
        async with self._door or contextlib.nullcontext():
            await asyncio.sleep(trouble.delay)
        drawn = self._random.random()
        for status, share in trouble.refusals.items():
            drawn -= share
            if drawn < 0:
                done[f"refused with {status}"] += 1
                return self._refusal(status)
        answer = await self._forward(request, body)
        drawn -= trouble.lost
        if drawn < 0:
            done["lost"] += 1
            return self._refusal(500)
        if drawn < trouble.broken:
            done["broken"] += 1
            self._cut(request)
        return answer

    def _refusal(self, status: int) -> web.Response:
        body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": status}
        body |= {"reason": _REASONS[status], "message": "trouble"}
        after = self._proxy.trouble.retry_after
        headers = {"Retry-After": str(after)} if status == 429 else {}
        if status == 429:
            body["details"] = {"retryAfterSeconds": after}
        return web.Response(
            status=status, text=json.dumps(body), content_type="application/json", headers=headers
        )

    async def _forward(self, request: web.Request, body: bytes) -> web.StreamResponse:
        headers = {name: value for name, value in request.headers.items() if name.lower() not in _HOP}
        url = self._backend.url + request.raw_path
        try:
            async with self._session.request(
                request.method, url, data=body or None, headers=headers, allow_redirects=False
            ) as answer:
                kept = {name: value for name, value in answer.headers.items() if name.lower() not in _HOP}
                if request.query.get("watch") in ("true", "1"):
                    return await self._watch(request, answer, kept)
                return web.Response(status=answer.status, body=await answer.read(), headers=kept)
        except aiohttp.ClientError:
            self._proxy.done["unreachable"] += 1
            self._cut(request)
            raise

    async def _watch(
        self, request: web.Request, answer: aiohttp.ClientResponse, headers: dict[str, str]
    ) -> web.StreamResponse:
        response = web.StreamResponse(status=answer.status, headers=headers)
        await response.prepare(request)
        lines = 0
        async for line in answer.content:
            lines += 1
            limit = self._proxy.trouble.cut_after
            if limit is not None and lines > limit:
                self._proxy.done["cut"] += 1
                await response.write(line[: len(line) // 2])
                self._cut(request)
                break
            await response.write(line)
        return response

    @staticmethod
    def _cut(request: web.Request) -> None:
        if request.transport is not None:
            request.transport.abort()


@contextmanager
def proxying(backend: Backend, folder: Path, trouble: Trouble) -> Iterator[Proxy]:
    settings = ServerSettings(data_dir=folder / "proxy", port=free_port(), token=backend.prepared.token)
    proxy = Proxy(prepare(settings), trouble)
    opened: Future[Callable[[], object]] = Future()
    thread = threading.Thread(
        target=lambda: asyncio.run(_serve(proxy, backend, settings.port, opened)), name="proxy"
    )
    thread.start()
    end = opened.result(30)
    try:
        yield proxy
    finally:
        end()
        thread.join(60)
        assert not thread.is_alive()


async def _serve(proxy: Proxy, backend: Backend, port: int, opened: Future[Callable[[], object]]) -> None:
    """Serve until what `opened` gives is called."""
    upstream = ssl.create_default_context(cafile=str(backend.prepared.ca_file))
    own = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    own.load_cert_chain(proxy.prepared.cert_file, proxy.prepared.key_file)
    ending = asyncio.Event()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=upstream),
        timeout=aiohttp.ClientTimeout(total=None),
        read_bufsize=2**22,
        auto_decompress=False,
    ) as session:
        application = web.Application(client_max_size=2**26)
        application.router.add_route("*", "/{path:.*}", _Handler(proxy, backend, session).handle)
        runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=own).start()
        loop = asyncio.get_running_loop()
        opened.set_result(lambda: loop.call_soon_threadsafe(ending.set))
        await ending.wait()
        await runner.cleanup()
    # Connections over TLS are closed only when the loop has turned a few times more.
    await asyncio.sleep(0.2)
