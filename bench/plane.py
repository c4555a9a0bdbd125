"""`berth up` as a whole: what it costs while idle, and how it answers while it places pods."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.ports import free_port
from bench.report import Figure
from bench.server import Connection, Endpoint

NODES, BACKLOG = 1_000, 2_000
_IDLE_SECONDS = 20
_TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def plane(nodes: int, *flags: str) -> Iterator[Endpoint]:
    """A control plane with hollow nodes, ready when this is entered."""
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = [sys.executable, "-m", "berth", "up", "--data-dir", folder, "--port", str(port)]
        command += ["--nodes", str(nodes), "--zones", "3", *flags]
        # Every binding is a line of its log, and nobody reads those here.
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for line in process.stdout or ():
                if line.startswith("Ctrl-C"):
                    break
            token = Path(folder, "token").read_text(encoding="ascii").strip()
            yield Endpoint(port, token, process.pid, Path(folder))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)


def processes(root: int) -> list[int]:
    """A process and all its descendants."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (
                    (entry / "stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
                )
            except OSError:
                continue
            parents[int(entry.name)] = int(fields[1])
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    total = 0
    for pid in pids:
        fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace").rsplit(")", 1)[1].split()
        )
        total += int(fields[11]) + int(fields[12])
    return total / _TICKS


def memory_mib(pids: Iterable[int]) -> float:
    """What processes take together; what they share counts once."""
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


async def count(server: Endpoint, path: str) -> int:
    connection = await Connection.open(server.port)
    _, body = await connection.ask(server.request("GET", path))
    connection.close()
    return len(json.loads(body)["items"])


async def wait_for(server: Endpoint, path: str, wanted: int, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while await count(server, path) != wanted:
        if time.monotonic() > deadline:
            raise SystemExit(f"{path} did not reach {wanted} objects in {seconds:.0f} s")
        await asyncio.sleep(0.5)


def deployment(replicas: int) -> bytes:
    labels = {"app": "backlog"}
    requests = {"cpu": "10m", "memory": "10Mi"}
    pod = {"containers": [{"name": "c", "image": "pause", "resources": {"requests": requests}}]}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return json.dumps({"metadata": {"name": "backlog"}, "spec": spec}).encode()


async def latencies_ms(server: Endpoint) -> list[float]:
    """How long gets take while a backlog of pods is created, placed and started."""
    connection = await Connection.open(server.port)
    path = "/apis/apps/v1/namespaces/default/deployments"
    status, body = await connection.ask(server.request("POST", path, deployment(BACKLOG)))
    if status != 201:
        raise SystemExit(f"{status}: {body[:300]!r}")
    taken: list[float] = []
    request = server.request("GET", "/api/v1/namespaces/default")
    waiting = asyncio.ensure_future(
        wait_for(server, "/api/v1/pods?fieldSelector=status.phase=Running&limit=5000", BACKLOG, 300)
    )
    while not waiting.done():
        start = time.perf_counter()
        await connection.ask(request)
        taken.append((time.perf_counter() - start) * 1e3)
        await asyncio.sleep(0.01)
    waiting.result()
    connection.close()
    return taken


def measure() -> Iterable[Figure]:
    start = time.perf_counter()
    with plane(NODES) as server:
        asyncio.run(wait_for(server, "/api/v1/nodes", NODES, 120))
        yield Figure("berth up, ready", NODES, 0, time.perf_counter() - start, "s")
        time.sleep(10)
        pids = processes(server.pid)
        before = cpu_seconds(pids)
        time.sleep(_IDLE_SECONDS)
        share = (cpu_seconds(pids) - before) / _IDLE_SECONDS * 100
        yield Figure("berth up, idle", NODES, 0, share, "% of a core", None, 15)
        yield Figure("berth up, memory", NODES, 0, memory_mib(pids), "MiB", None, 200)
        taken = asyncio.run(latencies_ms(server))
        worst = statistics.quantiles(taken, n=100)[98]
        yield Figure("get while placing 2,000 pods", NODES, BACKLOG, worst, "ms, 99th percentile", None, 100)
