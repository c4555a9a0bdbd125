"""HorizontalPodAutoscalers: stored and judged as upstream does it; nobody does what they say.

Upstream: pkg/apis/autoscaling/{v2/defaults.go,validation}.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.validation.errors import NOT_POSITIVE
from berth.server.fields import at, mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import (
    FieldErrors,
    at_least,
    forbidden,
    has,
    invalid,
    one_of,
    required,
    spec_of,
)
from berth.server.registry.strategy import Strategy, served
from berth.server.tables import AGE, NAME, NONE, UNKNOWN, UNSET, Column, count, text

# The field that says more about a metric, by its type.
_SOURCES = {
    kind: kind[0].lower() + kind[1:]
    for kind in ("ContainerResource", "External", "Object", "Pods", "Resource")
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_MORE_THAN_LEAST = "must be greater than or equal to `minReplicas`"
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800  # seconds


class AutoscalerStrategy(Strategy):
    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def check(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        yield from at_least("spec.minReplicas", least, 1)
        yield from has("spec", spec, "maxReplicas", detail="must be set and greater than 0")
        yield from at_least("spec.maxReplicas", most or 1, 1)
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


def _reference_errors(path: str, reference: RawObject) -> FieldErrors:
    yield from checks.reference(path, reference)
    version = str(reference.get("apiVersion") or "")
    if version.count("/") > 1:
        yield invalid(f"{path}.apiVersion", version, f"unexpected GroupVersion string: {version}")
    elif "/" not in version:
        yield invalid(f"{path}.apiVersion", version, "apiVersion must specify API group")


def _metric_errors(path: str, metric: RawObject) -> FieldErrors:
    kind = str(metric.get("type") or "")
    yield from has(path, metric, "type", detail="must specify a metric source type")
    yield from one_of(f"{path}.type", kind, tuple(_SOURCES), needed=False)
    own, given = _SOURCES.get(kind), [name for name in _SOURCES.values() if metric.get(name) is not None]
    if own is None:
        return
    if own not in given:
        yield required(f"{path}.{own}", "must populate information for the given metric source")
    for name in given:
        if name != own:
            yield forbidden(f"{path}.{name}", "must populate the given metric source only")
    if given == [own] and kind in ("Resource", "ContainerResource"):
        yield from _resource_errors(f"{path}.{own}", mapping(metric[own]))


def _resource_errors(path: str, source: RawObject) -> FieldErrors:
    yield from has(path, source, "name", detail="must specify a resource name")
    target, path = mapping(source, "target"), f"{path}.target"
    kind, share = str(target.get("type") or ""), target.get("averageUtilization")
    yield from has(path, target, "type", detail="must specify a metric target type")
    if kind not in _TARGETS:
        yield invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    yield from at_least(f"{path}.averageUtilization", share, 1, "must be greater than 0")
    if share is None and target.get("averageValue") is None:
        detail = "must set either a target raw value or a target utilization"
        yield required(f"{path}.averageUtilization", detail)
    elif share is not None and target.get("averageValue") is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield forbidden(f"{path}.averageValue", detail)


def _rules_errors(path: str, rules: RawObject) -> FieldErrors:
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


GROUP_PRIORITIES = {"autoscaling": 17_500}
STRATEGIES = (
    AutoscalerStrategy(
        served(
            "autoscaling/v2", "HorizontalPodAutoscaler", short="hpa", categories="all", subresources="status"
        ),
        columns=(
            NAME,
            Column(
                "Reference",
                lambda obj, _: (
                    f"{at(obj, 'spec', 'scaleTargetRef', 'kind')}/{at(obj, 'spec', 'scaleTargetRef', 'name')}"
                ),
            ),
            Column("Targets", lambda obj, _: UNKNOWN if at(obj, "spec", "metrics") else NONE),
            Column("MinPods", text("spec", "minReplicas", otherwise=UNSET)),
            Column("MaxPods", count("spec", "maxReplicas")),
            Column("Replicas", count("status", "currentReplicas")),
            AGE,
        ),
        first_status={"desiredReplicas": 0, "currentMetrics": None},
        generation=False,
    ),
)
