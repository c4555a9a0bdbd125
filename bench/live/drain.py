"""One contender against one backlog: start it, watch the bindings, and see what it cost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from bench.session import Session
from bench.workloads import GUARDED, URGENT, Workload, make_node, pod_manifest
from berth.engine.execution.violations import placement_violations
from berth.engine.state.cluster import Cluster, pod_name
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod

NEW, RUN = "new", "run"
BACKLOG, RUNNING = f"/api/v1/namespaces/{NEW}/pods", f"/api/v1/namespaces/{RUN}/pods"
_TICKS = os.sysconf("SC_CLK_TCK")
_STOP_TIMEOUT = 60
_BUSY = 0.1  # seconds of a second that a server works which has nothing to do


@dataclass(frozen=True, slots=True)
class Size:
    nodes: int
    running: int
    pending: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process has used so far."""

    memory_mib: float = 0.0
    cpu_seconds: float = 0.0


@dataclass(slots=True)
class Drain:
    """What became of a backlog.

    Attributes:
        times: When each binding was seen.
        first_use: What was used when the first was.
        use: What was used when the last was seen, and the last event was written.
        broken: Hard rules that running pods break afterwards.
        victims, guarded: Running pods that had to go, and those of them that a budget protects.
        events: Scheduled events written for the backlog.
    """

    started: float
    times: list[float] = field(default_factory=list)
    first_use: Usage = Usage()
    use: Usage = Usage()
    broken: int = 0
    events: int = 0
    victims: int = 0
    guarded: int = 0

    @property
    def rate(self) -> float:
        return len(self.times) / max(self.times[-1] - self.times[0], 1e-9) if self.times else 0.0

    @property
    def first(self) -> float:
        return self.times[0] - self.started if self.times else float("inf")

    @property
    def whole(self) -> float:
        """Seconds from the process's start to the last binding."""
        return self.times[-1] - self.started if self.times else float("inf")

    @property
    def cpu_per_pod(self) -> float:
        """Milliseconds beyond start-up."""
        return (self.use.cpu_seconds - self.first_use.cpu_seconds) * 1e3 / max(len(self.times), 1)

    def told(self, *, full: bool) -> str:
        return f"{self.whole:,.1f} s" if full else f"{self.rate:,.0f} pods/s"


# --- the world ------------------------------------------------------------------------------------


async def fill(session: Session, workload: Workload, size: Size) -> None:
    """Namespaces, nodes and running pods, made later where some of them will have to go."""
    for name in (NEW, RUN):
        await session.post("/api/v1/namespaces", msgspec.json.encode({"metadata": {"name": name}}))
    nodes = (msgspec.json.encode(make_node(i, workload.zones)) for i in range(size.nodes))
    await session.post_all(("/api/v1/nodes", body) for body in nodes)

    if workload.full:
        urgent = {"metadata": {"name": URGENT}, "value": 1_000}
        await session.post("/apis/scheduling.k8s.io/v1/priorityclasses", msgspec.json.encode(urgent))
        await guard(session)
    else:
        await run(session, workload, size)


async def guard(session: Session) -> None:
    """A budget that allows no disruption."""
    path = f"/apis/policy/v1/namespaces/{RUN}/poddisruptionbudgets"
    budget = {
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": GUARDED}},
    }
    await session.post(path, msgspec.json.encode(budget))


async def run(session: Session, workload: Workload, size: Size) -> None:
    """The running pods; those that are there already stay."""
    present = {item["metadata"]["name"] for item in await session.items(RUNNING)}

    def running(number: int) -> bytes:
        pod = make_pod(f"run-{number}", RUN, workload.running(number), "none")
        pod["spec"]["nodeName"] = f"node-{number * workload.stride % size.nodes:06d}"
        return msgspec.json.encode(pod)

    missing = (i for i in range(size.running) if f"run-{i}" not in present)
    await session.post_all((RUNNING, running(i)) for i in missing)


async def count_victims(session: Session, workload: Workload, running: int, result: Drain) -> None:
    present = {item["metadata"]["name"] for item in await session.items(RUNNING)}
    gone = [i for i in range(running) if f"run-{i}" not in present]
    result.victims = len(gone)
    result.guarded = sum(workload.running(i)[0] == GUARDED for i in gone)


