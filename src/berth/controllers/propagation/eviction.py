"""Workloads leave clusters that get a taint they do not tolerate, and the traces of that go in time.

Upstream: pkg/controllers/cluster/taint_manager.go and pkg/controllers/gracefuleviction.  There a workload
counts as moved once it is healthy in its new place.  Here nothing runs in member clusters, so it is when
the scheduler has found the place, and a moment has passed for people to see it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from berth.kube.api_resources import CLUSTER_BINDINGS, CLUSTERS, RESOURCE_BINDINGS
from berth.kube.karmada import APPLIED_PLACEMENT, LiveBinding, MemberCluster, Placement
from berth.kube.objects import Key, RawObject, Taint, Toleration
from berth.kube.pods import true_condition
from berth.kube.propagation.bindings import binding_resource
from berth.kube.taints import NO_EXECUTE, tolerates
from berth.kube.times import seconds, stamp
from berth.kube.well_known import DELETED
from berth.machines.cache import Cache, take
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.recorder import NORMAL
from berth.machines.requests import patch

SETTLE = 5.0  # seconds a task is kept once the workload has its new place
TIMEOUT = 600.0  # seconds a task is kept if it never gets one, unless the task says otherwise


class ClusterEvictionController(Controller):
    """Takes workloads off clusters whose taints they do not tolerate; the queue holds keys of bindings."""

    name = "taint-manager"
    watches = (CLUSTERS, RESOURCE_BINDINGS, CLUSTER_BINDINGS)

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._on: dict[str, dict[Key, None]] = {}  # bindings by the clusters they are on

    def handle(self, event: Event) -> None:
        if event.resource == CLUSTERS:
            if event.change != DELETED and _expelling(event.object):
                for key in self._on.get(event.key[1], ()):
                    self.queue.add(key)
            return
        for seen in filter(None, (event.old, event.object)):
            for name in _targets(seen):
                take(self._on, name, event.key)
        if event.change == DELETED:
            self.queue.forget(event.key)
            return
        for name in _targets(event.object):
            self._on.setdefault(name, {})[event.key] = None
        if event.object.spec.get("gracefulEvictionTasks") or any(self._tainted(event.object)):
            self.queue.add(event.key)

    def _tainted(self, binding: LiveBinding) -> Iterator[tuple[str, list[Taint]]]:
        """The clusters of a binding that expel workloads."""
        for name in _targets(binding):
            cluster = self.cache.get(CLUSTERS, ("", name), MemberCluster)
            if cluster is not None and (taints := _expelling(cluster)):
                yield name, taints

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        resource = binding_resource(key)
        binding = self.cache.get(resource, key, LiveBinding)
        if binding is None or binding.metadata.deletion_timestamp:
            return
        tasks = binding.spec.get("gracefulEvictionTasks") or []
        kept, moved = self._assess(key, binding, tasks, now)
        expelled = self._expelled(key, binding, now)
        for name in moved:
            message = f"Evict from cluster {name} succeed."
            self.recorder.record(now, resource, binding, NORMAL, "EvictWorkloadFromClusterSucceed", message)
        kept += _new_tasks(binding, expelled, {task.get("fromCluster") for task in kept}, now)
        spec: RawObject = {}
        if kept != tasks:
            spec["gracefulEvictionTasks"] = kept or None
        if expelled:
            targets = binding.spec.get("clusters") or []
            spec["clusters"] = [target for target in targets if target.get("name") not in expelled]
        if spec:
            cause = f"evicted from {', '.join(expelled)}" if expelled else "the evicted workload has moved"
            yield patch(resource, binding, {"spec": spec}, cause)

    def _expelled(self, key: Key, binding: LiveBinding, now: float) -> list[str]:
        """The clusters a binding has to leave now; for those it may stay in for a while it comes back."""
        tolerations = _tolerations(binding)
        expelled = []
        for name, taints in self._tainted(binding):
            if not self.queue.put_off(key, _tolerated_until(tolerations, taints, now), now):
                expelled.append(name)
        return expelled

    def _assess(
        self, key: Key, binding: LiveBinding, tasks: list[RawObject], now: float
    ) -> tuple[list[RawObject], list[str]]:
        """The tasks that are still needed, and the clusters of the others."""
        kept, moved = [], []
        # Whether the scheduler has found a place for the binding as it is now.
        current = binding.status.scheduler_observed_generation == binding.metadata.generation
        placed = current and true_condition(binding.status.conditions, "Scheduled") is not None
        for task in tasks:
            if not task.get("creationTimestamp"):
                kept.append({**task, "creationTimestamp": stamp(now)})
                continue
            if self.queue.put_off(key, _done_at(task, placed=placed), now):
                kept.append(task)
            else:
                moved.append(task.get("fromCluster") or "")
        return kept, moved


def _expelling(cluster: MemberCluster) -> list[Taint]:
    return [taint for taint in cluster.spec.taints or () if taint.effect == NO_EXECUTE]


def _targets(binding: LiveBinding) -> list[str]:
    return [target.get("name") or "" for target in binding.spec.get("clusters") or ()]


def _tolerations(binding: LiveBinding) -> list[Toleration]:
    """Those of the placement the scheduler decided by, or of the present one if it left no word of that."""
    applied = (binding.metadata.annotations or {}).get(APPLIED_PLACEMENT)
    try:
        if applied:
            return msgspec.json.decode(applied, type=Placement).cluster_tolerations or []
        return msgspec.convert(binding.spec.get("placement") or {}, Placement).cluster_tolerations or []
    except (msgspec.ValidationError, msgspec.DecodeError):
        return []


def _tolerated_until(tolerations: Iterable[Toleration], taints: Iterable[Taint], now: float) -> float:
    """When the first taint is no longer tolerated; like upstream, the first toleration of each decides."""
    until = math.inf
    for taint in taints:
        used = next((t for t in tolerations if tolerates((t,), taint)), None)
        if used is None:
            return now
        if used.toleration_seconds is not None and taint.time_added:
            until = min(until, seconds(taint.time_added) + used.toleration_seconds)
    return until


def _new_tasks(
    binding: LiveBinding, expelled: list[str], known: set[str | None], now: float
) -> list[RawObject]:
    cluster = (binding.spec.get("failover") or {}).get("cluster") or {}
    replicas = {t.get("name"): t.get("replicas") for t in binding.spec.get("clusters") or ()}
    return [
        {
            "fromCluster": name,
            "purgeMode": cluster.get("purgeMode") or "Gracefully",
            "reason": "TaintUntolerated",
            "producer": "TaintManager",
            "creationTimestamp": stamp(now),
            **({"replicas": replicas[name]} if replicas[name] else {}),
        }
        for name in expelled
        if name not in known
    ]


def _done_at(task: RawObject, *, placed: bool) -> float:
    """When a task is over."""
    if task.get("suppressDeletion") is not None:
        return math.inf if task["suppressDeletion"] else -math.inf
    grace = task.get("gracePeriodSeconds")
    limit = TIMEOUT if grace is None else float(grace)
    return seconds(task["creationTimestamp"]) + (min(SETTLE, limit) if placed else limit)
