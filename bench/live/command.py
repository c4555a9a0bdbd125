"""`python -m bench live`: draining a backlog on an API server, beside a loop that binds without a thought.

For each workload one server is filled with nodes and running pods and, for every contender in turn,
with a backlog.  The rate is bound pods a second from the first to the last binding as a watch sees
them; how long it took from the process's start to the first binding is given apart.  The server is the
embedded one, or the kube-apiserver of $KUBEBUILDER_ASSETS; a kube-scheduler found there is measured, too.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, TypeVar

from bench.live import soak
from bench.live.drain import (
    BACKLOG,
    NEW,
    Drain,
    Size,
    broken_rules,
    count_victims,
    drain,
    fill,
    pile_up,
    run,
    settle,
)
from bench.report import Figure, merge_json, print_table
from bench.session import Session, open_session
from bench.workloads import DIFFERENT, PREEMPTION, WORKLOADS, Workload, plain
from tests.support.api.servers import Backend, assets_folder, running_backend

NAMES = (
    "basic",
    "node-affinity",
    "pod-affinity",
    "pod-anti-affinity",
    "preferred-pod-affinity",
    "preferred-pod-anti-affinity",
    "spread",
    "preferred-spread",
    "mixed",
    "every-pod-different",
    "preemption",
)
LOOP, TELLING, BERTH, KUBE = "bind loop", "bind loop with events", "berth", "kube-scheduler"
NOBODY = "nobody"  # whom pods are for that a loop binds
OUTPUT = Path("bench-results.json")
_T = TypeVar("_T")
_RARE_COLLECTIONS = {"GOGC": "500", "GOMEMLIMIT": "6GiB"}
_SHARE, _CPU_MS = 0.9, 0.5
# Seconds to the first binding and MiB of memory, of clusters with up to so many nodes.
_LIMITS = ((5_000, 1.0, 400.0), (sys.maxsize, 15.0, 1200.0))


def workloads() -> dict[str, Workload]:
    """Those of the engine, with running pods on the first nodes and, beside the mixed ones, plain."""
    found = {workload.name: replace(workload, stride=1) for workload in WORKLOADS}
    for mixed in (found["mixed"], DIFFERENT):
        found[mixed.name] = replace(mixed, running=plain, stride=1)
    return found | {PREEMPTION.name: PREEMPTION}


def contenders(backend: Backend) -> dict[str, tuple[str, list[str]]]:
    """Name -> the scheduler's name in pods, and the command to start it."""
    python, kubeconfig = sys.executable, f"--kubeconfig={backend.kubeconfig}"
    token, ca = str(backend.settings.data_dir / "token"), str(backend.prepared.ca_file)
    quiet = ["--leader-elect=false", "--secure-port=0"]
    loop = [python, "-m", "bench.live.bindloop", backend.url, token, ca, NEW]
    found = {
        LOOP: (NOBODY, loop),
        TELLING: (NOBODY, [*loop, "events"]),
        BERTH: ("berth", [python, "-m", "berth", "scheduler", kubeconfig, *quiet]),
    }
    assets = assets_folder()
    if assets is not None and (assets / KUBE).exists():
        fast = ["--kube-api-qps=5000", "--kube-api-burst=5000"]
        found[KUBE] = ("default-scheduler", [str(assets / KUBE), kubeconfig, *quiet, *fast])
    return found


async def compete(
    backend: Backend, workload: Workload, size: Size, patience: float, rounds: int
) -> dict[str, Drain]:
    """What became of each contender's backlogs: of several rounds, in which they take turns, the best."""
    found: dict[str, list[Drain]] = {}
    async with open_session(backend.url, backend.prepared.token, backend.prepared.ca_file) as session:
        await fill(session, workload, size)
        for number in range(rounds):
            for name, contender in take_turns(contenders(backend), number):
                if workload.full and name in (LOOP, TELLING):
                    continue  # they would have to know whom to evict
                if name == KUBE and number:
                    continue  # it takes many times as long as the others
                log = backend.folder / f"{name.replace(' ', '-')}.log"
                await prepare_turn(session, workload, size, contender[0])
                await settle(session, backend.pid)
                result = await take_turn(session, workload, size, contender, log, patience=patience)
                found.setdefault(name, []).append(result)
                if len(result.times) < size.pending:
                    said = log.read_text(encoding="utf-8", errors="replace")[-600:]
                    print(
                        f"{workload.name}: {name} bound {len(result.times)} of {size.pending}: {said}",
                        file=sys.stderr,
                    )
    return {name: best(results) for name, results in found.items()}


