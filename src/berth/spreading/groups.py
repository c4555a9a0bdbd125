"""Which pods belong to which ReplicaSet, and whose order a change may alter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.engine.execution.removal_order import counted_selectors, has_order
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Key, Pod
from berth.kube.ownership import controller_of
from berth.kube.selectors import Selector

_MOST_KNOWN = 4096  # sets of labels whose groups are remembered


@dataclass(slots=True)
class SpreadReplicaSet:
    """A ReplicaSet whose pods are spread.

    Attributes:
        pods: Those on nodes, in the order in which they were seen.
        selectors: Of what its constraints count, in its own namespace.
    """

    key: Key
    uid: str
    pods: dict[Key, None] = field(default_factory=dict)
    selectors: tuple[Selector, ...] = ()

    def concerns(self, namespace: str, labels: Mapping[str, str]) -> bool:
        return namespace == self.key[0] and any(selector.matches(labels) for selector in self.selectors)


class SpreadGroups:
    """The groups, by the key of their ReplicaSet."""

    def __init__(self) -> None:
        self.by_key: dict[Key, SpreadReplicaSet] = {}
        self._of_pod: dict[Key, Key] = {}
        self._concerned: dict[tuple[str, frozenset[tuple[str, str]]], tuple[Key, ...]] = {}

    def put(self, key: Key, pod: Pod, pod_class: PodClass) -> None:
        """A pod is on a node."""
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != "ReplicaSet" or not has_order(pod_class):
            self.drop(key)
            return
        group_key = (key[0], owner.name or "")
        group = self.by_key.get(group_key)
        if group is None or group.uid != owner.uid:
            group = self.by_key[group_key] = SpreadReplicaSet(
                group_key, owner.uid or "", selectors=counted_selectors(pod_class)
            )
            self._concerned.clear()
        group.pods[key] = None
        self._of_pod[key] = group_key

    def drop(self, key: Key) -> None:
        """A pod is no longer on a node."""
        group_key = self._of_pod.pop(key, None)
        group = self.by_key.get(group_key) if group_key is not None else None
        if group is None:
            return
        group.pods.pop(key, None)
        if not group.pods:
            del self.by_key[group.key]
            self._concerned.clear()

    def of(self, pod: Key) -> SpreadReplicaSet | None:
        """The group of a pod."""
        key = self._of_pod.get(pod)
        return self.by_key.get(key) if key is not None else None

    def concerned(self, namespace: str, labels: Mapping[str, str]) -> tuple[Key, ...]:
        """The groups whose constraints count pods with these labels."""
        known = (namespace, frozenset(labels.items()))
        found = self._concerned.get(known)
        if found is None:
            if len(self._concerned) >= _MOST_KNOWN:
                self._concerned.clear()
            found = tuple(key for key, group in self.by_key.items() if group.concerns(namespace, labels))
            self._concerned[known] = found
        return found
