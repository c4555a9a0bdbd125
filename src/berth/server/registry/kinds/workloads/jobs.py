"""What runs pods to their end: Jobs, and CronJobs, which make Jobs by a schedule.

Upstream: pkg/apis/batch/{v1/defaults.go,validation} and pkg/registry/batch/job.
"""

from __future__ import annotations

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.times import seconds_of
from berth.kube.validation.errors import FieldError
from berth.kube.well_known import JOB_NAME, JOB_UID
from berth.kube.workloads.cron_schedule import ScheduleError, parse, zone_error
from berth.kube.workloads.stored_templates import default_pod_spec, default_template, fill
from berth.server import tables
from berth.server.fields import at, is_true, mapping, mappings, number
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, at_least, invalid, one_of, required, spec_of
from berth.server.registry.kinds.pods.pod_specs import TemplatedStrategy
from berth.server.registry.kinds.workloads.figures import in_order
from berth.server.registry.kinds.workloads.job_figures import of_job
from berth.server.registry.strategy import Registry, served
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, NONE, Column, containers, flag, label_selector, size, text

# In which order upstream looks at the fields of a spec.
_ORDER = (
    *("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished"),
    *("backoffLimitPerIndex", "maxFailedIndexes", "managedBy", "completionMode", "podFailurePolicy"),
    *("successPolicy", "podReplacementPolicy", "template", "selector"),
)
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
        replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        failures = 6 if spec.get("backoffLimitPerIndex") is None else 2**31 - 1
        fill(spec, parallelism=1, backoffLimit=failures, completionMode="NonIndexed", suspend=False)
        for rule in mappings(spec, "podFailurePolicy", "rules"):
            for pattern in mappings(rule, "onPodConditions"):
                pattern["status"] = pattern.get("status") or "True"
        fill(spec, manualSelector=False, podReplacementPolicy=replaced)
        default_template(spec)

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj["spec"]
        template = spec.get("template")
        if old is not None or spec.get("manualSelector") or not isinstance(template, dict):
            return
        uid, name = obj["metadata"]["uid"], obj["metadata"].get("name") or ""
        own = {JOB_UID: uid, JOB_NAME: name, "controller-uid": uid, "job-name": name}
        labels = template.setdefault("metadata", {}).get("labels") or {}
        template["metadata"]["labels"] = {**labels, **own}
        if spec.get("selector") is None:
            spec["selector"] = {"matchLabels": {JOB_UID: uid}}
        fill(obj["metadata"], labels=dict(template["metadata"]["labels"]))

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        yield from _check_spec(spec, "spec")
        given, labels = spec.get("selector"), at(spec, "template", "metadata", "labels")
        if isinstance(given, dict):
            selector = parse_label_selector(checks.decode_as(given, LabelSelector))
            if not selector.matches(labels or {}):
                detail = "`selector` does not match template `labels`"
                yield invalid("spec.template.metadata.labels", labels, detail)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        return in_order(_ORDER, super().judge(registry, obj, old))

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        yield from super().validate_update(obj, old)
        # The scheduling directives of a suspended job may still change.
        if not old["spec"].get("suspend") or at(old, "status", "startTime"):
            yield from checks.unchanged(obj, old, "spec", "template")


def _check_spec(spec: RawObject, path: str) -> FieldErrors:
    """A Job's own figures, and that its pods come to an end."""
    yield from of_job(spec, path)
    policy = mapping(spec, "template", "spec").get("restartPolicy", "Always")
    path = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    else:
        yield from one_of(path, policy, ("OnFailure", "Never"), needed=False)
    if policy == "OnFailure" and spec.get("podFailurePolicy"):
        yield invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


class CronJobStrategy(TemplatedStrategy):
    """A schedule of Jobs."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        fill(spec, concurrencyPolicy="Allow", suspend=False)
        fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
        template = self._template(obj)
        if template is not None:
            fill(spec["jobTemplate"], metadata={})
            fill(template, metadata={})
            default_pod_spec(template["spec"])

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
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
            yield from at_least(f"spec.{name}", spec.get(name), 0)
        yield from _check_spec(mapping(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")

    def validate_create(self, obj: RawObject) -> FieldErrors:
        name = obj["metadata"].get("name") or ""
        yield from _check_zone(obj["spec"], {})
        if len(name) > _LONGEST_NAME:
            yield invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        return _check_zone(obj["spec"], old["spec"])


def _check_zone(spec: RawObject, old: RawObject) -> FieldErrors:
    """That a schedule's time zone is one, and where it belongs; what was stored otherwise may stay."""
    schedule, zone = str(spec.get("schedule") or ""), spec.get("timeZone")
    if "TZ" in schedule and "TZ" not in str(old.get("schedule") or ""):
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield invalid("spec.schedule", schedule, detail)
    elif "TZ" in schedule and zone is not None:
        detail = "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        yield invalid("spec.schedule", schedule, detail)
    if zone is not None and zone != old.get("timeZone") and (problem := zone_error(zone)) is not None:
        yield invalid("spec.timeZone", zone, problem)
        if zone.lower() == "local" and zone != "Local":  # by that name alone Go knows it
            yield invalid("spec.timeZone", zone, f"unknown time zone {zone}")


# --- columns


def _job_status(job: RawObject, _: float) -> str:
    for kind in ("Complete", "Failed"):
        if is_true(job, kind):
            return kind
    if at(job, "metadata", "deletionTimestamp"):
        return "Terminating"
    for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if is_true(job, kind):
            return kind
    return "Running"


def _completions(job: RawObject, _: float) -> str:
    done, wanted = number(job, "status", "succeeded"), at(job, "spec", "completions")
    if wanted is not None:
        return f"{done}/{wanted}"
    parallel = number(job, "spec", "parallelism")
    return f"{done}/1 of {parallel}" if parallel > 1 else f"{done}/1"


def _duration(job: RawObject, now: float) -> str:
    start = seconds_of(at(job, "status", "startTime"))
    if start is None:
        return ""
    end = seconds_of(at(job, "status", "completionTime"))
    return tables.human_duration((now if end is None else end) - start)


def _last_schedule(obj: RawObject, now: float) -> str:
    last = at(obj, "status", "lastScheduleTime")
    return tables.age(last, now) if last else NONE


GROUP_PRIORITIES = {"batch": 17_400}
STRATEGIES = (
    CronJobStrategy(
        served("batch/v1", "CronJob", short="cj", categories="all", subresources="status"),
        columns=(
            NAME,
            Column("Schedule", text("spec", "schedule")),
            Column("Timezone", text("spec", "timeZone", otherwise=NONE)),
            Column("Suspend", lambda obj, _: str(flag("spec", "suspend")(obj, 0))),
            Column("Active", size("status", "active"), type="integer"),
            Column("Last Schedule", _last_schedule),
            AGE,
            *containers("spec", "jobTemplate", "spec", "template"),
            label_selector("spec", "jobTemplate", "spec", "selector"),
        ),
        template=("spec", "jobTemplate", "spec", "template"),
    ),
    JobStrategy(
        served("batch/v1", "Job", categories="all", subresources="status"),
        columns=(
            NAME,
            Column("Status", _job_status),
            Column("Completions", _completions),
            Column("Duration", _duration),
            AGE,
            *containers("spec", "template"),
            label_selector("spec", "selector"),
        ),
        frozen=("spec.selector", "spec.completions"),
        fields=paths("status.successful", default="0"),
        orphans_warning=_PODS_STAY,
    ),
)
