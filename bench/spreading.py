"""Keeping groups spread: how soon a scale-down is ranked, what a zone that comes costs, and being idle."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from bench.eviction import node_view
from bench.report import Figure
from bench.workloads import ZONE, pod_manifest
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.engine.state.options import Options
from berth.eviction import AffinityEviction, EvictionSettings
from berth.kube.api_resources import DEPLOYMENTS, NODES, PODS, REPLICA_SETS, Resource
from berth.kube.gates import DEFAULT_GATES
from berth.kube.objects import LivePod, LiveWorkload
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.machines.cache import Cache
from berth.machines.contract import Event, Outcome
from berth.spreading import SpreadController, SpreadingSettings

COUNT, WORKLOADS, EACH = 500, 500, 20
RUNNING = WORKLOADS * EACH
_ZONES, _IDLE, _BEATS = 3, 60, 10  # seconds, and seconds between the heartbeats of a node
_NAMESPACE = "default"


def measure() -> Iterable[Figure]:
    machines = Machines()
    machines.fill()
    first = machines.work()
    yield Figure("all workloads are ranked, at the start", COUNT, RUNNING, first, "s")
    down = min(machines.scale_down(number) for number in range(5))
    yield Figure("a scale-down is ranked", COUNT, RUNNING, down, "s", None, 1.0)
    yield Figure("idle, with heartbeats", COUNT, RUNNING, machines.idle(), "% of a core", None, 2.0)
    yield Figure("a node comes: all are looked at again", COUNT, RUNNING, machines.node_comes(0), "s")
    yield Figure("a zone comes: 500 plans are made", COUNT, RUNNING, machines.node_comes(_ZONES), "s")


class Machines:
    """The eviction machine, whose mirror is used, and the one that is measured; all may be moved."""

    def __init__(self) -> None:
        options = Options(gates=replace(DEFAULT_GATES, keep_spread=True))
        self._cache = Cache()
        self._eviction = AffinityEviction(self._cache, EvictionSettings(options=options))
        settings = SpreadingSettings(
            options=options, rebalance=Rebalance(policy=RebalancePolicy.SOFT), rebalance_delay=0.0
        )
        self._keeping = SpreadController(self._cache, self._eviction.state.mirror, settings)
        self._eviction.follow(self._keeping.rebalancer)
        self._pods: dict[str, LivePod] = {}
        self._now = 1000.0
        self._written = 0

    def hear(self, resource: Resource, change: str, new: Any, old: Any = None) -> None:  # noqa: ANN401 - a view
        event = Event(resource, change, new, old)
        self._cache.handle(event)
        for machine in (self._eviction, self._keeping):
            if resource in machine.watches:
                machine.handle(event)

    def fill(self) -> None:
        for number in range(COUNT):
            self.hear(NODES, ADDED, node_view(f"node-{number}", number % _ZONES, {}))
        for workload in range(WORKLOADS):
            name = f"app-{workload}"
            owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name, "uid": name}
            meta = {"namespace": _NAMESPACE, "name": name, "uid": name}
            self.hear(DEPLOYMENTS, ADDED, _workload({"metadata": meta, "spec": {"replicas": EACH}}))
            meta = {"namespace": _NAMESPACE, "name": f"{name}-1", "uid": f"{name}-1"}
            references = {"ownerReferences": [{**owner, "controller": True}]}
            self.hear(
                REPLICA_SETS,
                ADDED,
                _workload({"metadata": {**meta, **references}, "spec": {"replicas": EACH}}),
            )
            for number in range(EACH):
                self._add(workload, number)

    def _add(self, workload: int, number: int) -> None:
        app = f"app-{workload}"
        constraint = {
            "maxSkew": 1,
            "topologyKey": ZONE,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": app}},
        }
        node = f"node-{(workload * EACH + number) % COUNT}"
        spec = {"nodeName": node, "topologySpreadConstraints": [constraint]}
        raw = pod_manifest(f"{app}-{number}", _NAMESPACE, ({"app": app}, spec))
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"{app}-1", "uid": f"{app}-1"}
        raw["metadata"].update(uid=f"{app}-{number}", ownerReferences=[{**owner, "controller": True}])
        raw["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pod = self._pods[f"{app}-{number}"] = msgspec.convert(raw, LivePod)
        self.hear(PODS, ADDED, pod)

    def work(self) -> float:
        """Let them work until nothing is due soon, every write done at once; how long that took."""
        start = time.perf_counter()
        while True:
            self._eviction.reconcile(self._now)
            actions = self._keeping.reconcile(self._now)
            self._written += len(actions)
            for action in actions:
                self._keeping.done(action, Outcome(self._now))
            due = self._keeping.due()
            if due is not None and due <= self._now + 1:
                self._now = max(self._now, due)
            elif not actions:
                return time.perf_counter() - start

    def scale_down(self, workload: int) -> float:
        """Half of a workload's pods go."""
        for number in range(EACH // 2):
            pod = self._pods[f"app-{workload}-{number}"]
            self.hear(PODS, DELETED, pod, pod)
        before, took = self._written, self.work()
        if self._written - before < EACH // 2:
            raise SystemExit(f"only {self._written - before} costs were written")
        return took

    def idle(self) -> float:
        """The share of a core that the heartbeats of all nodes take."""
        nodes = [node_view(f"node-{number}", number % _ZONES, {}) for number in range(COUNT)]
        start = time.process_time()
        for _ in range(_IDLE // _BEATS):
            for node in nodes:
                self.hear(NODES, MODIFIED, node, node)
                self.work()
        return (time.process_time() - start) / _IDLE * 100

    def node_comes(self, zone: int) -> float:
        self.hear(NODES, ADDED, node_view(f"new-{zone}", zone, {}))
        return self.work()


def _workload(raw: dict[str, Any]) -> LiveWorkload:
    return msgspec.convert(raw, LiveWorkload)
