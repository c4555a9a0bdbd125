"""What can happen to a cluster, as small records made right after it happened.

A record says what happened; how the cluster looks by the time it is read is to be seen in the cluster itself.
Those of pods are made for every pod that is placed, so they are made in C.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import untimed_taints
from berth.kube.objects import Node, NodeStatus


@dataclass(frozen=True, slots=True)
class NodeAdded:
    """A node joined, perhaps with pods that were waiting for it to return."""

    slot: int


@dataclass(frozen=True, slots=True, eq=False)
class NodeUpdated:
    """A node is different from before.

    Two such records are never equal: where one stood for both, what the node was at first would be lost.

    Attributes:
        old: The node as it was.
        labels, taints, allocatable, unschedulable, images, features: Whether these differ.
    """

    slot: int
    old: Node
    labels: bool = False
    taints: bool = False
    allocatable: bool = False
    unschedulable: bool = False
    images: bool = False
    features: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class NodeDeleted:
    """A node left, and its pods are no longer counted; without the node as it was, the worst is assumed."""

    slot: int
    old: Node | None = None


class PodAdded(msgspec.Struct, frozen=True):
    """A pod is on a node now. Pods of one class may be announced by one record, whatever their nodes."""

    pod_class: PodClass
    slot: int


class PodDeleted(msgspec.Struct, frozen=True):
    """A pod is no longer on its node, or no longer as it was: then it has come as well.

    A pod that starts to terminate left as a living and came as a terminating one.

    Attributes:
        terminating: It was terminating already, so that rules about living pods had lost it before.
        stays: It is still on its node, but no longer as it was.
    """

    pod_class: PodClass
    slot: int
    terminating: bool = False
    stays: bool = False


@dataclass(frozen=True, slots=True)
class NamespaceUpdated:
    """The labels of a namespace changed."""


@dataclass(frozen=True, slots=True)
class OwnersChanged:
    """A service or a controller changed what it selects."""


@dataclass(frozen=True, slots=True)
class VolumesChanged:
    """A claim, a volume or a storage class changed."""


@dataclass(frozen=True, slots=True)
class VolumeDetached:
    """A volume is no longer attached to a node."""

    slot: int


@dataclass(frozen=True, slots=True)
class StorageCapacityChanged:
    """How much is left for new volumes of a storage class."""

    storage_class: str


@dataclass(frozen=True, slots=True)
class ResourceClaimChanged:
    """A ResourceClaim came, changed or went."""

    namespace: str
    name: str


ClusterEvent = (
    NodeAdded
    | NodeUpdated
    | NodeDeleted
    | PodAdded
    | PodDeleted
    | NamespaceUpdated
    | OwnersChanged
    | VolumesChanged
    | VolumeDetached
    | StorageCapacityChanged
    | ResourceClaimChanged
)

# For isinstance, which is several times faster with a tuple that is there already.
OF_PODS = (PodDeleted, PodAdded)
OF_NODES = (NodeAdded, NodeUpdated, NodeDeleted)


def node_change(slot: int, old: Node, new: Node) -> NodeUpdated | None:
    """What an update of the node at `slot` changed, None if nothing the engine can see: a heartbeat."""
    labels = (old.metadata.labels or {}) != (new.metadata.labels or {})
    taints = unschedulable = allocatable = images = features = False
    if old.spec != new.spec:
        was, now = old.spec, new.spec
        taints = untimed_taints(old) != untimed_taints(new)
        unschedulable = bool(was and was.unschedulable) != bool(now and now.unschedulable)
    if old.status != new.status:
        before, after = old.status or NodeStatus(), new.status or NodeStatus()
        allocatable = (before.allocatable or {}) != (after.allocatable or {})
        images = (before.images or []) != (after.images or [])
        features = (before.declared_features or []) != (after.declared_features or [])
    changes = (labels, taints, allocatable, unschedulable, images, features)
    return NodeUpdated(slot, old, *changes) if any(changes) else None
