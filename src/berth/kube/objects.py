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

from typing import Any

import msgspec

Labels = dict[str, str]
RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]
IntOrString = int | str


class Struct(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True, gc=False):
    """Base of every view: camelCase on the wire, immutable, compared by value."""


# --- metadata ---------------------------------------------------------------


class OwnerReference(Struct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ObjectMeta(Struct):
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


class LabelSelectorRequirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class LabelSelector(Struct):
    match_labels: Labels | None = None
    match_expressions: list[LabelSelectorRequirement] | None = None


class NodeSelectorRequirement(Struct):
    key: str | None = None
    operator: str | None = None
    values: list[str] | None = None


class NodeSelectorTerm(Struct):
    match_expressions: list[NodeSelectorRequirement] | None = None
    match_fields: list[NodeSelectorRequirement] | None = None


class NodeSelector(Struct):
    node_selector_terms: list[NodeSelectorTerm | None] | None = None


# --- affinity ---------------------------------------------------------------


class PreferredSchedulingTerm(Struct):
    weight: int | None = None
    preference: NodeSelectorTerm | None = None


class NodeAffinity(Struct):
    required_during_scheduling_required_during_execution: NodeSelector | None = None
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredSchedulingTerm] | None = None


class PodAffinityTerm(Struct):
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    topology_key: str | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WeightedPodAffinityTerm(Struct):
    weight: int | None = None
    pod_affinity_term: PodAffinityTerm | None = None


class PodAffinity(Struct):
    """Also the shape of podAntiAffinity, which has the same three lists."""

    required_during_scheduling_required_during_execution: list[PodAffinityTerm] | None = None
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None
    preferred_during_scheduling_ignored_during_execution: list[WeightedPodAffinityTerm] | None = None


class Affinity(Struct):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct):
    max_skew: int | None = None
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


class Toleration(Struct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class Taint(Struct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


# --- pods -------------------------------------------------------------------


class ResourceRequirements(Struct):
    requests: ResourceList | None = None
    limits: ResourceList | None = None


class ContainerPort(Struct):
    name: str | None = None
    container_port: int | None = None
    host_port: int | None = None
    host_ip: str | None = msgspec.field(default=None, name="hostIP")
    protocol: str | None = None


class Container(Struct):
    name: str | None = None
    image: str | None = None
    resources: ResourceRequirements | None = None
    ports: list[ContainerPort] | None = None
    restart_policy: str | None = None


class PodSchedulingGate(Struct):
    name: str | None = None


class ImageVolumeSource(Struct):
    reference: str | None = None


class PersistentVolumeClaimVolumeSource(Struct):
    claim_name: str | None = None


class Volume(Struct):
    name: str | None = None
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None


class PodSchedulingGroup(Struct):
    pod_group_name: str | None = None


class PodSpec(Struct):
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
    priority: int | None = None
    priority_class_name: str | None = None
    preemption_policy: str | None = None
    scheduling_gates: list[PodSchedulingGate] | None = None
    scheduling_group: PodSchedulingGroup | None = None
    volumes: list[Volume] | None = None
    restart_policy: str | None = None


class ContainerStatus(Struct):
    name: str | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class Condition(Struct):
    type: str | None = None
    status: str | None = None
    reason: str | None = None


class PodStatus(Struct):
    phase: str | None = None
    nominated_node_name: str | None = None
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList | None = None


class Pod(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


# --- nodes and namespaces ----------------------------------------------------


class ContainerImage(Struct):
    names: list[str] | None = None
    size_bytes: int | None = None


class NodeSpec(Struct):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeStatus(Struct):
    capacity: ResourceList | None = None
    allocatable: ResourceList | None = None
    images: list[ContainerImage] | None = None
    conditions: list[Condition] | None = None


class Node(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Namespace(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()


# --- workloads ----------------------------------------------------------------


class PodTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: PodSpec | None = None


class WorkloadSpec(Struct):
    """Deployment, ReplicaSet, StatefulSet and DaemonSet: what placing their pods needs."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    service_name: str | None = None


class Workload(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(Struct):
    replicas: int | None = None
    selector: Labels | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class JobSpec(Struct):
    parallelism: int | None = None
    completions: int | None = None
    selector: LabelSelector | None = None
    template: PodTemplateSpec | None = None
    suspend: bool | None = None


class Job(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: JobSpec = JobSpec()


class JobTemplateSpec(Struct):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Struct):
    job_template: JobTemplateSpec | None = None
    suspend: bool | None = None


class CronJob(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: CronJobSpec = CronJobSpec()


# --- policy and services -------------------------------------------------------


class PriorityClass(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    value: int | None = None
    global_default: bool | None = None
    preemption_policy: str | None = None


class PodDisruptionBudgetSpec(Struct):
    min_available: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    selector: LabelSelector | None = None


class PodDisruptionBudget(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()


class ServiceSpec(Struct):
    selector: Labels | None = None


class Service(Struct):
    api_version: str | None = None
    kind: str | None = None
    metadata: ObjectMeta = ObjectMeta()
    spec: ServiceSpec = ServiceSpec()


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
)

RawObject = dict[str, Any]
