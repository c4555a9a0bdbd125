"""What makes pods. A `Workload` has the template as a pod is judged, a `LiveWorkload` as it came.

Controllers pass templates on to pods whole, so what they read of a template is a mapping.
"""

from __future__ import annotations

from berth.kube.objects.affinity import LabelSelector
from berth.kube.objects.base import Int32, Int64, IntOrString, Labels, RawObject, Struct
from berth.kube.objects.metadata import Condition, ObjectMeta, TypedObject
from berth.kube.objects.pods import PodTemplateSpec
from berth.kube.objects.storage import PersistentVolumeClaim


class StatefulSetOrdinals(Struct, frozen=True):
    start: Int32 | None = None


class RollingUpdate(Struct, frozen=True):
    max_surge: IntOrString | None = None
    max_unavailable: IntOrString | None = None
    partition: Int32 | None = None


class UpdateStrategy(Struct, frozen=True):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class WorkloadSpecBase(Struct, frozen=True):
    """Deployment, ReplicaSet, StatefulSet and DaemonSet: what everyone needs of them."""

    replicas: Int32 | None = None
    selector: LabelSelector | None = None
    service_name: str | None = None
    ordinals: StatefulSetOrdinals | None = None
    strategy: UpdateStrategy | None = None
    update_strategy: UpdateStrategy | None = None


class WorkloadBase(TypedObject, frozen=True):
    spec: WorkloadSpecBase = WorkloadSpecBase()


class WorkloadSpec(WorkloadSpecBase, frozen=True):
    template: PodTemplateSpec | None = None
    volume_claim_templates: list[PersistentVolumeClaim] | None = None


class Workload(WorkloadBase, frozen=True):
    """What placing the pods of a workload needs."""

    spec: WorkloadSpec = WorkloadSpec()


class ReplicationControllerSpec(Struct, frozen=True):
    replicas: Int32 | None = None
    selector: Labels | None = None
    template: PodTemplateSpec | None = None


class ReplicationController(TypedObject, frozen=True):
    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class JobSpecBase(Struct, frozen=True):
    parallelism: Int32 | None = None
    completions: Int32 | None = None
    selector: LabelSelector | None = None
    suspend: bool | None = None
    completion_mode: str | None = None


class JobSpec(JobSpecBase, frozen=True):
    template: PodTemplateSpec | None = None


class JobStatus(Struct, frozen=True):
    active: Int32 | None = None
    ready: Int32 | None = None
    succeeded: Int32 | None = None
    failed: Int32 | None = None
    terminating: Int32 | None = None
    start_time: str | None = None
    completed_indexes: str | None = None
    uncounted_terminated_pods: UncountedPods | None = None
    conditions: list[Condition] | None = None


class Job(TypedObject, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus | None = None


class JobTemplateSpec(Struct, frozen=True):
    metadata: ObjectMeta | None = None
    spec: JobSpec | None = None


class CronJobSpec(Struct, frozen=True):
    job_template: JobTemplateSpec | None = None
    suspend: bool | None = None


class CronJob(TypedObject, frozen=True):
    spec: CronJobSpec = CronJobSpec()


PodMaker = Workload | ReplicationController | Job | CronJob


class LiveWorkloadSpec(WorkloadSpecBase, frozen=True):
    template: RawObject | None = None
    min_ready_seconds: Int32 | None = None
    paused: bool | None = None
    revision_history_limit: Int32 | None = None
    progress_deadline_seconds: Int32 | None = None
    pod_management_policy: str | None = None
    volume_claim_templates: list[RawObject] | None = None


class WorkloadStatus(Struct, frozen=True):
    observed_generation: Int64 | None = None
    replicas: Int32 | None = None
    ready_replicas: Int32 | None = None
    available_replicas: Int32 | None = None
    updated_replicas: Int32 | None = None
    unavailable_replicas: Int32 | None = None
    fully_labeled_replicas: Int32 | None = None
    current_replicas: Int32 | None = None
    current_revision: str | None = None
    update_revision: str | None = None
    collision_count: Int32 | None = None
    current_number_scheduled: Int32 | None = None
    number_misscheduled: Int32 | None = None
    desired_number_scheduled: Int32 | None = None
    number_ready: Int32 | None = None
    updated_number_scheduled: Int32 | None = None
    number_available: Int32 | None = None
    number_unavailable: Int32 | None = None
    conditions: list[Condition] | None = None


class LiveWorkload(WorkloadBase, frozen=True):
    """What running a workload needs."""

    spec: LiveWorkloadSpec = LiveWorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()


class ControllerRevision(TypedObject, frozen=True):
    data: RawObject | None = None
    revision: Int64 | None = None


class UncountedPods(Struct, frozen=True):
    succeeded: list[str] | None = None
    failed: list[str] | None = None


class LiveJobSpec(JobSpecBase, frozen=True):
    template: RawObject | None = None
    backoff_limit: Int32 | None = None
    active_deadline_seconds: Int64 | None = None
    ttl_seconds_after_finished: Int32 | None = None


class LiveJob(TypedObject, frozen=True):
    spec: LiveJobSpec = LiveJobSpec()
    status: JobStatus = JobStatus()


class LiveJobTemplate(Struct, frozen=True):
    metadata: RawObject | None = None
    spec: RawObject | None = None


class LiveCronJobSpec(Struct, frozen=True):
    schedule: str | None = None
    time_zone: str | None = None
    starting_deadline_seconds: Int64 | None = None
    concurrency_policy: str | None = None
    suspend: bool | None = None
    job_template: LiveJobTemplate | None = None
    successful_jobs_history_limit: Int32 | None = None
    failed_jobs_history_limit: Int32 | None = None


class CronJobStatus(Struct, frozen=True):
    active: list[RawObject] | None = None
    last_schedule_time: str | None = None


class LiveCronJob(TypedObject, frozen=True):
    spec: LiveCronJobSpec = LiveCronJobSpec()
    status: CronJobStatus = CronJobStatus()
