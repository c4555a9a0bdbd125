"""Counts what the pods of a namespace block, and corrects the quotas that name it.

The webhook charges a pod for the most that it could block; once it is seen, where it is decides. A quota is
only written to if nobody has written to it since, so no charge that came between is lost.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from berth.kube.amounts.resource_lists import difference, masked, spelled
from berth.kube.api_resources import NAMESPACES, NODES, PODS, RESOURCE_QUOTAS
from berth.kube.objects import Key, Namespace, Node, RawObject, ResourceQuota
from berth.kube.quota.charging import LASTS, is_about, limits_of, noted, pending_in, used_of
from berth.kube.quota.exclusive import (
    EXCLUSIVE_NAMES,
    LARGEST,
    BlockedNodes,
    ExclusiveDomains,
    Neighbours,
    exclusion_of,
)
from berth.kube.quota.usage import PODS as POD_QUOTA
from berth.kube.quota.usage import held_until, is_over
from berth.kube.well_known import DELETED, EXCLUSIVE_PENDING
from berth.machines.cache import Cache, take
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.requests import patch


class ExclusiveCharges(Controller):
    """Corrects what quotas say is used of the resources that pods block for others.

    Args:
        estimate: Which of its possible nodes a pod without a node is charged for.
        daemons: Namespaces whose pods run beside any pod.
    """

    name = "exclusive-charges"
    watches = (RESOURCE_QUOTAS, PODS, NODES, NAMESPACES)

    def __init__(self, cache: Cache, estimate: str = LARGEST, daemons: Collection[str] = ()) -> None:
        super().__init__(cache)
        self._domains = ExclusiveDomains(estimate, Neighbours(daemons))
        self._quotas: dict[str, dict[Key, None]] = {}  # that name what is exclusive, by namespace

    def handle(self, event: Event) -> None:
        namespace = event.key[0]
        if event.resource == RESOURCE_QUOTAS:
            take(self._quotas, namespace, event.key)
            limited = event.object.spec.hard or ()
            if event.change != DELETED and any(name in limited for name in EXCLUSIVE_NAMES):
                self._quotas.setdefault(namespace, {})[event.key] = None
                self.queue.add(event.key)
        elif event.resource in (NODES, NAMESPACES):
            look = _size if event.resource == NODES else attrgetter("metadata.labels")
            if event.old is None or event.change == DELETED or look(event.old) != look(event.object):
                for key in sorted(key for keys in self._quotas.values() for key in keys):
                    self.queue.add(key)
        elif namespace in self._quotas and any(
            pod is not None and exclusion_of(pod) is not None for pod in (event.object, event.old)
        ):
            for key in sorted(self._quotas[namespace]):
                self.queue.add(key)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        view = self.cache.get(RESOURCE_QUOTAS, key, ResourceQuota)
        if view is None or key not in self._quotas.get(key[0], ()):
            return
        quota: RawObject = msgspec.to_builtins(view)
        seen = self._counted(quota, key, now)
        pending = pending_in(quota, now)
        there = {pod.metadata.uid for pod in self.cache.pods_in(key[0])}
        left = {uid: each for uid, each in pending.items() if uid not in there}
        total = self._domains.cost(seen)
        for _, has in left.values():
            total = total.plus(has)
        yield from self._write(view, quota, total, noted(left))
        for since, _ in left.values():
            self.queue.add_at(key, since + LASTS)

    def _counted(self, quota: RawObject, key: Key, now: float) -> list[Any]:
        """What the pods of the quota that still count keep for themselves."""
        nodes = {node.metadata.name or "": node for node in self.cache.all(NODES, Node)}
        versions = {name: node.metadata.resource_version or "" for name, node in nodes.items()}
        self._domains.nodes.keep(versions, nodes.__getitem__)
        spaces = self.cache.all(NAMESPACES, Namespace)
        labels = {space.metadata.name or "": space.metadata.labels or {} for space in spaces}
        self._domains.neighbours.keep(labels)
        found = []
        for pod in self.cache.pods_in(key[0]):
            exclusion = exclusion_of(pod)
            if exclusion is None or is_over(pod, now) or not is_about(quota, POD_QUOTA, pod):
                continue
            found.append(exclusion)
            if (until := held_until(pod)) is not None:
                self.queue.add_at(key, until + 1)
        return found

    def _write(
        self, view: ResourceQuota, quota: RawObject, total: BlockedNodes, note: str | None
    ) -> Iterator[Action]:
        """A new status, unless it says so already or nobody has said what the quota limits."""
        names = [name for name in EXCLUSIVE_NAMES if name in limits_of(quota)]
        should, says = masked(total.amounts(), names), masked(used_of(quota), names)
        annotated = (quota["metadata"].get("annotations") or {}).get(EXCLUSIVE_PENDING)
        if not names or (should.keys() == says.keys() and not difference(should, says) and annotated == note):
            return
        body: RawObject = {"status": {"used": spelled(should)}}
        if annotated != note:
            body["metadata"] = {"annotations": {EXCLUSIVE_PENDING: note}}
        yield patch(RESOURCE_QUOTAS, view, body, "what pods keep for themselves", subresource="status")


def _size(node: Node) -> tuple[object, ...]:
    """The parts of a node that decide how much a pod on it can block."""
    allocatable = (node.status.allocatable if node.status else None) or {}
    taints = node.spec.taints if node.spec else None
    return node.metadata.labels, allocatable.get("cpu"), allocatable.get("memory"), taints
