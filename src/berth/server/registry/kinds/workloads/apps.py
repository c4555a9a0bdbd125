"""What makes pods: Deployments, ReplicaSets, StatefulSets, DaemonSets, ReplicationControllers and Jobs.

Upstream: pkg/apis/{apps,batch}/v1/defaults.go, pkg/apis/apps/validation, pkg/registry/batch/job.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation.errors import NOT_POSITIVE, FieldError
from berth.kube.well_known import JOB_NAME, JOB_UID
from berth.kube.workloads.cron_schedule import ScheduleError, parse, zone_error
from berth.kube.workloads.stored_templates import default_pod_spec, default_template, fill
from berth.server.fields import at, mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import Found, at_least, forbidden, invalid, one_of, required, spec_of
from berth.server.registry.kinds.pods.pod_specs import TemplatedStrategy
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import workloads as tables

_ROLLING, _ROLLOUTS = "RollingUpdate", ("strategy", "updateStrategy")
_POLICIES = ("Allow", "Forbid", "Replace")
_LONGEST_NAME = 52  # of 63 characters, eleven are the time of a Job
_PODS_STAY = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove "
    "them or set propagationPolicy=Orphan to suppress this warning"
)
# The field that says more about a metric, by its type.
_SOURCES = {
    kind: kind[0].lower() + kind[1:]
    for kind in ("ContainerResource", "External", "Object", "Pods", "Resource")
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_MORE_THAN_LEAST = "must be greater than or equal to `minReplicas`"
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800  # seconds


def _rolling(**settings: Any) -> RawObject:  # noqa: ANN401 - JSON values
    return {"type": _ROLLING, "rollingUpdate": settings}


@dataclass(eq=False, kw_only=True)
class _ControllerStrategy(TemplatedStrategy):
    """What pods are made from again and again."""

    spec_defaults: RawObject = field(default_factory=dict)

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        for name, value in self.spec_defaults.items():
            held = spec.setdefault(name, copy.deepcopy(value))
            if name in _ROLLOUTS and held.setdefault("type", _ROLLING) == _ROLLING:
                held["rollingUpdate"] = {**value["rollingUpdate"], **(held.get("rollingUpdate") or {})}
        default_template(spec)


class WorkloadStrategy(_ControllerStrategy):
    """A workload's selector fits its template, and stays."""

    def check(self, obj: RawObject) -> Found:
        spec = obj.get("spec") or {}
        given, template = spec.get("selector"), spec.get("template") or {}
        if not isinstance(given, dict):
            return
        selector = parse_label_selector(checks.decode_as(given, LabelSelector))
        if selector.everything:
            yield invalid("spec.selector", given, f"empty selector is invalid for {obj['kind'].lower()}")
            return
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not selector.matches(labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", labels, detail)
        policy = (template.get("spec") or {}).get("restartPolicy", "Always")
        yield from one_of("spec.template.spec.restartPolicy", policy, ("Always",), needed=False)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return checks.unchanged(obj, old, "spec", "selector")


class ReplicationControllerStrategy(_ControllerStrategy):
    """The ReplicaSet's ancestor, whose selector is nothing but labels; it is not checked."""

    def scale_selector(self, selector: RawObject) -> RawObject:
        return {"matchLabels": selector}


class JobStrategy(TemplatedStrategy):
    """A job selects its own pods by its uid, and orphans them unless it is told not to."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        if spec.get("completions") is None and spec.get("parallelism") is None:
            spec["completions"] = spec["parallelism"] = 1
        replaced = "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed"
        fill(spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
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

    def check(self, obj: RawObject) -> Found:
        return _check_policy(mapping(obj, "spec"), "spec")

    def validate_update(self, obj: RawObject, old: RawObject) -> Found:
        yield from super().validate_update(obj, old)
        # The scheduling directives of a suspended job may still change.
        if not old["spec"].get("suspend") or at(old, "status", "startTime"):
            yield from checks.unchanged(obj, old, "spec", "template")


def _check_policy(spec: RawObject, path: str) -> Found:
    """That the pods of a Job come to an end."""
    policy = mapping(spec, "template", "spec").get("restartPolicy", "Always")
    path = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield required(path, 'valid values: "OnFailure", "Never"')
    else:
        yield from one_of(path, policy, ("OnFailure", "Never"), needed=False)


class CronJobStrategy(TemplatedStrategy):
    """A schedule of Jobs."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        fill(spec, concurrencyPolicy="Allow", suspend=False)
        fill(spec, successfulJobsHistoryLimit=3, failedJobsHistoryLimit=1)
        template = self._template(obj)
        if template is not None:
            default_pod_spec(template["spec"])

    def check(self, obj: RawObject) -> Found:
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
        yield from _check_policy(mapping(spec, "jobTemplate", "spec"), "spec.jobTemplate.spec")

    def validate_create(self, obj: RawObject) -> Found:
        name = obj["metadata"].get("name") or ""
        yield from _check_zone(obj["spec"], {})
        if len(name) > _LONGEST_NAME:
            yield invalid("metadata.name", name, f"must be no more than {_LONGEST_NAME} characters")

    def validate_update(self, obj: RawObject, old: RawObject) -> Found:
        return _check_zone(obj["spec"], old["spec"])


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


# --- autoscaling: stored and judged as upstream does it (pkg/apis/autoscaling/validation), nobody does it


class AutoscalerStrategy(Strategy):
    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def check(self, obj: RawObject) -> Found:
        spec = mapping(obj, "spec")
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        yield from at_least("spec.minReplicas", least, 1)
        if most == 0:
            yield required("spec.maxReplicas", "must be set and greater than 0")
        else:
            yield from at_least("spec.maxReplicas", most, 1)
        if isinstance(least, int):
            yield from at_least("spec.maxReplicas", most, least, _MORE_THAN_LEAST)
        yield from _reference_errors("spec.scaleTargetRef", mapping(spec, "scaleTargetRef"))
        metrics = mappings(spec, "metrics")
        for path, metric in checks.numbered("spec.metrics", metrics):
            yield from _metric_errors(path, metric)
        if least == 0 and not {"Object", "External"} & {metric.get("type") for metric in metrics}:
            detail = "must specify at least one Object or External metric to support scaling to zero replicas"
            yield forbidden("spec.metrics", detail)
        behavior = mapping(spec, "behavior")
        for name in ("scaleUp", "scaleDown"):
            if name in behavior:
                yield from _rules_errors(f"spec.behavior.{name}", mapping(behavior[name]))


def _reference_errors(path: str, reference: RawObject) -> Found:
    yield from checks.reference(path, reference)
    version = str(reference.get("apiVersion") or "")
    if version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version:
        yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric_errors(path: str, metric: RawObject) -> Found:
    kind = str(metric.get("type") or "")
    if not kind:
        yield required(f"{path}.type", "must specify a metric source type")
    yield from one_of(f"{path}.type", kind, tuple(_SOURCES), needed=False)
    if kind in _SOURCES and metric.get(_SOURCES[kind]) is None:
        yield required(f"{path}.{_SOURCES[kind]}", "must populate information for the given metric source")
    others = [
        name for name in _SOURCES.values() if metric.get(name) is not None and name != _SOURCES.get(kind)
    ]
    for name in others if kind in _SOURCES else ():
        yield forbidden(f"{path}.{name}", "must populate the given metric source only")
    if not others and kind in ("Resource", "ContainerResource") and metric.get(_SOURCES[kind]) is not None:
        yield from _resource_errors(f"{path}.{_SOURCES[kind]}", mapping(metric[_SOURCES[kind]]))


def _resource_errors(path: str, source: RawObject) -> Found:
    if not source.get("name"):
        yield required(f"{path}.name", "must specify a resource name")
    target, path = mapping(source, "target"), f"{path}.target"
    kind, share = str(target.get("type") or ""), target.get("averageUtilization")
    if not kind:
        yield required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    yield from at_least(f"{path}.averageUtilization", share, 1, "must be greater than 0")
    if share is None and target.get("averageValue") is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    elif share is not None and target.get("averageValue") is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", detail)


def _rules_errors(path: str, rules: RawObject) -> Found:
    window, at = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    yield from at_least(at, window, 0, "must be greater than or equal to zero")
    if isinstance(window, int) and window > _LONGEST_WINDOW:
        yield invalid(at, window, f"must be less than or equal to {_LONGEST_WINDOW}")
    for place, policy in checks.numbered(f"{path}.policies", mappings(rules, "policies")):
        for name in ("value", "periodSeconds"):
            yield from at_least(f"{place}.{name}", policy.get(name) or 0, 1, NOT_POSITIVE)
        if (period := policy.get("periodSeconds") or 0) > _LONGEST_PERIOD:
            detail = f"must be less than or equal to {_LONGEST_PERIOD}"
            yield invalid(f"{place}.periodSeconds", period, detail)


STRATEGIES = (
    ReplicationControllerStrategy(
        served("v1", "ReplicationController", short="rc", categories="all", subresources="scale status"),
        columns=tables.REPLICATION_CONTROLLER,
        spec_defaults={"replicas": 1},
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    Strategy(served("apps/v1", "ControllerRevision"), columns=tables.CONTROLLER_REVISION, generation=False),
    WorkloadStrategy(
        served("apps/v1", "DaemonSet", short="ds", categories="all", subresources="status"),
        columns=tables.DAEMON_SET,
        spec_defaults={"revisionHistoryLimit": 10, "updateStrategy": _rolling(maxUnavailable=1, maxSurge=0)},
        first_status=dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        ),
    ),
    WorkloadStrategy(
        served("apps/v1", "Deployment", short="deploy", categories="all", subresources="scale status"),
        columns=tables.DEPLOYMENT,
        spec_defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": _rolling(maxUnavailable="25%", maxSurge="25%"),
        },
        status_metadata=("annotations", "finalizers", "ownerReferences"),
    ),
    WorkloadStrategy(
        served("apps/v1", "ReplicaSet", short="rs", categories="all", subresources="scale status"),
        columns=tables.REPLICA_SET,
        spec_defaults={"replicas": 1},
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    WorkloadStrategy(
        served("apps/v1", "StatefulSet", short="sts", categories="all", subresources="scale status"),
        columns=tables.STATEFUL_SET,
        spec_defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": _rolling(partition=0),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        first_status={"replicas": 0, "availableReplicas": 0},
    ),
    CronJobStrategy(
        served("batch/v1", "CronJob", short="cj", categories="all", subresources="status"),
        columns=tables.CRON_JOB,
        template=("spec", "jobTemplate", "spec", "template"),
    ),
    JobStrategy(
        served("batch/v1", "Job", categories="all", subresources="status"),
        columns=tables.JOB,
        frozen=("spec.selector", "spec.completions"),
        fields=paths("status.successful", default="0"),
        orphans_warning=_PODS_STAY,
    ),
    AutoscalerStrategy(
        served(
            "autoscaling/v2", "HorizontalPodAutoscaler", short="hpa", categories="all", subresources="status"
        ),
        columns=tables.HORIZONTAL_POD_AUTOSCALER,
        first_status={"desiredReplicas": 0, "currentMetrics": None},
        generation=False,
    ),
)
