"""Jobs and CronJobs. Upstream: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.well_known import JOB_NAME
from berth.server.registry.fields import spec_of, unchanged
from berth.server.registry.kinds.pod_specs import TemplatedStrategy, default_pod_spec, default_template
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry
from berth.server.storage.selectors import paths
from berth.server.tables import workloads as tables

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_RESTART_POLICY = "spec.template.spec.restartPolicy"


class JobStrategy(TemplatedStrategy):
    """A job selects its own pods by its uid, and orphans them unless it is told not to."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        spec.setdefault("parallelism", 1)
        spec.setdefault("backoffLimit", 6)
        spec.setdefault("completionMode", "NonIndexed")
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        spec.setdefault(
            "podReplacementPolicy", "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        )
        default_template(spec)

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj["spec"]
        template = spec.get("template")
        if old is not None or spec.get("manualSelector") or not isinstance(template, dict):
            return
        uid, name = obj["metadata"]["uid"], obj["metadata"].get("name") or ""
        own = {_CONTROLLER_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
        labels = template.setdefault("metadata", {}).get("labels") or {}
        template["metadata"]["labels"] = {**labels, **own}
        if spec.get("selector") is None:
            spec["selector"] = {"matchLabels": {_CONTROLLER_UID: uid}}

    def check(self, obj: RawObject) -> list[FieldError]:
        template = (obj.get("spec") or {}).get("template") or {}
        policy = (template.get("spec") or {}).get("restartPolicy", "Always")
        if policy in ("OnFailure", "Never"):
            return []
        if policy == "Always":
            return [FieldError(_RESTART_POLICY, "FieldValueRequired", 'valid values: "OnFailure", "Never"')]
        detail = 'supported values: "OnFailure", "Never"'
        return [FieldError(_RESTART_POLICY, "FieldValueNotSupported", detail, policy)]

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        found = [*unchanged(obj, old, "spec", "selector"), *unchanged(obj, old, "spec", "completions")]
        if old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime"):
            return found  # scheduling directives of a suspended job may still change
        return [*found, *unchanged(obj, old, "spec", "template")]


class CronJobStrategy(TemplatedStrategy):
    """A schedule of Jobs; nothing here follows it."""

    template = ("spec", "jobTemplate", "spec", "template")

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = spec.get("jobTemplate")
        if isinstance(template, dict) and isinstance(template.get("spec"), dict):
            inner = template["spec"].get("template")
            if isinstance(inner, dict) and isinstance(inner.get("spec"), dict):
                default_pod_spec(inner["spec"])


STRATEGIES = (
    CronJobStrategy(
        served("batch/v1", "cronjobs", "CronJob", short="cj", categories="all", subresources="status"),
        columns=tables.CRON_JOB,
    ),
    JobStrategy(
        served("batch/v1", "jobs", "Job", categories="all", subresources="status"),
        columns=tables.JOB,
        fields=paths("status.successful", default="0"),
        orphans_dependents=True,
    ),
)
