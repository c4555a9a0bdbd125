"""Placing pods: what one placement costs, and whether it grows with what runs."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from bench.report import Figure
from bench.workloads import (
    APPS,
    BASIC,
    DIFFERENT,
    MIXED,
    WORKLOADS,
    Workload,
    make_node,
    make_pod,
    required,
    spread,
)
from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster
from berth.kube.objects import Pod
from berth.live.component.memory import keep_many_objects

SIZES = ((500, 1_000), (5_000, 2_000), (100_000, 100_000))
WARM_UP = 100
Progress = Callable[[str], None]


def yardstick(nodes: int) -> float:
    """Microseconds of one gather over so many nodes: a table by zone, looked up for each node."""
    table = np.arange(8, dtype=np.int64)
    domain = np.random.default_rng(0).integers(0, len(table), nodes)
    rounds = max(20, 200_000 // nodes)

    def once() -> float:
        start = time.perf_counter()
        for _ in range(rounds):
            table[domain]
        return (time.perf_counter() - start) / rounds * 1e6

    return min(once() for _ in range(7))


def limit_us(nodes: int, gather: float) -> float:
    """The most a placement may cost, in microseconds."""
    return 25 * gather + 60 if nodes <= 5_000 else 10 * gather + 100


def build(workload: Workload, nodes: int, running: int) -> Cluster:
    cluster = Cluster(expected_nodes=nodes)
    for i in range(nodes):
        cluster.add_node(make_node(i, workload.zones))
    classes = [cluster.class_of(make_pod("run", "run", workload.running(i))) for i in range(APPS)]
    for i in range(running):
        cluster.assume(f"run/run-{i}", classes[i % APPS], f"node-{i * workload.stride % nodes:06d}")
    return cluster


def pending(workload: Workload, count: int) -> list[Pod]:
    return [make_pod(f"new-{i}", "new", workload.pending(i)) for i in range(count)]


def place(cluster: Cluster, pods: Sequence[Pod]) -> int:
    """Place pods one after the other, each counted before the next; returns how many found a node."""
    placed = 0
    for pod in pods:
        pod_class = cluster.class_of(pod)
        slot = plan_for(cluster, pod_class).choose()
        if slot is not None:
            cluster.assume(f"new/{pod.metadata.name}", pod_class, cluster.nodes.names[slot] or "")
            placed += 1
    return placed


def cost_us(workload: Workload, nodes: int, running: int, count: int) -> float:
    """Microseconds a placement takes once the classes are known: the best of a few batches."""
    keep_many_objects()  # as every component does
    cluster = build(workload, nodes, running)
    batch = min(count // 5, nodes // 20)
    warm_up = min(WARM_UP, nodes // 10)
    pods = pending(workload, warm_up + 5 * batch)
    place(cluster, pods[:warm_up])
    gc.collect()
    costs = []
    for start in range(warm_up, len(pods), batch):
        begin = time.perf_counter()
        placed = place(cluster, pods[start : start + batch])
        costs.append((time.perf_counter() - begin) / batch * 1e6)
        if placed != batch:
            raise SystemExit(
                f"{workload.name}: only {placed} of {batch} pods fit; the figure would mean nothing"
            )
    return min(costs)


def placements(sizes: Iterable[tuple[int, int]], progress: Progress) -> Iterable[Figure]:
    for nodes, running in sizes:
        count = 1_000 if nodes <= 5_000 else 300
        rates: dict[str, float] = {}
        for workload in (*WORKLOADS, DIFFERENT):
            progress(f"{workload.name} on {nodes:,} nodes")
            gather = yardstick(nodes)
            cost = cost_us(workload, nodes, running, count)
            gather = min(gather, yardstick(nodes))
            rates[workload.name] = 1e6 / cost
            limit = None if nodes == 500 else 1e6 / limit_us(nodes, gather)
            if workload is DIFFERENT:
                # A pod that nobody knows yet costs more: at most four times that of known ones.
                limit = rates[MIXED.name] / 4 if nodes == 5_000 else None
            yield Figure(workload.name, nodes, running, 1e6 / cost, "placements/s", gather, limit, "higher")


def _cost_of(workload: Workload, nodes: int, running: int, count: int) -> Callable[[], float]:
    return lambda: cost_us(workload, nodes, running, count)


def growth(progress: Progress) -> Iterable[Figure]:
    """Ten times as many running pods, the same cost."""
    nodes, running = 5_000, 10_000
    for workload in WORKLOADS:
        progress(f"growth of {workload.name}")
        few, many = _interleaved(
            _cost_of(workload, nodes, running, 500), _cost_of(workload, nodes, 10 * running, 500)
        )
        yield Figure(f"{workload.name}, 10x running", nodes, 10 * running, many / few, "ratio", None, 1.2)


def no_tax(progress: Progress) -> Iterable[Figure]:
    """Pods without affinity do not pay for 10,000 running pods that have terms and constraints."""
    progress("basic beside pods with affinity")
    labels = {"app": "other"}
    rules = {
        "affinity": required("podAffinity", "topology.kubernetes.io/zone", labels)
        | required("podAntiAffinity", "kubernetes.io/hostname", {"app": "nobody"}),
        **spread("DoNotSchedule", labels),
    }
    burdened = Workload("basic beside affinity", BASIC.pending, lambda _: (labels, rules))
    plain, beside = _interleaved(
        _cost_of(BASIC, 5_000, 10_000, 1_000), _cost_of(burdened, 5_000, 10_000, 1_000)
    )
    yield Figure("basic beside affinity", 5_000, 10_000, beside / plain, "ratio", None, 1.1)


def _interleaved(
    first: Callable[[], float], second: Callable[[], float], rounds: int = 3
) -> tuple[float, float]:
    """The best of each of two measurements, taken in turn so that a slow moment hits both."""
    pairs = [(first(), second()) for _ in range(rounds)]
    return min(a for a, _ in pairs), min(b for _, b in pairs)
