"""The page over a large cluster: how soon it and a change are there, and what looking costs others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from bench.plane import cpu_seconds
from bench.ports import free_port
from bench.report import Figure
from bench.server import SERVE, Connection, Endpoint, rate, running
from bench.workloads import make_node, pod_manifest

NODES, PODS, PAGES = 5_000, 50_000, 100
_IDLE_SECONDS, _CHANGES, _GETS = 20, 15, 300


@dataclass(frozen=True, slots=True)
class OpenPage:
    """A page that somebody looks at: where it is served, and the cookie that lets one in."""

    port: int
    cookie: str
    pid: int

    async def ask(
        self, path: str, encoding: str = "gzip"
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=1 << 26)
        writer.write(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nCookie: {self.cookie}\r\n"
            f"Accept-Encoding: {encoding}\r\nConnection: close\r\n\r\n".encode()
        )
        await reader.readuntil(b"\r\n\r\n")
        return reader, writer

    async def get(self, path: str) -> tuple[float, bytes]:
        """Milliseconds to the first byte, and the content."""
        start = time.perf_counter()
        reader, writer = await self.ask(path)
        first = 1000 * (time.perf_counter() - start)
        content = await reader.read()
        writer.close()
        return first, content

    @contextlib.asynccontextmanager
    async def stream(self) -> AsyncIterator[asyncio.StreamReader]:
        reader, writer = await self.ask("/api/v1/changes", "identity")
        try:
            yield reader
        finally:
            writer.close()


def measure() -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        with running(["-c", SERVE, folder, str(port)], port) as started:
            token = Path(folder, "token").read_text(encoding="ascii").strip()
            server = Endpoint(port, token, started.pid)
            asyncio.run(_fill(server))
            with _served(Path(folder, "kubeconfig")) as page:
                yield from asyncio.run(_measured(server, page))


def _name(number: int) -> str:
    return f"node-{number % NODES:06d}"


async def _fill(server: Endpoint) -> None:
    def node(i: int) -> bytes:
        return server.request("POST", "/api/v1/nodes", msgspec.json.encode(make_node(i, 6)))

    def pod(i: int) -> bytes:
        body = pod_manifest(
            f"app-{i % 500}-{i}", "default", ({"app": f"app-{i % 500}"}, {"nodeName": _name(i)})
        )
        return server.request("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(body))

    await rate(server.port, node, NODES)
    await rate(server.port, pod, PODS)


@contextlib.contextmanager
def _served(kubeconfig: Path) -> Iterator[OpenPage]:
    command = [sys.executable, "-m", "berth", "web", "--kubeconfig", str(kubeconfig)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        line = process.stdout.readline() if process.stdout is not None else ""
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+)", line)
        if found is None:
            raise SystemExit(f"berth web did not start: {line}")
        yield OpenPage(int(found[1]), asyncio.run(_entered(int(found[1]), found[2])), process.pid)
    finally:
        process.terminate()
        process.wait(20)


async def _entered(port: int, path: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode())
    head = (await reader.read()).decode()
    writer.close()
    found = re.search(r"set-cookie: ([^;]+)", head)
    if found is None:
        raise SystemExit(f"the link did not open the page: {head[:200]}")
    return found[1]


async def _measured(server: Endpoint, page: OpenPage) -> list[Figure]:
    opened = await _until_read(page)
    firsts, sizes = [], []
    changes = []
    for i in range(_CHANGES):
        changes.append(await _change(server, page, i))
        first, content = await page.get("/api/v1/overview")
        firsts.append(first)
        sizes.append(len(content) / 1e6)
    idle = await _idle(page)
    alone = await _get(server)
    async with contextlib.AsyncExitStack() as stack:
        for _ in range(PAGES):
            await stack.enter_async_context(page.stream())
        watched = await _get(server)
    return [
        Figure("page, cluster read", NODES, PODS, opened, "s"),
        Figure("page, first byte", NODES, PODS, statistics.median(firsts), "ms", limit=300.0),
        Figure("page, overview compressed", NODES, PODS, max(sizes), "MB", limit=2.0),
        Figure("page, a change is there", NODES, PODS, statistics.median(changes), "ms", limit=500.0),
        Figure("page, idle with one open", NODES, PODS, idle, "% of a core", limit=3.0),
        Figure(f"get with {PAGES} pages open", NODES, PODS, watched / alone, "of alone", limit=1.1),
    ]


async def _until_read(page: OpenPage) -> float:
    start = time.perf_counter()
    while True:
        reader, writer = await page.ask("/api/v1/overview", "identity")
        content = json.loads(await reader.read())
        writer.close()
        if not content["source"]["loading"]:
            return time.perf_counter() - start
        await asyncio.sleep(0.2)


async def _change(server: Endpoint, page: OpenPage, number: int) -> float:
    """Milliseconds from the start of a change until an open page has it."""
    patch = msgspec.json.encode({"metadata": {"labels": {"bench": f"mark-{number}"}}})
    request = server.request("PATCH", f"/api/v1/nodes/{_name(7)}", patch)
    request = request.replace(
        b"application/json\r\nContent-Length", b"application/merge-patch+json\r\nContent-Length"
    )
    connection = await Connection.open(server.port)
    async with page.stream() as reader:
        await reader.readuntil(b"event: reset")
        start = time.perf_counter()
        await connection.ask(request)
        await reader.readuntil(f"mark-{number}".encode())
        found = 1000 * (time.perf_counter() - start)
    connection.close()
    return found


async def _idle(page: OpenPage) -> float:
    async with page.stream():
        before = cpu_seconds([page.pid])
        await asyncio.sleep(_IDLE_SECONDS)
        return 100 * (cpu_seconds([page.pid]) - before) / _IDLE_SECONDS


async def _get(server: Endpoint) -> float:
    """The median of a get's seconds while nodes change now and then."""
    connection, writer = await Connection.open(server.port), await Connection.open(server.port)
    found = []
    for i in range(_GETS):
        if i % 20 == 0:
            patch = msgspec.json.encode({"metadata": {"labels": {"bench": f"get-{i}"}}})
            request = server.request("PATCH", f"/api/v1/nodes/{_name(i)}", patch)
            await writer.ask(
                request.replace(
                    b"application/json\r\nContent-Length", b"application/merge-patch+json\r\nContent-Length"
                )
            )
        start = time.perf_counter()
        await connection.ask(server.request("GET", f"/api/v1/nodes/{_name(3)}"))
        found.append(time.perf_counter() - start)
        await asyncio.sleep(0.005)
    connection.close()
    writer.close()
    return statistics.median(found)
