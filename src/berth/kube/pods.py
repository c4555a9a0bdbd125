"""What everyone asks about a pod: how far it is, whether it still counts, and which group it is in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar, overload

from berth.kube.amounts.integers import deletion_cost
from berth.kube.api_resources import LABELLED_POD_GROUPS, POD_GROUPS, Resource
from berth.kube.objects import Condition, LivePod, Pod, PodGroup, UntimedCondition
from berth.kube.well_known import FAILED, PENDING, POD_DELETION_COST, READY, SUCCEEDED, TRUE

FINISHED = (SUCCEEDED, FAILED)

_C = TypeVar("_C", bound=UntimedCondition)


def phase(pod: Pod) -> str:
    return (pod.status.phase if pod.status else None) or PENDING


def is_finished(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in FINISHED


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether a workload counts the pod: neither finished nor being deleted."""
    return not is_finished(pod) and not is_terminating(pod)


def deletion_cost_of(pod: Pod) -> int:
    """By which a ReplicaSet chooses whom to delete first; what is no cost counts as none."""
    return deletion_cost((pod.metadata.annotations or {}).get(POD_DELETION_COST, "0")) or 0


def condition(conditions: Iterable[_C] | None, kind: str) -> _C | None:
    return next((known for known in conditions or () if known.type == kind), None)


def true_condition(conditions: Iterable[_C] | None, kind: str) -> _C | None:
    """The condition, if it is there and holds."""
    known = condition(conditions, kind)
    return known if known is not None and known.status == TRUE else None


@overload
def pod_condition(pod: LivePod, kind: str) -> Condition | None: ...
@overload
def pod_condition(pod: Pod, kind: str) -> UntimedCondition | None: ...
def pod_condition(pod: Pod, kind: str) -> UntimedCondition | None:
    return condition(pod.status.conditions if pod.status else None, kind)


def is_ready(pod: Pod) -> bool:
    return true_condition(pod.status.conditions if pod.status else None, READY) is not None


# --- groups: placed together or not at all --------------------------------------------------------
# A group is named by a pod's `spec.schedulingGroup.podGroupName` or by the label
# `scheduling.x-k8s.io/pod-group`; how many of its pods must have a node is in its PodGroup object.

GroupKey = tuple[Resource, str, str]

GATED_MEMBERS = "with scheduling gates"
GROUP_LABEL = "scheduling.x-k8s.io/pod-group"


def group_of(pod: Pod) -> GroupKey | None:
    namespace = pod.metadata.namespace or ""
    group = pod.spec.scheduling_group
    if group is not None and group.pod_group_name:
        return (POD_GROUPS, namespace, group.pod_group_name)
    labels = pod.metadata.labels
    name = labels.get(GROUP_LABEL) if labels else None
    return (LABELLED_POD_GROUPS, namespace, name) if name else None


def minimum_of(group: PodGroup) -> int:
    """How many pods must have a node for any to get one; 0 if they are independent."""
    policy = group.spec.scheduling_policy
    if policy is not None and policy.gang is not None:
        return max(policy.gang.min_count or 0, 0)
    return max(group.spec.min_member or 0, 0)


@dataclass(frozen=True, slots=True)
class GroupState:
    """How far a group is."""

    key: GroupKey
    known: bool  # there is a PodGroup object
    minimum: int  # see `minimum_of`
    placed: int  # how many of its pods have a node

    @property
    def name(self) -> str:
        return f"{self.key[1]}/{self.key[2]}"

    @property
    def needed(self) -> int:
        """How many more pods must find a node at once."""
        return max(self.minimum - self.placed, 0)

    def obstacle(self, candidates: int, held: Mapping[str, int] | None = None) -> str | None:
        """Why the group's pods cannot be tried yet, None if they can.

        `held` are those that nobody tries: what they are, and how many.
        """
        if not self.known:
            return f"waiting for pod group {self.name} to be created"
        if candidates < self.needed:
            there = candidates + self.placed
            waiting = f"waiting for pods of group {self.name}: {there} of {self.minimum}"
            others = ", ".join(f"{number} {what}" for what, number in (held or {}).items() if number)
            return f"{waiting} can be tried; {others} cannot" if others else f"{waiting} exist"
        return None

    def no_room(self, candidates: int, why: str) -> str:
        """That the group does not find enough nodes, and why one of its pods found none."""
        return f"pod group {self.name} needs {self.needed} of {candidates} pods placed together: {why}"
