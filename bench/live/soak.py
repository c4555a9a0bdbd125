"""`python -m bench live --soak`: pods that keep coming for as long as it takes, and some that go.

Pods are created at a steady rate, and for every so many one that runs is deleted; at last as many go as
come.  Measured are the time from the creation of a pod to its binding as a watch sees it, how many waited at
most, and what the scheduler took: memory for every pod more, and what it grows by when they stay as many.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import numpy as np

from bench.live.drain import BACKLOG, NEW, Usage, bindings, fill, make_pod, started, usage_of
from bench.live.drain import Size as DrainSize
from bench.report import Figure
from bench.session import Session
from bench.workloads import Workload

_WINDOW = 5.0  # seconds between two looks at the process
_LATENCY, _CPU_MS, _GROWTH = 1.0, 0.5, 1.05
_LONGER = 0.1  # seconds of pods that may come by which the queue may grow
_PATIENCE = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Soak:
    """How many nodes, and how many pods at which rate a second.

    Attributes:
        churn: The share of pods for which another one is deleted.
        steady: How many come after that, for each of which another one is deleted.
    """

    nodes: int
    pods: int
    rate: float
    churn: float
    steady: int

    @property
    def all_pods(self) -> int:
        return self.pods + self.steady


@dataclass(frozen=True, slots=True)
class Look:
    """At the process: when, what it had used, and how many pods waited, were bound and were there."""

    at: float
    use: Usage
    waiting: int
    bound: int
    alive: int


@dataclass(slots=True)
class Course:
    """What happened.

    Attributes:
        created: When the creation of each pod was answered, by its name.
        waits: Seconds from there to the binding.
        looks: At the process, every few seconds.
    """

    created: dict[str, float] = field(default_factory=dict)
    waits: dict[str, float] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    deleted: int = 0

    def look(self, pid: int) -> None:
        waiting = len(self.created) - len(self.waits)
        alive = len(self.created) - self.deleted
        self.looks.append(Look(time.monotonic(), usage_of(pid), waiting, len(self.waits), alive))


async def soak(session: Session, workload: Workload, size: Soak, command: list[str], log: Path) -> Course:
    await fill(session, workload, DrainSize(size.nodes, 0, 0))
    course = Course()
    version = (await session.get(BACKLOG, limit="1"))["metadata"]["resourceVersion"]
    with started(command, log) as process:
        watching = asyncio.create_task(_watch(session, version, course))
        await _first(session, workload, course)
        course.look(process.pid)
        looking = asyncio.create_task(_look(process.pid, course))
        await _create(session, workload, size, course)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while len(course.waits) < size.all_pods:  # noqa: ASYNC110 - a moment more does not matter
                    await asyncio.sleep(0.2)
        course.look(process.pid)
        for task in (watching, looking):
            task.cancel()
        await asyncio.gather(watching, looking, return_exceptions=True)
    return course


async def _first(session: Session, workload: Workload, course: Course) -> None:
    """Wait until the scheduler has begun: what it takes until then is measured elsewhere."""
    await session.post(BACKLOG, msgspec.json.encode(make_pod("first", NEW, workload.pending(0), "berth")))
    async with asyncio.timeout(_PATIENCE):
        while "first" not in course.waits:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    del course.waits["first"]


async def _watch(session: Session, since: str, course: Course) -> None:
    """Note who is bound; a server closes a watch that does not keep up, which is then opened anew."""
    version = since
    while True:
        parameters = {"watch": "1", "resourceVersion": version}
        async with session.session.get(session.url + BACKLOG, params=parameters) as watch:
            async for name, seen in bindings(watch.content):
                version = seen
                if name not in course.waits:
                    # The watch may be faster than the answer to the creation.
                    now = time.monotonic()
                    course.waits[name] = now - course.created.get(name, now)


async def _look(pid: int, course: Course) -> None:
    while True:
        await asyncio.sleep(_WINDOW)
        course.look(pid)


async def _create(session: Session, workload: Workload, size: Soak, course: Course, width: int = 32) -> None:
    begun = time.monotonic()
    numbers = iter(range(size.all_pods))
    alive: deque[str] = deque()
    chance = random.Random(0)  # noqa: S311

    async def work() -> None:
        for number in numbers:
            await asyncio.sleep(max(begun + number / size.rate - time.monotonic(), 0))
            name = f"new-{number}"
            await session.post(
                BACKLOG, msgspec.json.encode(make_pod(name, NEW, workload.pending(number), "berth"))
            )
            course.created[name] = time.monotonic()
            alive.append(name)
            share = size.churn if number < size.pods else 1.0
            if chance.random() < share and alive[0] in course.waits:
                course.deleted += 1
                await session.delete(f"{BACKLOG}/{alive.popleft()}")
            if number % 10_000 == 9_999:
                print(
                    f"{number + 1:,} pods created, {len(course.waits):,} bound", file=sys.stderr, flush=True
                )

    await asyncio.gather(*(work() for _ in range(width)))


def figures(name: str, size: Soak, course: Course) -> Iterable[Figure]:
    def figure(what: str, value: float, unit: str, limit: float | None = None) -> Figure:
        return Figure(f"soak {name}, {what}", size.nodes, len(course.waits), value, unit, limit=limit)

    waits = np.array(list(course.waits.values()) or [float("inf")])
    before, after = course.looks[0], course.looks[-1]
    quarter, full = (_when(course, share * size.pods) for share in (0.25, 1.0))
    grown = (full.use.memory_mib - quarter.use.memory_mib) * 1024 / max(full.alive - quarter.alive, 1)
    cpu = (after.use.cpu_seconds - before.use.cpu_seconds) * 1e3 / max(after.bound - before.bound, 1)
    created = max(course.created.values()) - min(course.created.values())
    yield figure("created", len(course.created) / max(created, 1e-9), "pods/s")
    yield figure("not bound", size.all_pods - after.bound, "pods", 0)
    yield figure("creation to binding, median", float(np.median(waits)), "s")
    yield figure("creation to binding, 99th percentile", float(np.percentile(waits, 99)), "s", _LATENCY)
    yield figure("most that waited", max(look.waiting for look in course.looks), "pods")
    early, late = (float(np.mean(each)) for each in np.array_split([o.waiting for o in course.looks], 2))
    yield figure("waiting on average, second half - first", late - early, "pods", _LONGER * size.rate)
    yield figure("berth, CPU", cpu, "ms/pod", _CPU_MS)
    yield figure("berth, memory for a pod more", grown, "KiB")
    yield figure(f"berth, memory with {full.alive:,} pods", full.use.memory_mib, "MiB")
    if size.steady:
        yield figure(f"the same after {size.steady:,} came and as many went", after.use.memory_mib, "MiB")
        half = _when(course, size.pods + size.steady / 2)  # by then freed blocks are used again
        ratio = after.use.memory_mib / half.use.memory_mib
        yield figure("the second half of that, end / beginning", ratio, "ratio", _GROWTH)


def _when(course: Course, created: float) -> Look:
    """The first look after so many pods were bound."""
    return next((look for look in course.looks if look.bound >= created), course.looks[-1])


def over_time(course: Course) -> Iterator[str]:
    """For whoever wants to see that the queue does not grow."""
    begun = course.looks[0].at
    for look in course.looks:
        use = look.use
        yield (
            f"{look.at - begun:6.0f} s  {look.alive:6d} pods  {look.waiting:6d} waiting  "
            f"{use.memory_mib:6.0f} MiB  {use.cpu_seconds:7.1f} s of CPU"
        )
