"""Nodes that are being cleared for a pod: until it can go there, it counts as if it were there.

So nobody of the same or a lower rank takes the room that victims make.  A pod of a higher rank does not
see the reservations of lesser ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from berth.engine.state.cluster import pod_name
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Key, Pod
from berth.machines.mirror import Mirror


@dataclass(frozen=True, slots=True)
class Nomination:
    pod: Pod
    node: str
    priority: int


class Nominations:
    """The nodes that are being cleared, each counted as taken by its pod.

    Attributes:
        pods: By pod, what is held for it.
    """

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self.pods: dict[Key, Nomination] = {}

    def __bool__(self) -> bool:
        return bool(self.pods)

    def node_of(self, key: Key) -> str | None:
        held = self.pods.get(key)
        return held.node if held else None

    def hold(self, key: Key, pod: Pod, pod_class: PodClass, node: str) -> None:
        self.release(key)
        self.pods[key] = Nomination(pod, node, pod.spec.priority or 0)
        self._mirror.assume(pod, pod_class, node)

    def release(self, key: Key) -> bool:
        """Give the room up; False if there was none."""
        held = self.pods.pop(key, None)
        if held is not None:
            self._mirror.forget(key, held.pod)
        return held is not None

    def replaced(self, key: Key) -> None:
        """The pod itself now counts, on whatever node."""
        self.pods.pop(key, None)

    @contextmanager
    def as_seen_by(self, key: Key, priority: int) -> Iterator[None]:
        """The cluster with no reservation of the pod itself or of lesser ones."""
        unseen = [
            pod_name(held.pod)
            for owner, held in self.pods.items()
            if owner == key or held.priority < priority
        ]
        if not unseen:
            yield
            return
        cluster = self._mirror.cluster
        with cluster.without(*filter(cluster.has_pod, unseen)):
            yield

    @contextmanager
    def without_any(self) -> Iterator[None]:
        present = [pod_name(held.pod) for held in self.pods.values()]
        cluster = self._mirror.cluster
        with cluster.without(*filter(cluster.has_pod, present)):
            yield
