"""Jobs and CronJobs. Upstream: pkg/apis/batch/v1/defaults.go, pkg/registry/batch/job."""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.resources import NEGATIVE
from berth.kube.well_known import JOB_NAME
from berth.kube.workloads.cron_schedule import ScheduleError, parse, zone_error
from berth.server.registry.checks import Found, invalid, one_of, required
from berth.server.registry.fields import mapping, spec_of, unchanged
from berth.server.registry.kinds.pods.pod_specs import TemplatedStrategy, default_pod_spec, default_template
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry
from berth.server.storage.selectors import paths
from berth.server.tables import workloads as tables

_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
_POLICIES = ("Allow", "Forbid", "Replace")
_LONGEST_NAME = 52  # of 63 characters, eleven are the time of a Job
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)


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

    def check(self, obj: RawObject) -> Found:
        return _check_policy(mapping(obj.get("spec")), "spec")

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        found = [*unchanged(obj, old, "spec", "selector"), *unchanged(obj, old, "spec", "completions")]
        if old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime"):
            return found  # scheduling directives of a suspended job may still change
        return [*found, *unchanged(obj, old, "spec", "template")]


def _check_policy(spec: RawObject, path: str) -> Found:
    """That the pods of a Job come to an end."""
    policy = mapping(mapping(spec.get("template")).get("spec")).get("restartPolicy", "Always")
    path = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    else:
        yield from one_of(path, policy, ("OnFailure", "Never"), needed=False)


class CronJobStrategy(TemplatedStrategy):
    """A schedule of Jobs."""

    template = ("spec", "jobTemplate", "spec", "template")

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("concurrencyPolicy", "Allow")
        spec.setdefault("suspend", False)
        spec.setdefault("successfulJobsHistoryLimit", 3)
        spec.setdefault("failedJobsHistoryLimit", 1)
        template = self._template(obj)
        if template is not None:
            default_pod_spec(template["spec"])

    def check(self, obj: RawObject) -> Found:
        spec = mapping(obj.get("spec"))
        schedule = spec.get("schedule")
        if not schedule:
            yield required("spec.schedule")
        else:
            try:
                parse(schedule)
            except ScheduleError as error:
                yield invalid("spec.schedule", schedule, str(error))
        yield from one_of("spec.concurrencyPolicy", spec.get("concurrencyPolicy"), _POLICIES, needed=False)
        for name in ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"):
            if (spec.get(name) or 0) < 0:
                yield invalid(f"spec.{name}", spec[name], NEGATIVE)
        yield from _check_policy(
            mapping(mapping(spec.get("jobTemplate")).get("spec")), "spec.jobTemplate.spec"
        )

    def validate_create(self, obj: RawObject) -> list[FieldError]:
        name = obj["metadata"].get("name") or ""
        found = list(_check_zone(obj["spec"], {}))
        if len(name) > _LONGEST_NAME:
            found.append(invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters"))
        return found

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return list(_check_zone(obj["spec"], old["spec"]))


def _check_zone(spec: RawObject, old: RawObject) -> Found:
    """That a schedule's time zone is one, and where it belongs; what was stored otherwise may stay."""
    schedule, zone = str(spec.get("schedule") or ""), spec.get("timeZone")
    if "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        if "TZ" in str(old.get("schedule") or ""):
            detail = (
                "cannot use both timeZone field and TZ or CRON_TZ in schedule" if zone is not None else ""
            )
        if detail:
            yield invalid("spec.schedule", schedule, detail)
    if zone is not None and zone != old.get("timeZone") and (problem := zone_error(zone)) is not None:
        yield invalid("spec.timeZone", zone, problem)


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
        orphans_warning=_PODS_STAY,
    ),
)
