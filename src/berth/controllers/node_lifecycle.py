"""Nodes that stop renewing their lease become NotReady and tainted, and NoExecute taints drive pods away.

Upstream: pkg/controller/nodelifecycle, tainteviction and podgc.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.kube.api_resources import LEASES, NODES, PODS
from berth.kube.objects import Condition, Key, LivePod, Node, RawObject, Taint
from berth.kube.pods import is_finished, is_ready, is_terminating, pod_condition
from berth.kube.taints import (
    CONDITION_OF,
    NOT_READY,
    PREFIX,
    condition_taints,
    evicted_at,
    is_node_ready,
    ready_condition,
    taints_of,
)
from berth.kube.times import stamp
from berth.kube.well_known import DELETED, DISRUPTION_TARGET, NODE_LEASE_NAMESPACE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.rates import earliest
from berth.machines.recorder import NORMAL
from berth.machines.requests import delete, new_condition, patch, status_report

GRACE = 40.0
UNSCHEDULABLE = f"{PREFIX}unschedulable"
_OURS = frozenset({UNSCHEDULABLE, *CONDITION_OF})
_STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


class NodeLifecycle(Controller):
    """Says by conditions and taints which nodes are ready and which are not heard of; it removes no pod."""

    name = "node-controller"
    watches = (NODES, LEASES, PODS)

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._heard: dict[str, float] = {}  # when leases were last seen to change: nodes' clocks may be wrong
        self._graces: dict[str, float] = {}
        self._news: set[str] = set()
        self._read = 0.0  # when news were last taken in

    def due(self) -> float | None:
        return earliest(super().due(), self._read + 1.0 if self._news else None)

    def handle(self, event: Event) -> None:
        if event.resource == LEASES:
            if event.key[0] == NODE_LEASE_NAMESPACE and event.change != DELETED:
                self._graces[event.key[1]] = max(GRACE, float(event.object.spec.lease_duration_seconds or 0))
                self._news.add(event.key[1])
        elif event.resource == NODES:
            if event.change == DELETED:
                self._heard.pop(event.key[1], None)
                self.queue.forget(event.key)
            else:
                if event.old is not None and _heartbeat(event.old) != _heartbeat(event.object):
                    self._news.add(event.key[1])  # the kubelet spoke, if not through its lease
                self.queue.add(event.key)

    def reconcile(self, now: float) -> list[Action]:
        self._read = now
        for name in self._news:
            self._heard[name] = now
            node = self.cache.get(NODES, ("", name), Node)
            if node is not None and not is_node_ready(node):
                self.queue.add(("", name))
        self._news.clear()
        return super().reconcile(now)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        node = self.cache.get(NODES, key, Node)
        if node is None:
            return
        until = self._heard.setdefault(key[1], now) + self._graces.get(key[1], GRACE)
        if not self.queue.put_off(key, until, now) and not _is_unknown(node):
            yield from self._lose(node, now)
            return
        yield from self._taint(node, now)
        if not is_node_ready(node):
            yield from self._pods_not_ready(key, now)

    # --- conditions ---------------------------------------------------------------------------------

    def _lose(self, node: Node, now: float) -> Iterator[Action]:
        given = {c.type: c for c in (node.status.conditions if node.status else None) or ()}
        conditions: list[RawObject] = []
        for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
            known = given.get(kind, Condition(type=kind))
            if known.status != "Unknown":
                reason, message = _STOPPED
                lost = new_condition(kind, "Unknown", reason, message, now)
                conditions.append({**msgspec.to_builtins(known), **lost})
        yield status_report(NODES, node, {"conditions": conditions}, "its lease is no longer renewed")

    def _pods_not_ready(self, key: Key, now: float) -> Iterator[Action]:
        entry = {"type": "Ready", "status": "False", "reason": "NodeNotReady"}
        status = {"conditions": [{**entry, "lastTransitionTime": stamp(now)}]}
        for pod in self.cache.pods_on(key[1]):
            if is_ready(pod):
                yield status_report(PODS, pod, status, "its node is not ready", key=key)

    # --- taints -------------------------------------------------------------------------------------

    def _taint(self, node: Node, now: float) -> Iterator[Action]:
        given = taints_of(node)
        wanted = set(_wanted(node))
        kept = [t for t in given if t.key not in _OURS or (t.key, t.effect) in wanted]
        known = {(t.key, t.effect) for t in kept}
        new = sorted(wanted - known)
        added = [Taint(key=key, effect=effect, time_added=stamp(now)) for key, effect in new]
        if added or len(kept) != len(given):
            taints = msgspec.to_builtins([*kept, *added])
            yield patch(NODES, node, {"spec": {"taints": taints or None}}, "taints follow conditions")


def _wanted(node: Node) -> Iterator[tuple[str, str]]:
    """The taints a node should have for what it reports."""
    yield from condition_taints(node)
    if ready_condition(node) is None:
        yield NOT_READY, "NoSchedule"  # nobody has reported yet; upstream's admission sees to it
    if node.spec and node.spec.unschedulable:
        yield UNSCHEDULABLE, "NoSchedule"


def _is_unknown(node: Node) -> bool:
    ready = ready_condition(node)
    return ready is not None and ready.status == "Unknown"


def _heartbeat(node: Node) -> str | None:
    ready = ready_condition(node)
    return ready.last_heartbeat_time if ready is not None else None


# --- NoExecute taints -----------------------------------------------------------------------------

# A node may be on its way: pods without one are given this long.
ORPHAN_GRACE = 20.0


class TaintEviction(Controller):
    """Removes pods whose toleration of a taint runs out, or who have none, and those whose node is gone."""

    name = "taint-eviction-controller"
    watches = (PODS, NODES)

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._lost: dict[Key, float] = {}  # since when pods have been without their node

    def handle(self, event: Event) -> None:
        if event.resource == PODS:
            if event.change == DELETED:
                self.queue.forget(event.key)
                self._lost.pop(event.key, None)
            elif event.object.spec.node_name:
                self.queue.add(event.key)
            return
        old, new = event.old, event.object
        if event.change == DELETED or old is None or old.spec != new.spec:
            for pod in self.cache.pods_on(event.key[1]):
                self.queue.add((pod.metadata.namespace or "", pod.metadata.name or ""))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        pod = self.cache.get(PODS, key, LivePod)
        if pod is None or not pod.spec.node_name:
            return
        node = self.cache.get(NODES, ("", pod.spec.node_name), Node)
        if node is None:
            yield from self._orphan(key, pod, now)
            return
        self._lost.pop(key, None)
        if is_terminating(pod) or is_finished(pod):
            return
        due = evicted_at(pod, node, now)
        if due is None or self.queue.put_off(key, due, now):
            return
        message = "Taint manager: deleting due to NoExecute taint"
        yield from self._remove(key, pod, "DeletionByTaintManager", message, now)
        message = f"Marking for deletion Pod {key[0]}/{key[1]}"
        self.recorder.record(now, PODS, pod, NORMAL, "TaintManagerEviction", message)

    def _orphan(self, key: Key, pod: LivePod, now: float) -> Iterator[Action]:
        if self.queue.put_off(key, self._lost.setdefault(key, now) + ORPHAN_GRACE, now):
            return
        yield from self._remove(key, pod, "DeletionByPodGC", "PodGC: node no longer exists", now, grace=0)

    def _remove(
        self, key: Key, pod: LivePod, reason: str, message: str, now: float, grace: int | None = None
    ) -> Iterator[Action]:
        target = pod_condition(pod, DISRUPTION_TARGET)
        if (target is None or target.reason != reason) and not is_finished(pod):
            entry = new_condition(DISRUPTION_TARGET, "True", reason, message, now)
            yield status_report(PODS, pod, {"conditions": [entry]}, message)
            self.queue.add_at(key, now)
            return
        yield delete(PODS, pod, message, grace=grace)
