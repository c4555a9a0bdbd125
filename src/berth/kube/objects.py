"""The Kubernetes objects scheduling needs, as typed views over the wire format.

A view holds only the fields that decide placement; everything else in an object
is skipped on decoding.  Code that passes an object on (rather than judging it)
keeps the original beside the view: see :mod:`berth.kube.manifests`.

Absent and null mean the same thing in every object, so every field of a view may
be ``None``; an *empty* object or list is kept apart from a missing one, because
Kubernetes gives the two different meanings (``labelSelector: {}`` selects every
pod, a missing one selects none).
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

# Integers as Kubernetes types them; Python's own have no end.
Int32 = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]

Labels = dict[str, str]
RawQuantity = str | Int64 | float
ResourceList = dict[str, RawQuantity]
IntOrString = Int32 | str


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """Base of every view: camelCase on the wire, immutable, compared by value."""


# --- metadata ---------------------------------------------------------------


class OwnerReference(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct, frozen=True):
    name: str | None = None
    generate_name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    labels: Labels | None = None
    annotations: Labels | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


# --- selectors --------------------------------------------------------------


class LabelSelectorRequirement(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct, frozen=True):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(Struct, frozen=True):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct, frozen=True):
    node_selector_terms: list[NodeSelectorTerm | None] | None = None


# --- affinity ---------------------------------------------------------------


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: Int32 | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Struct, frozen=True):
    required_during_scheduling_required_during_execution: NodeSelector | None = None
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Struct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: Int32 | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Struct, frozen=True):
    """Also the shape of podAntiAffinity, which has the same three lists."""

    required_during_scheduling_required_during_execution: list[PodAffinityTerm] | None = None
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: Int32 | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Struct, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: Int64 | None = None


class Taint(Struct, frozen=True):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


# --- pods -------------------------------------------------------------------


class ResourceRequirements(Struct, frozen=True):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ContainerPort(Struct, frozen=True):
    name: str | None = None
    container_port: Int32 | None = None
    host_port: Int32 | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Struct, frozen=True):
    name: str | None = None
    image: str | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class PodSchedulingGate(Struct, frozen=True):
    name: str | None = None


class ImageVolumeSource(Struct, frozen=True):
    reference: str | None = None


class PersistentVolumeClaimVolumeSource(Struct, frozen=True):
    claim_name: str | None = None


class ClaimResources(Struct, frozen=True):
    requests: ResourceList | None = None


class PersistentVolumeClaimSpec(Struct, frozen=True):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None
    volume_mode: str | None = None
    resources: ClaimResources | None = None
    selector: LabelSelector | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PersistentVolumeClaimSpec | None = None


class EphemeralVolumeSource(Struct, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class Volume(Struct, frozen=True):
    name: str | None = None
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None


class PodSchedulingGroup(Struct, frozen=True):
    pod_group_name: str | None = None


class PodSpec(Struct, frozen=True):
    node_name: str | None = None
    scheduler_name: str | None = None
    node_selector: Labels | None = None
    affinity: Affinity | None = None
    tolerations: list[Toleration] | None = None
    topology_spread_constraints: list[TopologySpreadConstraint] | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    overhead: ResourceList | None = None
    resources: ResourceRequirements | None = None
    host_network: bool | None = None
    priority: Int32 | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None


class ContainerStatus(Struct, frozen=True):
    name: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class Condition(Struct, frozen=True):
    type: str | None = None
    status: str | None = None
    reason: str | None = None
    message: str | None = None


class PodStatus(Struct, frozen=True):
    phase: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class Pod(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


# --- nodes and namespaces ----------------------------------------------------


class ContainerImage(Struct, frozen=True):
    names: list[str] | None = None
    size_bytes: Int64 | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Struct, frozen=True):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    conditions: list[Condition] | None = None


class Node(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Namespace(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()


# --- workloads ----------------------------------------------------------------


class PodTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class StatefulSetOrdinals(Struct, frozen=True):
    start: Int32 | None = None


class WorkloadSpec(Struct, frozen=True):
    """Deployment, ReplicaSet, StatefulSet and DaemonSet: what placing their pods needs."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    service_name: str | None = None
    ordinals: StatefulSetOrdinals | None = None


class Workload(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: Labels | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class JobSpec(Struct, frozen=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    suspend: bool | None = None
    completion_mode: str | None = None


class JobStatus(Struct, frozen=True):
    succeeded: Int32 | None = None
    conditions: list[Condition] | None = None


class Job(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()
    status: JobStatus | None = None


class JobTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Struct, frozen=True):
    job_template: JobTemplateSpec | None = None
    suspend: bool | None = None


class CronJob(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


# --- policy and services -------------------------------------------------------


class PriorityClass(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
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
    disrupted_pods: dict[str, str] | None = None


class PodDisruptionBudget(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus | None = None


class GangPolicy(Struct, frozen=True):
    min_count: Int32 | None = None


class GroupPolicy(Struct, frozen=True):
    gang: GangPolicy | None = None


class PodGroupSpec(Struct, frozen=True):
    """Of both kinds of pod groups: one has a policy, the other a number."""

    scheduling_policy: GroupPolicy | None = None
    min_member: Int32 | None = None


class PodGroup(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()


class ServiceSpec(Struct, frozen=True):
    selector: Labels | None = None


class Service(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


# --- storage ---------------------------------------------------------------------


class PersistentVolumeClaimStatus(Struct, frozen=True):
    phase: str | None = None


class PersistentVolumeClaim(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus | None = None


class ObjectReference(Struct, frozen=True):
    namespace: str | None = None
    name: str | None = None
    uid: str | None = None


class VolumeNodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Struct, frozen=True):
    capacity: ResourceList | None = None
    access_modes: list[str] | None = None
    storage_class_name: str | None = None
    volume_mode: str | None = None
    claim_ref: ObjectReference | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeStatus(Struct, frozen=True):
    phase: str | None = None


class PersistentVolume(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus | None = None


class TopologySelectorLabelRequirement(Struct, frozen=True):
    key: str | None = None
    values: list[str] | None = None


class TopologySelectorTerm(Struct, frozen=True):
    match_label_expressions: list[TopologySelectorLabelRequirement] | None = None


class StorageClass(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologySelectorTerm] | None = None


KubeObject = (
    Pod
    | Node
    | Namespace
    | Workload
    | ReplicationController
    | Job
    | CronJob
    | PriorityClass
    | PodDisruptionBudget
    | Service
    | PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
)

RawObject = dict[str, Any]
