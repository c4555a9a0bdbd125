"""Pods that are placed together or not at all.

A group is named by a pod's `spec.schedulingGroup.podGroupName` or by the label
`scheduling.x-k8s.io/pod-group`; how many of its pods make it worth while is in its PodGroup object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from berth.kube.api_resources import LABELLED_POD_GROUPS, POD_GROUPS
from berth.kube.objects import Key, Pod, PodGroup
from berth.kube.well_known import DELETED
from berth.machines.contract import Event
from berth.scheduler.queued_pod import GroupKey, QueuedPod

GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


@dataclass(slots=True, eq=False)
class Group:
    """Pods that are placed together.

    Attributes:
        known: Its PodGroup object was seen.
        minimum: How many pods must have a node for any to get one; 0 if they are independent.
        pending: Its pods without a node.
        placed: Its pods that have one.
    """

    key: GroupKey
    known: bool = False
    minimum: int = 0
    pending: dict[Key, QueuedPod] = field(default_factory=dict)
    placed: set[Key] = field(default_factory=set)

    @property
    def name(self) -> str:
        return f"{self.key[1]}/{self.key[2]}"

    @property
    def needed(self) -> int:
        """How many more pods must find a node at once."""
        return max(self.minimum - len(self.placed), 0)

    def obstacle(self, candidates: int) -> str | None:
        """Why the group's pods cannot be tried yet, None if they can."""
        if not self.known:
            return f"waiting for pod group {self.name} to be created"
        if candidates < self.needed:
            there = candidates + len(self.placed)
            return f"waiting for pods of group {self.name}: {there} of {self.minimum} exist"
        return None


def group_of(pod: Pod) -> GroupKey | None:
    namespace = pod.metadata.namespace or ""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return (POD_GROUPS, namespace, group.pod_group_name)
    labels = pod.metadata.labels
    name = labels.get(GROUP_LABEL) if labels else None
    return (LABELLED_POD_GROUPS, namespace, name) if name else None


def minimum_of(group: PodGroup) -> int:
    policy = group.spec.scheduling_policy
    if policy is not None and policy.gang is not None:
        return max(policy.gang.min_count or 0, 0)
    return max(group.spec.min_member or 0, 0)


class Groups:
    """All groups that have a pod or an object."""

    def __init__(self) -> None:
        self._groups: dict[GroupKey, Group] = {}

    def of(self, key: GroupKey) -> Group:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = Group(key)
        return found

    def handle(self, event: Event) -> Group:
        """A PodGroup object came, changed or went."""
        group = self.of((event.resource, *event.key))
        group.known = event.change != DELETED
        group.minimum = minimum_of(event.object) if group.known else 0
        self._tidy(group)
        return group

    def wait(self, record: QueuedPod) -> None:
        key = group_of(record.pod)
        record.group = key
        if key is not None:
            group = self.of(key)
            group.placed.discard(record.key)
            group.pending[record.key] = record

    def place(self, key: Key, pod: Pod) -> None:
        """A pod has a node."""
        name = group_of(pod)
        if name is not None:
            group = self.of(name)
            group.pending.pop(key, None)
            group.placed.add(key)

    def leave(self, key: Key, pod: Pod) -> None:
        name = group_of(pod)
        if name is not None:
            group = self.of(name)
            group.pending.pop(key, None)
            group.placed.discard(key)
            self._tidy(group)

    def _tidy(self, group: Group) -> None:
        if not (group.known or group.pending or group.placed):
            self._groups.pop(group.key, None)

    def validate(self, record: QueuedPod) -> Iterator[str]:
        """Whether a pod's group has it where its phase says."""
        name = group_of(record.pod)
        group = None if name is None else self._groups.get(name, Group(name))
        if group is not None and (record.key in group.pending) == (record.key in group.placed):
            yield f"{record.key} is {record.phase}, but not so by its group"
        if group is not None and (record.key in group.pending) != record.pending:
            yield f"{record.key} is {record.phase}, but the other way by its group"
