"""What the controllers look at in objects: the scheduling views with what running workloads adds.

Templates stay the mappings they came as, because they are passed on to pods whole.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.kube import karmada, objects
from berth.kube.api_resources import (
    BUDGETS,
    CLAIMS,
    CLUSTER_BINDINGS,
    CLUSTER_POLICIES,
    CLUSTERS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    POLICIES,
    PRIORITY_CLASSES,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    RESOURCE_BINDINGS,
    REVISIONS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)
from berth.kube.objects import IntOrString, LabelSelector, Struct
from berth.machines.contract import RawObject


class Owner(objects.OwnerReference, frozen=True):
    block_owner_deletion: bool | None = None


class Meta(objects.ObjectMeta, frozen=True):
    generation: int | None = None
    finalizers: list[str] | None = None
    deletion_grace_period_seconds: int | None = None
    # A list is invariant to mypy even where nobody writes to it.
    owner_references: list[Owner] | None = None  # type: ignore[assignment]


class Condition(objects.Condition, frozen=True):
    message: str | None = None
    last_transition_time: str | None = None
    last_update_time: str | None = None
    last_heartbeat_time: str | None = None
    last_probe_time: str | None = None
    observed_generation: int | None = None


class Bare(Struct, frozen=True):
    """Any object, as far as garbage collection cares."""

    api_version: str | None = None
    kind: str | None = None
    metadata: Meta = Meta()


# --- pods and nodes ---------------------------------------------------------------------------


class ContainerState(Struct, frozen=True):
    running: dict[str, Any] | None = None
    waiting: dict[str, Any] | None = None
    terminated: dict[str, Any] | None = None


class ContainerStatus(objects.ContainerStatus, frozen=True):
    restart_count: int | None = None
    ready: bool | None = None
    state: ContainerState | None = None


class PodStatus(objects.PodStatus, frozen=True):
    conditions: list[Condition] | None = None  # type: ignore[assignment]
    container_statuses: list[ContainerStatus] | None = None  # type: ignore[assignment]
    start_time: str | None = None
    reason: str | None = None
    pod_ip: str | None = msgspec.field(default=None, name="podIP")


class PodSpec(objects.PodSpec, frozen=True):
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    subdomain: str | None = None
    hostname: str | None = None


class Pod(objects.Pod, frozen=True):
    metadata: Meta = Meta()
    spec: PodSpec = PodSpec()
    status: PodStatus | None = None


class Taint(objects.Taint, frozen=True):
    time_added: str | None = None


class NodeSpec(objects.NodeSpec, frozen=True):
    taints: list[Taint] | None = None  # type: ignore[assignment]
    pod_cidr: str | None = msgspec.field(default=None, name="podCIDR")


class NodeStatus(objects.NodeStatus, frozen=True):
    conditions: list[Condition] | None = None  # type: ignore[assignment]


class Node(objects.Node, frozen=True):
    metadata: Meta = Meta()
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    renew_time: str | None = None
    lease_duration_seconds: int | None = None


class Lease(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: LeaseSpec = LeaseSpec()


# --- workloads --------------------------------------------------------------------------------


class RollingUpdate(Struct, frozen=True):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    partition: int | None = None


class Strategy(Struct, frozen=True):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class Ordinals(Struct, frozen=True):
    start: int | None = None


class Retention(Struct, frozen=True):
    when_deleted: str | None = None
    when_scaled: str | None = None


class WorkloadSpec(Struct, frozen=True):
    """Deployment, ReplicaSet, StatefulSet and DaemonSet."""

    replicas: int | None = None
    selector: LabelSelector | None = None
    template: RawObject | None = None
    min_ready_seconds: int | None = None
    strategy: Strategy | None = None
    update_strategy: Strategy | None = None
    paused: bool | None = None
    revision_history_limit: int | None = None
    progress_deadline_seconds: int | None = None
    service_name: str | None = None
    ordinals: Ordinals | None = None
    pod_management_policy: str | None = None
    volume_claim_templates: list[RawObject] | None = None
    persistent_volume_claim_retention_policy: Retention | None = None


class WorkloadStatus(Struct, frozen=True):
    observed_generation: int | None = None
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    updated_replicas: int | None = None
    unavailable_replicas: int | None = None
    fully_labeled_replicas: int | None = None
    current_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: int | None = None
    current_number_scheduled: int | None = None
    number_misscheduled: int | None = None
    desired_number_scheduled: int | None = None
    number_ready: int | None = None
    updated_number_scheduled: int | None = None
    number_available: int | None = None
    number_unavailable: int | None = None
    conditions: list[Condition] | None = None


class Workload(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: Meta = Meta()
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class Revision(Struct, frozen=True):
    """A ControllerRevision."""

    metadata: Meta = Meta()
    data: RawObject | None = None
    revision: int | None = None


class Uncounted(Struct, frozen=True):
    succeeded: list[str] | None = None
    failed: list[str] | None = None


class JobSpec(Struct, frozen=True):
    parallelism: int | None = None
    completions: int | None = None
    backoff_limit: int | None = None
    active_deadline_seconds: int | None = None
    ttl_seconds_after_finished: int | None = None
    completion_mode: str | None = None
    suspend: bool | None = None
    selector: LabelSelector | None = None
    template: RawObject | None = None


class JobStatus(Struct, frozen=True):
    active: int | None = None
    ready: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    terminating: int | None = None
    start_time: str | None = None
    completion_time: str | None = None
    completed_indexes: str | None = None
    uncounted_terminated_pods: Uncounted | None = None
    conditions: list[Condition] | None = None


class Job(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    metadata: Meta = Meta()
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class JobTemplate(Struct, frozen=True):
    metadata: RawObject | None = None
    spec: RawObject | None = None


class CronJobSpec(Struct, frozen=True):
    schedule: str | None = None
    time_zone: str | None = None
    starting_deadline_seconds: int | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: JobTemplate | None = None
    successful_jobs_history_limit: int | None = None
    failed_jobs_history_limit: int | None = None


class CronJobStatus(Struct, frozen=True):
    active: list[RawObject] | None = None
    last_schedule_time: str | None = None
    last_successful_time: str | None = None


class CronJob(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: CronJobSpec = CronJobSpec()
    status: CronJobStatus = CronJobStatus()


# --- policy and namespaces --------------------------------------------------------------------


class BudgetStatus(Struct, frozen=True):
    observed_generation: int | None = None
    disrupted_pods: dict[str, str] | None = None
    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None
    expected_pods: int | None = None
    conditions: list[Condition] | None = None


class Budget(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: objects.PodDisruptionBudgetSpec = objects.PodDisruptionBudgetSpec()
    status: BudgetStatus = BudgetStatus()


class NamespaceSpec(Struct, frozen=True):
    finalizers: list[str] | None = None


class NamespaceStatus(Struct, frozen=True):
    phase: str | None = None


class Namespace(objects.Namespace, frozen=True):
    metadata: Meta = Meta()
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


class Service(objects.Service, frozen=True):
    metadata: Meta = Meta()


class ReplicationController(objects.ReplicationController, frozen=True):
    metadata: Meta = Meta()


# --- storage ----------------------------------------------------------------------------------


class VolumeClaim(objects.PersistentVolumeClaim, frozen=True):
    metadata: Meta = Meta()


class Volume(objects.PersistentVolume, frozen=True):
    metadata: Meta = Meta()


class StorageClass(objects.StorageClass, frozen=True):
    metadata: Meta = Meta()


class PriorityClass(objects.PriorityClass, frozen=True):
    metadata: Meta = Meta()


# --- Karmada ----------------------------------------------------------------------------------


class MemberClusterSpec(Struct, frozen=True):
    taints: list[Taint] | None = None


class MemberCluster(Struct, frozen=True):
    metadata: Meta = Meta()
    spec: MemberClusterSpec = MemberClusterSpec()


class PolicySpec(Struct, frozen=True):
    """What is passed on to bindings whole stays the mapping it came as."""

    resource_selectors: list[karmada.ResourceSelector] | None = None
    placement: RawObject | None = None
    priority: int | None = None
    preemption: str | None = None
    scheduler_name: str | None = None
    schedule_priority: karmada.PolicyPriority | None = None
    activation_preference: str | None = None
    propagate_deps: bool | None = None
    conflict_resolution: str | None = None
    failover: RawObject | None = None
    preserve_resources_on_deletion: bool | None = None
    suspension: RawObject | None = None


class Policy(Struct, frozen=True):
    """A PropagationPolicy or ClusterPropagationPolicy."""

    metadata: Meta = Meta()
    spec: PolicySpec = PolicySpec()


class BindingStatus(Struct, frozen=True):
    scheduler_observed_generation: int | None = None
    conditions: list[Condition] | None = None


class Binding(Struct, frozen=True):
    """A ResourceBinding or ClusterResourceBinding."""

    metadata: Meta = Meta()
    spec: RawObject = msgspec.field(default_factory=dict)
    status: BindingStatus = BindingStatus()


VIEWS: dict[Resource, type[Any]] = {
    PODS: Pod,
    NODES: Node,
    NAMESPACES: Namespace,
    SERVICES: Service,
    REPLICATION_CONTROLLERS: ReplicationController,
    CLAIMS: VolumeClaim,
    VOLUMES: Volume,
    STORAGE_CLASSES: StorageClass,
    DEPLOYMENTS: Workload,
    REPLICA_SETS: Workload,
    STATEFUL_SETS: Workload,
    DAEMON_SETS: Workload,
    REVISIONS: Revision,
    JOBS: Job,
    CRON_JOBS: CronJob,
    BUDGETS: Budget,
    LEASES: Lease,
    PRIORITY_CLASSES: PriorityClass,
    CLUSTERS: MemberCluster,
    POLICIES: Policy,
    CLUSTER_POLICIES: Policy,
    RESOURCE_BINDINGS: Binding,
    CLUSTER_BINDINGS: Binding,
}