@contextmanager
def server(*, real: bool) -> Iterator[Backend]:
    """An API server; kube-apiserver and etcd collect their garbage rarely, their clients as by default.

    A collection takes kube-apiserver as long as 500 to 1,500 bindings: otherwise a turn is judged by
    whether one falls into it.
    """
    os.environ.update(_RARE_COLLECTIONS)
    try:
        with running_backend(real=real) as backend:
            _collect_as_usual()
            yield backend
    finally:
        _collect_as_usual()


def _collect_as_usual() -> None:
    for name in _RARE_COLLECTIONS:
        os.environ.pop(name, None)


def take_turns(all_of_them: dict[str, _T], number: int) -> list[tuple[str, _T]]:
    """Another one begins each round: what a turn leaves behind is not always left to the same one."""
    order = list(all_of_them.items())
    first = number % len(order)
    return order[first:] + order[:first]


async def prepare_turn(session: Session, workload: Workload, size: Size, scheduler: str) -> None:
    """A backlog for one contender, and, where some have to go, all the running pods."""
    if workload.full:
        await session.delete_all(BACKLOG)
        await run(session, workload, size)
    await pile_up(session, workload, size.pending, scheduler)


async def take_turn(
    session: Session,
    workload: Workload,
    size: Size,
    contender: tuple[str, list[str]],
    log: Path,
    *,
    patience: float,
) -> Drain:
    """One contender against a backlog of its own."""
    scheduler, command = contender
    decides = scheduler != NOBODY
    writes_events = decides or "events" in command
    result = await drain(session, size.pending, command, log, patience=patience, writes_events=writes_events)
    result.broken = await broken_rules(session) if decides else 0
    if workload.full:
        await count_victims(session, workload, size.running, result)
    return result


def best(results: list[Drain]) -> Drain:
    """The fastest one, as whatever else the machine does only slows a turn down; but the worst mistakes."""
    fastest = max(results, key=lambda result: result.rate)
    fastest.broken = max(result.broken for result in results)
    fastest.guarded = max(result.guarded for result in results)
    fastest.events = min(result.events for result in results)
    return fastest


async def last(backend: Backend, workload: Workload, wanted: argparse.Namespace) -> list[Figure]:
    """Pods that keep coming, for `berth scheduler` alone."""
    size = soak.Soak(
        nodes=wanted.nodes, pods=wanted.pods, rate=wanted.rate, churn=wanted.churn, steady=wanted.steady
    )
    _, command = contenders(backend)[BERTH]
    async with open_session(backend.url, backend.prepared.token, backend.prepared.ca_file) as session:
        course = await soak.soak(session, workload, size, command, backend.folder / "berth.log")
    print("\n".join(soak.over_time(course)), file=sys.stderr, flush=True)
    return list(soak.figures(workload.name, size, course))


def figures(workload: Workload, size: Size, results: dict[str, Drain]) -> Iterable[Figure]:
    loop = results[LOOP].rate if LOOP in results else 0.0
    yardstick = 1e6 / loop if loop else None

    def figure(
        name: str, value: float, unit: str, limit: float | None = None, *, higher: bool = False
    ) -> Figure:
        better: Literal["higher", "lower"] = "higher" if higher else "lower"
        name = f"live {workload.name}, {name}"
        return Figure(name, size.nodes, size.running, value, unit, yardstick, limit, better)

    _, most_seconds, most_memory = next(limit for limit in _LIMITS if size.nodes <= limit[0])
    for name, result in results.items():
        ours = name == BERTH
        if not workload.full:
            yield figure(name, result.rate, "pods/s", higher=True)
            yield figure(f"{name}, CPU", result.cpu_per_pod, "ms/pod", _CPU_MS if ours else None)
        if name in (LOOP, TELLING):
            continue
        if workload.full:
            yield figure(f"{name}, start to last binding", result.whole, "s")
            yield figure(f"{name}, CPU from its start", result.use.cpu_seconds, "s")
            yield figure(f"{name}, victims", result.victims, "pods")
            yield figure(f"{name}, victims under a budget", result.guarded, "pods", 0 if ours else None)
        else:
            share = _SHARE if ours else None
            yield figure(f"{name} / {LOOP}", result.rate / loop, "ratio", share, higher=True)
            first = most_seconds if ours else None
            yield figure(f"{name}, start to first binding", result.first, "s", first)
        yield figure(f"{name}, memory", result.use.memory_mib, "MiB", most_memory if ours else None)
        yield figure(f"{name}, broken rules", result.broken, "rules", 0)
        yield figure(f"{name}, events", result.events, "events", size.pending if ours else None, higher=True)
    if TELLING in results:
        told = results[BERTH].rate / max(results[TELLING].rate, 1e-9)
        yield figure(f"{BERTH} / {TELLING}", told, "ratio", 1.0, higher=True)
    if KUBE in results:
        theirs, own = results[KUBE], results[BERTH]
        if workload.full:
            yield figure(
                f"{KUBE} / {BERTH}, start to last binding",
                theirs.whole / own.whole,
                "ratio",
                1.0,
                higher=True,
            )
        else:
            yield figure(f"{BERTH} / {KUBE}", own.rate / max(theirs.rate, 1e-9), "ratio", 1.0, higher=True)


