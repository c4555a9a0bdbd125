"""The embedded API server beside a bare uvicorn endpoint: requests, watches, lists, idling."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from bench.ports import free_port
from bench.report import Figure
from bench.workloads import make_node, pod_manifest

CONNECTIONS = 8
SERVE = """
import sys
from pathlib import Path
from berth.server.serving import open_server
from berth.server.settings import ServerSettings

with open_server(ServerSettings(data_dir=Path(sys.argv[1]), port=int(sys.argv[2]))) as server:
    server.run()
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    port: int
    token: str
    pid: int
    folder: Path = Path()

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: 127.0.0.1:{self.port}",
            f"Authorization: Bearer {self.token}",
            "Accept: application/json",
        ]
        if body:
            lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
        return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection:
    """One keep-alive HTTP/1.1 connection, with as little client in the way as possible."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def open(cls, port: int) -> Connection:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return cls(*await asyncio.open_connection("127.0.0.1", port, ssl=context, limit=1 << 24))

    async def ask(self, request: bytes) -> tuple[int, bytes]:
        self.writer.write(request)
        status, headers = await self.head()
        if headers.get("transfer-encoding") == "chunked":
            return status, b"".join([chunk async for chunk in self.chunks()])
        return status, await self.reader.readexactly(int(headers.get("content-length", "0")))

    async def head(self) -> tuple[int, dict[str, str]]:
        raw = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        fields = (line.split(": ", 1) for line in raw[1:] if line)
        return int(raw[0].split(" ", 2)[1]), {name.lower(): value for name, value in fields}

    async def chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.readline(), 16):
            yield (await self.reader.readexactly(size + 2))[:-2]
        await self.reader.readline()

    def close(self) -> None:
        self.writer.close()


@contextlib.contextmanager
def running(command: list[str], port: int, token: str = "") -> Iterator[Endpoint]:
    process = subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        asyncio.run(_until_open(port))
        yield Endpoint(port, token, process.pid)
    finally:
        process.terminate()
        process.wait(20)


async def _until_open(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError):
            (await Connection.open(port)).close()
            return
        await asyncio.sleep(0.05)
    raise SystemExit(f"nothing listens on port {port}")


async def rate(port: int, requests: Callable[[int], bytes], count: int) -> float:
    """Requests per second over a few connections of one client."""
    connections = [await Connection.open(port) for _ in range(CONNECTIONS)]
    numbers = iter(range(count))

    async def work(connection: Connection) -> None:
        for number in numbers:
            status, body = await connection.ask(requests(number))
            if status >= 300:
                raise SystemExit(f"{status}: {body[:300]!r}")

    start = time.perf_counter()
    await asyncio.gather(*map(work, connections))
    seconds = time.perf_counter() - start
    for connection in connections:
        connection.close()
    return count / seconds


def config_map(name: str) -> bytes:
    return json.dumps({"metadata": {"name": name}, "data": {"key": "value"}}).encode()


async def fan_out(server: Endpoint, watchers: int = 100, creates: int = 20) -> float:
    """Median milliseconds from a create's start until a watcher has it."""
    path = "/api/v1/namespaces/default/configmaps"
    connections = [await Connection.open(server.port) for _ in range(watchers)]
    streams = []
    _, listed = await (await Connection.open(server.port)).ask(server.request("GET", f"{path}?limit=1"))
    version = json.loads(listed)["metadata"]["resourceVersion"]
    for connection in connections:
        connection.writer.write(server.request("GET", f"{path}?watch=1&resourceVersion={version}"))
        await connection.head()
        streams.append(connection.chunks())
    writer = await Connection.open(server.port)
    delays: list[float] = []
    for number in range(creates):
        start = time.perf_counter()
        asking = asyncio.ensure_future(writer.ask(server.request("POST", path, config_map(f"fan-{number}"))))

        async def hear(stream: AsyncIterator[bytes], since: float = start) -> None:
            await anext(stream)
            delays.append((time.perf_counter() - since) * 1e3)

        await asyncio.gather(asking, *map(hear, streams))
    for connection in (*connections, writer):
        connection.close()
    return statistics.median(delays)


async def fill(server: Endpoint, nodes: int, pods: int) -> None:
    def node(number: int) -> bytes:
        raw: dict[str, Any] = msgspec.to_builtins(make_node(number, 3), str_keys=True)
        return server.request("POST", "/api/v1/nodes", msgspec.json.encode(raw))

    def pod(number: int) -> bytes:
        manifest = pod_manifest(f"pod-{number}", "default", ({"app": f"app-{number % 50}"}, {}))
        manifest["spec"]["nodeName"] = f"node-{number % nodes:06d}"
        return server.request("POST", "/api/v1/namespaces/default/pods", msgspec.json.encode(manifest))

    await rate(server.port, node, nodes)
    await rate(server.port, pod, pods)


async def list_seconds(server: Endpoint) -> float:
    """Until the last byte of both lists has arrived; what a client then makes of them is not the server's."""
    connection = await Connection.open(server.port)
    seconds = 0.0
    for path, count in (("/api/v1/nodes", 5_000), ("/api/v1/pods", 10_000)):
        start = time.perf_counter()
        _, body = await connection.ask(server.request("GET", path))
        seconds += time.perf_counter() - start
        if len(json.loads(body)["items"]) != count:
            raise SystemExit(f"{path} lists the wrong number of objects")
    connection.close()
    return seconds


def resident_gib(pid: int) -> float:
    fields = Path(f"/proc/{pid}/status").read_text(encoding="ascii").split("VmHWM:")[1].split()
    return int(fields[0]) / 2**20


def measure() -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        port, hello_port = free_port(), free_port()
        with running(["-c", SERVE, folder, str(port)], port) as bare:
            token = Path(folder, "token").read_text(encoding="ascii").strip()
            server = Endpoint(bare.port, token, bare.pid)
            certificate, key = Path(folder, "pki", "server.crt"), Path(folder, "pki", "server.key")
            with running(
                ["-m", "bench.hello", str(certificate), str(key), str(hello_port)], hello_port
            ) as hello:
                yield from _requests(server, hello)
            yield Figure("create to 100 watchers", 0, 0, asyncio.run(fan_out(server)), "ms median", None, 50)
            asyncio.run(fill(server, 5_000, 10_000))
            yield Figure(
                "list nodes and pods", 5_000, 10_000, asyncio.run(list_seconds(server)), "s", None, 2
            )
            yield Figure("server memory", 5_000, 10_000, resident_gib(server.pid), "GiB", None, 1.5)


def _requests(server: Endpoint, hello: Endpoint) -> Iterable[Figure]:
    def rates() -> tuple[float, float, float]:
        tag = time.monotonic_ns()
        path = "/api/v1/namespaces/default/configmaps"
        bare = asyncio.run(rate(hello.port, lambda _: hello.request("GET", "/"), 3_000))
        get = asyncio.run(
            rate(server.port, lambda _: server.request("GET", "/api/v1/namespaces/default"), 3_000)
        )
        create = asyncio.run(
            rate(server.port, lambda n: server.request("POST", path, config_map(f"c-{tag}-{n}")), 1_500)
        )
        return bare, get, create

    runs = [rates() for _ in range(3)]
    bare = max(run[0] for run in runs)
    for name, index, share in (("get", 1, 0.5), ("create (durable)", 2, 0.15)):
        value = max(run[index] for run in runs) / bare
        yield Figure(f"{name} / uvicorn hello", 0, 0, value, "ratio", 1e6 / bare, share, "higher")