async def pile_up(session: Session, workload: Workload, pending: int, scheduler: str) -> None:
    """The backlog, for one scheduler; what an earlier one placed goes first."""
    await session.delete_all(BACKLOG)
    pods = (make_pod(f"new-{i}", NEW, workload.pending(i), scheduler) for i in range(pending))
    await session.post_all((BACKLOG, msgspec.json.encode(pod)) for pod in pods)


def make_pod(
    name: str, namespace: str, shape: tuple[dict[str, str], dict[str, Any]], scheduler: str
) -> dict[str, Any]:
    pod = pod_manifest(name, namespace, shape)
    pod["spec"] |= {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0}
    return pod


# --- the drain ------------------------------------------------------------------------------------


async def settle(session: Session, pid: int) -> None:
    """Let a server deal with what was asked of it before, and with the garbage of that: it is nobody's drain.

    A collection takes kube-apiserver as long as 500 to 1,500 bindings; without this it would come in the turn
    of whoever happens to be the next.
    """
    await _until_idle(pid)
    await session.collect_garbage()
    await _until_idle(pid)


async def _until_idle(pid: int, longest: float = 30.0) -> None:
    deadline = time.monotonic() + longest
    before = -_BUSY
    while (now := usage_of(pid).cpu_seconds) - before >= _BUSY and time.monotonic() < deadline:
        before = now
        await asyncio.sleep(1.0)


async def drain(
    session: Session, pending: int, command: list[str], log: Path, *, patience: float, writes_events: bool
) -> Drain:
    """Run a command until it has bound the whole backlog, or for as long as there is patience."""
    version = (await session.get(BACKLOG, limit="1"))["metadata"]["resourceVersion"]
    parameters = {"watch": "1", "resourceVersion": version}
    async with session.session.get(session.url + BACKLOG, params=parameters) as watch:
        with started(command, log) as process:
            result = Drain(time.monotonic())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(patience):
                    await _watch_bindings(watch.content, pending, result, process.pid)
            result.events = await _count_events(session, len(result.times)) if writes_events else 0
            result.use = usage_of(process.pid)
    return result


async def _watch_bindings(lines: aiohttp.StreamReader, pending: int, result: Drain, pid: int) -> None:
    seen: set[str] = set()
    async for name, _ in bindings(lines):
        if name not in seen:
            seen.add(name)
            result.times.append(time.monotonic())
            if len(seen) == 1:
                result.first_use = usage_of(pid)
            if len(seen) == pending:
                return


async def bindings(lines: aiohttp.StreamReader) -> AsyncIterator[tuple[str, str]]:
    """Who is seen on a node, by a watch of the backlog, and in which version; some more than once."""
    while line := await lines.readline():
        if b'"nodeName":"' not in line:
            continue
        frame = msgspec.json.decode(line)
        if frame["type"] == "MODIFIED" and frame["object"]["spec"].get("nodeName"):
            yield frame["object"]["metadata"]["name"], frame["object"]["metadata"]["resourceVersion"]


async def _count_events(session: Session, wanted: int, patience: float = 20.0) -> int:
    """Events come after the bindings; wait for them a little."""
    deadline = time.monotonic() + patience
    while True:
        items = await session.items(f"/api/v1/namespaces/{NEW}/events")
        pods = {item["involvedObject"]["uid"] for item in items if item.get("reason") == "Scheduled"}
        alive = {item["metadata"]["uid"] for item in await session.items(BACKLOG)}
        if len(pods & alive) >= wanted or time.monotonic() > deadline:
            return len(pods & alive)
        await asyncio.sleep(0.5)


@contextmanager
def started(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def usage_of(pid: int) -> Usage:
    """What a process has used so far, its largest memory among it; nothing if it is gone."""
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        fields = stat.rsplit(")", 1)[1].split()
        memory = int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return Usage()
    return Usage(memory, (int(fields[11]) + int(fields[12])) / _TICKS)


async def broken_rules(session: Session) -> int:
    """How many hard rules the backlog's pods break where they are, room on the nodes among them."""
    cluster = Cluster()
    for item in await session.items("/api/v1/nodes"):
        cluster.add_node(default_node(msgspec.convert(item, Node)))
    pods = [created(msgspec.convert(item, Pod)) for item in await session.items("/api/v1/pods")]
    placed = [pod for pod in pods if pod.spec.node_name]
    for pod in placed:
        cluster.add_pod(pod)
    new = [pod_name(pod) for pod in placed if pod.metadata.namespace == NEW]
    return sum(map(len, placement_violations(cluster, new).values()))
