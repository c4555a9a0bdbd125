"""Placing workloads on clusters: what one decision costs, whether it grows with the bindings, and the index.

Half of the bindings own terms: a quarter are in anti-affinity groups of Karmada's form, a quarter have
terms of the proposal, and the groups are small and many, as duplicates of pipelines are.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from bench.report import Figure
from berth.fleet.placement.fleet import Fleet
from berth.kube.karmada import Binding, MemberCluster
from berth.live.component.memory import keep_many_objects

CLUSTERS, FEW, MANY = 1_000, 10_000, 100_000
_NAMESPACES, _GROUP, _KINDS = 100, 8, 4
_BATCH, _BATCHES = 40, 15
_LIMIT_MS, _LIMIT_RATIO, _LIMIT_SECONDS, _LIMIT_GIB = 2.0, 1.2, 15.0, 1.0
_KEY = "karmada.io/group"

Raw = dict[str, Any]


def cluster(number: int) -> Raw:
    return {
        "metadata": {"name": f"member-{number:04d}", "labels": {"tier": "gold" if number % 3 else "silver"}},
        "spec": {
            "provider": f"provider-{number % 4}",
            "region": f"region-{number % 20}",
            "zones": [f"zone-{number % 60}"],
        },
        "status": {
            "apiEnablements": [
                {"groupVersion": "apps/v1", "resources": [{"kind": "Deployment", "name": "deployments"}]}
            ],
            "resourceSummary": {
                "allocatable": {"cpu": "1000", "memory": "4000Gi", "pods": "10000"},
                "allocated": {"cpu": str(100 + number % 50), "memory": "100Gi", "pods": "500"},
            },
        },
    }


def _placement(most: int | None, *, field: str = "cluster", divided: bool = True) -> Raw:
    placement: Raw = {}
    if divided:
        placement["replicaScheduling"] = {
            "replicaSchedulingType": "Divided",
            "replicaDivisionPreference": "Weighted",
            "weightPreference": {"dynamicWeight": "AvailableReplicas"},
        }
    if most is not None:
        constraints = [{"spreadByField": "cluster", "minGroups": 1, "maxGroups": most}]
        if field != "cluster":
            constraints.append({"spreadByField": field, "minGroups": 1, "maxGroups": 2})
        placement["spreadConstraints"] = constraints
    return placement


SHAPES: dict[str, Callable[[], Raw]] = {
    "duplicated on 1 cluster": lambda: _placement(1, divided=False),
    "divided over 3 clusters": lambda: _placement(3),
    "divided over all clusters": lambda: _placement(None),
    "divided over 2 regions": lambda: _placement(4, field="region"),
}


def binding(number: int, placement: Raw, *, placed: bool) -> Raw:
    """The number decides what the workload is: plain, of a group, or with a term; eight belong together."""
    namespace, group = f"team-{number // _GROUP % _NAMESPACES}", f"g{number // _GROUP}"
    spec: Raw = {
        "resource": {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "namespace": namespace,
            "name": f"app-{number}",
            "uid": f"uid-{number}",
        },
        "replicas": 6,
        "replicaRequirements": {"resourceRequest": {"cpu": "500m", "memory": "1Gi"}},
        "placement": placement,
    }
    kind = number % _KINDS
    term = {"labelSelector": {"matchLabels": {"app.tier": "prod"}}, "matchLabelKeys": [_KEY]}
    if kind == 0:
        placement["workloadAffinity"] = {"antiAffinity": {"groupByLabelKey": _KEY}}
        spec["workloadAffinityGroups"] = {"antiAffinityGroup": f"{_KEY}={group}"}
    elif kind == 1:
        rule = "workloadAntiAffinity" if number // _GROUP % 2 else "workloadAffinity"
        placement[rule] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    if placed:
        first = number * 7919 % CLUSTERS
        spec["clusters"] = [
            {"name": f"member-{first:04d}", "replicas": 4},
            {"name": f"member-{(first + 137) % CLUSTERS:04d}", "replicas": 2},
        ]
    return {
        "metadata": {
            "name": f"app-{number}-deployment",
            "namespace": namespace,
            "labels": {"app": f"app-{number}", "app.tier": "prod", _KEY: group},
        },
        "spec": spec,
    }


def filled(count: int) -> tuple[Fleet, float]:
    """A fleet with so many bindings, from JSON, and the seconds that took."""
    wire = [msgspec.json.encode(cluster(number)) for number in range(CLUSTERS)]
    clusters, bindings = msgspec.json.Decoder(MemberCluster), msgspec.json.Decoder(Binding)
    fleet = Fleet()
    keep_many_objects()  # as the component does
    start = time.perf_counter()
    for raw in wire:
        fleet.clusters.set(clusters.decode(raw))
    seconds = time.perf_counter() - start
    for chunk in _chunks(count):
        start = time.perf_counter()
        for raw in chunk:
            made = bindings.decode(raw)
            fleet.set_binding((made.metadata.namespace or "", made.metadata.name or ""), made)
        seconds += time.perf_counter() - start
    return fleet, seconds


def _chunks(count: int, size: int = 10_000) -> Iterator[list[bytes]]:
    for start in range(0, count, size):
        numbers = range(start, min(start + size, count))
        yield [msgspec.json.encode(binding(n, _placement(2), placed=True)) for n in numbers]


class Placing:
    """Places newcomers one after the other, each counting for the next."""

    def __init__(self, count: int) -> None:
        self.fleet, _ = filled(count)
        self._next = count

    def batch_ms(self, placement: Callable[[], Raw]) -> float:
        """Milliseconds to take one binding in, decide about it and count it where it goes."""
        newcomers = [
            msgspec.convert(binding(self._next + i, placement(), placed=False), Binding)
            for i in range(_BATCH)
        ]
        self._next += _BATCH
        start = time.perf_counter()
        for made in newcomers:
            key = (made.metadata.namespace or "", made.metadata.name or "")
            self.fleet.set_binding(key, made)
            decision = self.fleet.decide(key)
            if decision.error is not None:
                raise SystemExit(f"{made.metadata.name}: {decision.error}")
            self.fleet.set_binding(key, replace(made, spec=replace(made.spec, clusters=decision.targets)))
        return (time.perf_counter() - start) / _BATCH * 1e3


def measure() -> Iterable[Figure]:
    few, many = Placing(FEW), Placing(MANY)
    ratios = []
    for name, shape in SHAPES.items():
        times: dict[Placing, list[float]] = {few: [], many: []}
        for _ in range(_BATCHES):
            for placing, taken in times.items():
                taken.append(placing.batch_ms(shape))
        cost = {placing: statistics.median(taken) for placing, taken in times.items()}
        ratios.append(cost[many] / cost[few])
        yield Figure(f"place a binding: {name}", CLUSTERS, MANY, cost[many], "ms", None, _LIMIT_MS)
    del few, many
    ratio = statistics.median(ratios)
    yield Figure("place a binding, 10x bindings", CLUSTERS, MANY, ratio, "ratio", None, _LIMIT_RATIO)
    done = subprocess.run([sys.executable, "-m", "bench.fleet"], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    yield Figure("index of bindings from JSON", CLUSTERS, MANY, found["seconds"], "s", None, _LIMIT_SECONDS)
    yield Figure("memory with that index", CLUSTERS, MANY, found["gib"], "GiB", None, _LIMIT_GIB)


def main() -> None:
    fleet, seconds = filled(MANY)
    if len(fleet.index) != MANY:
        raise SystemExit(f"only {len(fleet.index)} of {MANY} bindings are in the index")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "gib": peak / 2**30}))


if __name__ == "__main__":
    main()
