"""NoExecute taints: pods that do not tolerate them go, at once or when their toleration runs out.

Also removes pods that were left on a node that no longer exists.
Upstream: pkg/controller/tainteviction and podgc.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.controllers.actions import delete, status_report
from berth.kube.api_resources import NODES, PODS
from berth.kube.objects import Key, LivePod, Node, Taint
from berth.kube.pods import is_finished, is_terminating, pod_condition
from berth.kube.taints import tolerates
from berth.kube.times import seconds, stamp
from berth.kube.well_known import DELETED
from berth.machines.cache import Cache
from berth.machines.contract import Action, Event
from berth.machines.controller import Controller
from berth.machines.recorder import NORMAL

# A node may be on its way: pods without one are given this long.
ORPHAN_GRACE = 20.0


class TaintEviction(Controller):
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
        if due is None:
            return
        if due > now:
            self.queue.add_at(key, due)
            return
        message = "Taint manager: deleting due to NoExecute taint"
        yield from self._remove(key, pod, "DeletionByTaintManager", message, now)
        self.recorder.record(
            now, PODS, pod, NORMAL, "TaintManagerEviction", f"Marking for deletion Pod {key[0]}/{key[1]}"
        )

    def _orphan(self, key: Key, pod: LivePod, now: float) -> Iterator[Action]:
        until = self._lost.setdefault(key, now) + ORPHAN_GRACE
        if until > now:
            self.queue.add_at(key, until)
            return
        yield from self._remove(key, pod, "DeletionByPodGC", "PodGC: node no longer exists", now, grace=0)

    def _remove(
        self, key: Key, pod: LivePod, reason: str, message: str, now: float, grace: int | None = None
    ) -> Iterator[Action]:
        target = pod_condition(pod, "DisruptionTarget")
        if (target is None or target.reason != reason) and not is_finished(pod):
            yield self._mark(pod, reason, message, now)
            self.queue.add_at(key, now)
            return
        yield delete(PODS, pod, message, grace=grace)

    @staticmethod
    def _mark(pod: LivePod, reason: str, message: str, now: float) -> Action:
        entry = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": stamp(now),
        }
        return status_report(PODS, pod, {"status": {"conditions": [entry]}}, message)


def evicted_at(pod: LivePod, node: Node, now: float) -> float | None:
    """When the node's taints drive the pod away; None if they do not."""
    taints = [t for t in (node.spec.taints if node.spec else None) or () if t.effect == "NoExecute"]
    due: float | None = None
    for taint in taints:
        when = _tolerated_until(pod, taint, now)
        if when is not None and (due is None or when < due):
            due = when
    return due


def _tolerated_until(pod: LivePod, taint: Taint, now: float) -> float | None:
    """Until when the pod may stay; None for ever."""
    matching = [t for t in pod.spec.tolerations or () if tolerates((t,), taint)]
    if not matching:
        return now
    limits = [t.toleration_seconds for t in matching]
    bounded = [limit for limit in limits if limit is not None]
    if not bounded:
        return None
    since = seconds(taint.time_added) if taint.time_added else now
    return since + max(min(bounded), 0)
