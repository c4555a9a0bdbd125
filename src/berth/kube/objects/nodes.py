"""Nodes, their leases, and namespaces."""

from __future__ import annotations

import msgspec

from berth.kube.objects.affinity import Taint
from berth.kube.objects.base import Int32, Int64, ResourceList, Struct
from berth.kube.objects.metadata import Condition, TypedObject


class ContainerImage(Struct, frozen=True):
    names: list[str] | None = None
    size_bytes: Int64 | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None
    pod_cidr: str | None = msgspec.field(default=None, name="podCIDR")


class NodeSystemInfo(Struct, frozen=True):
    kubelet_version: str | None = None


class NodeStatus(Struct, frozen=True):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    conditions: list[Condition] | None = None
    declared_features: list[str] | None = None
    node_info: NodeSystemInfo | None = None


class Node(TypedObject, frozen=True):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: Int32 | None = None


class Lease(TypedObject, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class NamespaceSpec(Struct, frozen=True):
    finalizers: list[str] | None = None


class NamespaceStatus(Struct, frozen=True):
    phase: str | None = None
    conditions: list[Condition] | None = None


class Namespace(TypedObject, frozen=True):
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()