def side_by_side(found: dict[str, dict[str, Drain]]) -> Iterable[str]:
    """All contenders in one table: pods a second, and milliseconds of CPU a pod."""
    names = [
        name for name in (LOOP, TELLING, BERTH, KUBE) if any(name in results for results in found.values())
    ]
    columns = ["workload", *names, f"{BERTH} / {LOOP}", f"{BERTH}, first binding"]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for workload, results in found.items():
        cells = [
            f"{result.rate:,.0f} · {result.cpu_per_pod:.2f} ms" if (result := results.get(name)) else ""
            for name in names
        ]
        own = results[BERTH]
        ratio = f"{own.rate / results[LOOP].rate:.2f}" if LOOP in results else ""
        yield f"| {' | '.join([workload, *cells, ratio, f'{own.first:.2f} s'])} |"


def arguments(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench live", description="Drain backlogs on an API server."
    )
    parser.add_argument(
        "workloads", nargs="*", metavar="WORKLOAD", help=f"of {', '.join(NAMES)} (all by default)"
    )
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--running", type=int, default=2_000)
    parser.add_argument("--pending", type=int, default=2_000)
    parser.add_argument(
        "--patience", type=float, default=300.0, help="seconds a contender gets for a backlog"
    )
    parser.add_argument(
        "--rounds", type=int, default=1, help="turns of each contender but kube-scheduler; the best is told"
    )
    parser.add_argument("--embedded", action="store_true", help="use the embedded server whatever there is")
    parser.add_argument(
        "--soak", action="store_true", help="no backlog: let pods come at a steady rate, and some go"
    )
    parser.add_argument("--pods", type=int, default=100_000, help="to create with --soak")
    parser.add_argument("--rate", type=float, default=300.0, help="pods a second with --soak")
    parser.add_argument("--churn", type=float, default=0.1, help="share of the pods deleted with --soak")
    parser.add_argument(
        "--steady", type=int, default=30_000, help="pods after them with --soak, while as many are deleted"
    )
    parsed = parser.parse_args(given)
    if parsed.rounds < 1:
        parser.error("--rounds must be at least 1")
    unknown = set(parsed.workloads) - set(NAMES)
    if unknown:
        parser.error(f"unknown workload {', '.join(sorted(unknown))}; there are {', '.join(NAMES)}")
    return parsed


def main(given: list[str]) -> int:
    wanted = arguments(given)
    real = assets_folder() is not None and not wanted.embedded
    by_name = workloads()
    found: list[Figure] = []
    drained: dict[str, dict[str, Drain]] = {}
    for name in wanted.workloads or (("mixed",) if wanted.soak else NAMES):
        with server(real=real) as backend:
            if wanted.soak:
                found += asyncio.run(last(backend, by_name[name], wanted))
                continue
            size = Size(wanted.nodes, wanted.running, wanted.pending)
            if by_name[name].full:
                size = Size(wanted.nodes, 4 * wanted.nodes, wanted.pending // 4)
            results = asyncio.run(compete(backend, by_name[name], size, wanted.patience, wanted.rounds))
        found += figures(by_name[name], size, results)
        if not by_name[name].full:
            drained[name] = results
        told = ", ".join(
            f"{contender} {result.told(full=by_name[name].full)}" for contender, result in results.items()
        )
        print(f"{name}: {told}", file=sys.stderr, flush=True)
    kind = "kube-apiserver and etcd" if real else "the embedded API server"
    print(f"\n{kind}, {os.cpu_count()} cores; the yardstick is one binding of the bind loop\n")
    print_table(found)
    if drained:
        print("", "pods/s · CPU a pod", "", *side_by_side(drained), sep="\n")
    merge_json(found, OUTPUT)
    missed = [one.name for one in found if one.met is False]
    print(f"\n{len(found)} figures in {OUTPUT}" + (f"; limits missed: {', '.join(missed)}" if missed else ""))
    return 1 if missed else 0
