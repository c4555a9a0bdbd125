"""Karmada's objects, as far as placing workloads on clusters needs them.

Views over the wire format like those of :mod:`berth.kube.objects`, with one addition: a
placement may also carry the workload (anti-)affinity of Karmada's proposal 521, whose two forms
share the field ``workloadAffinity`` with the one Karmada shipped.
"""

from __future__ import annotations

import msgspec

from berth.kube.objects import (
    Condition,
    Int32,
    Int64,
    LabelSelector,
    NodeSelectorRequirement,
    ObjectReference,
    RawObject,
    RawQuantity,
    ResourceList,
    Struct,
    Taint,
    Toleration,
    TypedObject,
)

DUPLICATED, DIVIDED = "Duplicated", "Divided"
WEIGHTED, AGGREGATED = "Weighted", "Aggregated"
ALWAYS = "Always"  # preemption between policies
CLUSTER_GROUP, POLICY_GROUP, WORK_GROUP = "cluster.karmada.io", "policy.karmada.io", "work.karmada.io"
TOPOLOGY_PREFIX = "topology.karmada.io/"
# By which a binding says which policy made it: labels, and annotations.
PERMANENT_ID = ".karmada.io/permanent-id"
POLICY_ID = "propagationpolicy.karmada.io/permanent-id"
CLUSTER_POLICY_ID = "clusterpropagationpolicy.karmada.io/permanent-id"
POLICY_NAMESPACE = "propagationpolicy.karmada.io/namespace"
POLICY_NAME = "propagationpolicy.karmada.io/name"
CLUSTER_POLICY_NAME = "clusterpropagationpolicy.karmada.io/name"
APPLIED_PLACEMENT = "policy.karmada.io/applied-placement"

# --- clusters -----------------------------------------------------------------


class ResourceModelRange(Struct, frozen=True):
    name: str | None = None
    min: RawQuantity | None = None
    max: RawQuantity | None = None


class ResourceModel(Struct, frozen=True):
    grade: Int64 | None = None
    ranges: list[ResourceModelRange] | None = None


class ClusterSpec(Struct, frozen=True):
    provider: str | None = None
    region: str | None = None
    zone: str | None = None
    zones: list[str] | None = None
    taints: list[Taint] | None = None
    resource_models: list[ResourceModel] | None = None


class ApiResource(Struct, frozen=True):
    name: str | None = None
    kind: str | None = None


class ApiEnablement(Struct, frozen=True):
    group_version: str | None = None
    resources: list[ApiResource] | None = None


class AllocatableModeling(Struct, frozen=True):
    grade: Int64 | None = None
    count: Int64 | None = None


class ResourceSummary(Struct, frozen=True):
    allocatable: ResourceList | None = None
    allocating: ResourceList | None = None
    allocated: ResourceList | None = None
    allocatable_modelings: list[AllocatableModeling] | None = None


class ClusterStatus(Struct, frozen=True):
    api_enablements: list[ApiEnablement] | None = None
    conditions: list[Condition] | None = None
    resource_summary: ResourceSummary | None = None


class MemberCluster(TypedObject, frozen=True):
    """A member cluster (cluster.karmada.io/v1alpha1)."""

    spec: ClusterSpec = ClusterSpec()
    status: ClusterStatus | None = None


# --- placements ---------------------------------------------------------------


