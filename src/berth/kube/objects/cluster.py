"""Nodes, their leases, and namespaces; priorities, disruption budgets, quotas, pod groups and services."""

from __future__ import annotations

import msgspec

from berth.kube.objects.affinity import LabelSelector, Taint
from berth.kube.objects.base import Int32, Int64, IntOrString, Labels, RawObject, ResourceList, Struct
from berth.kube.objects.metadata import Condition, TypedObject, UntimedCondition


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


class PriorityClass(TypedObject, frozen=True):
    value: Int32 | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(Struct, frozen=True):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None
    unhealthy_pod_eviction_policy: str | None = None


class PodDisruptionBudgetStatus(Struct, frozen=True):
    disruptions_allowed: Int32 | None = None
    current_healthy: Int32 | None = None
    desired_healthy: Int32 | None = None
    expected_pods: Int32 | None = None
    disrupted_pods: dict[str, str] | None = None
    observed_generation: Int64 | None = None
    conditions: list[Condition] | None = None


class PodDisruptionBudget(TypedObject, frozen=True):
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus | None = None


class ResourceQuotaSpec(Struct, frozen=True):
    hard: ResourceList | None = None
    scopes: list[str] | None = None
    scope_selector: RawObject | None = None


class ResourceQuotaStatus(Struct, frozen=True):
    hard: ResourceList | None = None
    used: ResourceList | None = None


class ResourceQuota(TypedObject, frozen=True):
    spec: ResourceQuotaSpec = ResourceQuotaSpec()
    status: ResourceQuotaStatus | None = None


class GangPolicy(Struct, frozen=True):
    min_count: Int32 | None = None


class GroupPolicy(Struct, frozen=True):
    gang: GangPolicy | None = None


class PodGroupSpec(Struct, frozen=True):
    """Of both kinds of pod groups: one has a policy, the other a number."""

    scheduling_policy: GroupPolicy | None = None
    min_member: Int32 | None = None


class PodGroupStatus(Struct, frozen=True):
    conditions: list[Condition] | None = None


class PodGroup(TypedObject, frozen=True):
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus | None = None


class ServiceSpec(Struct, frozen=True):
    selector: Labels | None = None


class Service(TypedObject, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class EvictionRequestPodReference(Struct, frozen=True):
    name: str | None = None
    uid: str | None = None


class EvictionRequestTarget(Struct, frozen=True):
    pod: EvictionRequestPodReference | None = None


class EvictionRequestSpec(Struct, frozen=True):
    target: EvictionRequestTarget | None = None
    requester: str | None = None
    intent: str | None = None


class EvictionRequestStatus(Struct, frozen=True):
    conditions: list[UntimedCondition] | None = None


class EvictionRequest(TypedObject, frozen=True):
    """A wish that a pod be evicted, which a responder in the cluster fulfils."""

    spec: EvictionRequestSpec = EvictionRequestSpec()
    status: EvictionRequestStatus | None = None


ClusterObject = Node | Namespace | PriorityClass | PodDisruptionBudget | PodGroup | Service
