"""Nodes that stop renewing their lease become NotReady and tainted; taints follow what nodes report.

Upstream: pkg/controller/nodelifecycle.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.controllers.actions import patch, status_report
from berth.kube.api_resources import LEASES, NODES, PODS
from berth.kube.objects import Condition, Key, Node, RawObject, Taint
from berth.kube.pods import is_ready
from berth.kube.taints import (
    CONDITION_OF,
    NOT_READY,
    PREFIX,
    condition_taints,
    is_node_ready,
    ready_condition,
)
from berth.kube.times import stamp
from berth.kube.well_known import DELETED, NODE_LEASE_NAMESPACE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller

GRACE = 40.0
UNSCHEDULABLE = f"{PREFIX}unschedulable"
_OURS = frozenset({UNSCHEDULABLE, *CONDITION_OF})
_STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")


class NodeLifecycle(Controller):
    """Tells by conditions and taints which nodes are ready and which are not heard of.

    Attributes:
        _heard: Node -> when its lease was last seen to change; clocks of nodes are not trusted.
    """

    name = "node-controller"
    watches = (NODES, LEASES, PODS)

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._heard: dict[str, float] = {}
        self._graces: dict[str, float] = {}
        self._news: set[str] = set()
        self._read = 0.0  # when news were last taken in

    def due(self) -> float | None:
        due = super().due()
        if not self._news:
            return due
        return self._read + 1.0 if due is None else min(due, self._read + 1.0)

    def handle(self, event: Event) -> None:
        if event.resource == LEASES:
            if event.key[0] == NODE_LEASE_NAMESPACE and event.change != DELETED:
                self._lease(event)
        elif event.resource == NODES:
            if event.change == DELETED:
                self._heard.pop(event.key[1], None)
                self.queue.forget(event.key)
            else:
                if event.old is not None and _heartbeat(event.old) != _heartbeat(event.object):
                    self._news.add(event.key[1])  # the kubelet spoke, if not through its lease
                self.queue.add(event.key)

    def _lease(self, event: Event) -> None:
        name = event.key[1]
        self._graces[name] = max(GRACE, float(event.object.spec.lease_duration_seconds or 0))
        self._news.add(name)

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
        if until > now:
            self.queue.add_at(key, until)
        elif not _is_unknown(node):
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
                conditions.append(
                    {
                        **msgspec.to_builtins(known),
                        "type": kind,
                        "status": "Unknown",
                        "reason": _STOPPED[0],
                        "message": _STOPPED[1],
                        "lastTransitionTime": stamp(now),
                    }
                )
        body = {"status": {"conditions": conditions}}
        yield status_report(NODES, node, body, "its lease is no longer renewed")

    def _pods_not_ready(self, key: Key, now: float) -> Iterator[Action]:
        entry = {
            "type": "Ready",
            "status": "False",
            "reason": "NodeNotReady",
            "lastTransitionTime": stamp(now),
        }
        body = {"status": {"conditions": [entry]}}
        for pod in self.cache.pods_on(key[1]):
            if is_ready(pod):
                yield status_report(PODS, pod, body, "its node is not ready", key=key)

    # --- taints -------------------------------------------------------------------------------------

    def _taint(self, node: Node, now: float) -> Iterator[Action]:
        given = (node.spec.taints if node.spec else None) or []
        wanted = set(_wanted(node))
        kept = [t for t in given if t.key not in _OURS or (t.key, t.effect) in wanted]
        known = {(t.key, t.effect) for t in kept}
        added = [
            Taint(key=key, effect=effect, time_added=stamp(now))
            for key, effect in sorted(wanted)
            if (key, effect) not in known
        ]
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