class FieldSelector(Struct, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None


class ClusterAffinity(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    field_selector: FieldSelector | None = None
    cluster_names: list[str] | None = None
    exclude: list[str] | None = None


class OverflowClusterAffinity(ClusterAffinity, frozen=True):
    affinity_name: str | None = None


class ClusterAffinityTerm(ClusterAffinity, frozen=True):
    affinity_name: str | None = None
    overflow_affinities: list[OverflowClusterAffinity] | None = None


class SpreadConstraint(Struct, frozen=True):
    spread_by_field: str | None = None
    spread_by_label: str | None = None
    max_groups: Int64 | None = None
    min_groups: Int64 | None = None


class StaticClusterWeight(Struct, frozen=True):
    target_cluster: ClusterAffinity = ClusterAffinity()
    weight: Int64 | None = None


class ClusterPreferences(Struct, frozen=True):
    static_weight_list: list[StaticClusterWeight] | None = None
    dynamic_weight: str | None = None


class ReplicaScheduling(Struct, frozen=True):
    replica_scheduling_type: str | None = None
    replica_division_preference: str | None = None
    weight_preference: ClusterPreferences | None = None


class GroupTerm(Struct, frozen=True):
    """What Karmada shipped: workloads whose label `group_by_label_key` has one value are a group."""

    group_by_label_key: str | None = None


class WorkloadTerm(Struct, frozen=True):
    """A term of the proposal: a selector and keys (its option 1), or `affinity_enabled` (option 2)."""

    label_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    affinity_enabled: bool | None = None
    topology_key: str | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class WeightedWorkloadTerm(Struct, frozen=True):
    weight: Int32 | None = None
    workload_affinity_term: WorkloadTerm | None = None


class WorkloadAntiAffinity(Struct, frozen=True):
    required_during_scheduling_ignored_during_execution: list[WorkloadTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedWorkloadTerm] | None = None


class WorkloadAffinity(WorkloadAntiAffinity, frozen=True):
    affinity: GroupTerm | None = None
    anti_affinity: GroupTerm | None = None


class Placement(Struct, frozen=True):
    cluster_affinity: ClusterAffinity | None = None
    cluster_affinities: list[ClusterAffinityTerm] | None = None
    cluster_tolerations: list[Toleration] | None = None
    spread_constraints: list[SpreadConstraint] | None = None
    replica_scheduling: ReplicaScheduling | None = None
    workload_affinity: WorkloadAffinity | None = None
    workload_anti_affinity: WorkloadAntiAffinity | None = None


# --- bindings -----------------------------------------------------------------


class ReplicaRequirements(Struct, frozen=True):
    resource_request: ResourceList | None = None
    namespace: str | None = None
    priority_class_name: str | None = None


class TargetComponent(Struct, frozen=True):
    name: str | None = None
    replicas: Int32 | None = None


class Component(TargetComponent, frozen=True):
    replica_requirements: ReplicaRequirements | None = None


class TargetCluster(Struct, frozen=True):
    name: str = ""
    replicas: Int32 = 0
    components: list[TargetComponent] | None = None


class BindingSuspension(Struct, frozen=True):
    scheduling: bool | None = None
    dispatching: bool | None = None


class BindingPriority(Struct, frozen=True):
    priority: Int32 | None = None


class WorkloadAffinityGroups(Struct, frozen=True):
    affinity_group: str | None = None
    anti_affinity_group: str | None = None


class BindingSpec(Struct, frozen=True):
    resource: ObjectReference = ObjectReference()
    replica_requirements: ReplicaRequirements | None = None
    replicas: Int32 | None = None
    components: list[Component] | None = None
    clusters: list[TargetCluster] | None = None
    placement: Placement | None = None
    graceful_eviction_tasks: list[RawObject] | None = None  # raw, to be written back whole
    scheduler_name: str | None = None
    reschedule_triggered_at: str | None = None
    suspension: BindingSuspension | None = None
    schedule_priority: BindingPriority | None = None
    workload_affinity_groups: WorkloadAffinityGroups | None = None

    def __post_init__(self) -> None:
        for task in self.graceful_eviction_tasks or ():
            if not isinstance(task.get("fromCluster"), str | None):
                raise TypeError("fromCluster of a graceful eviction task is not a string")


class BindingStatus(Struct, frozen=True):
    scheduler_observed_generation: Int64 | None = None
    # Karmada's Go field is called SchedulerObservedAffinityName; this is its name on the wire.
    scheduler_observing_affinity_name: str | None = None
    last_scheduled_time: str | None = None
    conditions: list[Condition] | None = None


class BindingBase(TypedObject, frozen=True):
    """A ResourceBinding or ClusterResourceBinding (work.karmada.io/v1alpha2)."""

    status: BindingStatus = BindingStatus()


class Binding(BindingBase, frozen=True):
    """A binding as it is scheduled."""

    spec: BindingSpec = BindingSpec()


def leaving_clusters(binding: Binding) -> list[str]:
    """The clusters that it is being evicted from."""
    tasks = binding.spec.graceful_eviction_tasks or ()
    return [cluster for task in tasks if (cluster := task.get("fromCluster"))]


class LiveBinding(BindingBase, frozen=True):
    """A binding as it is made from a policy: what is copied there whole stays the mapping it came as."""

    spec: RawObject = msgspec.field(default_factory=dict)


def as_scheduled(binding: LiveBinding) -> Binding:
    """The binding with its specification decoded; raises msgspec.ValidationError if that cannot be."""
    spec = msgspec.convert(binding.spec, BindingSpec)
    return Binding(**{**msgspec.structs.asdict(binding), "spec": spec})


# --- policies -----------------------------------------------------------------


class ResourceSelector(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None
    label_selector: LabelSelector | None = None


class PolicyPriority(Struct, frozen=True):
    priority_class_name: str | None = None


class PropagationSpecBase(Struct, frozen=True):
    resource_selectors: list[ResourceSelector] | None = None
    priority: Int32 | None = None
    preemption: str | None = None
    scheduler_name: str | None = None
    schedule_priority: PolicyPriority | None = None


class PropagationSpec(PropagationSpecBase, frozen=True):
    placement: Placement | None = None


class PropagationPolicy(TypedObject, frozen=True):
    """A PropagationPolicy or ClusterPropagationPolicy (policy.karmada.io/v1alpha1)."""

    spec: PropagationSpec = PropagationSpec()


class LivePropagationSpec(PropagationSpecBase, frozen=True):
    placement: RawObject | None = None
    activation_preference: str | None = None
    propagate_deps: bool | None = None
    conflict_resolution: str | None = None
    failover: RawObject | None = None
    preserve_resources_on_deletion: bool | None = None
    suspension: RawObject | None = None


class LivePolicy(TypedObject, frozen=True):
    """A policy as bindings are made from it: what is passed on whole stays the mapping it came as."""

    spec: LivePropagationSpec = LivePropagationSpec()


def binding_name(kind: str, name: str) -> str:
    """The name Karmada gives the binding of a resource."""
    return f"{name}-{kind}".lower().replace(":", ".")
