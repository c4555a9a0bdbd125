"""HorizontalPodAutoscalers: stored and judged as upstream does it; nobody scales by them.

Upstream: pkg/apis/autoscaling/validation.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import FORBIDDEN, INVALID, NOT_SUPPORTED, REQUIRED
from berth.server.registry.fields import mapping, mappings, path_segment_errors, spec_of
from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.tables import workloads as tables

# The field that says more about a metric, by its type.
_SOURCES = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS = ("Utilization", "Value", "AverageValue")
_LONGEST_WINDOW, _LONGEST_PERIOD = 3600, 1800  # seconds


class AutoscalerStrategy(Strategy):
    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            target = {"type": "Utilization", "averageUtilization": 80}
            spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]

    def check(self, obj: RawObject) -> Iterator[FieldError]:
        spec = mapping(obj.get("spec"))
        least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
        if isinstance(least, int) and least < 1:
            yield FieldError("spec.minReplicas", INVALID, "must be greater than or equal to 1", least)
        if most == 0:
            yield FieldError("spec.maxReplicas", REQUIRED, "must be set and greater than 0")
        elif most < 0:
            yield FieldError("spec.maxReplicas", INVALID, "must be greater than or equal to 1", most)
        if isinstance(least, int) and most < least:
            yield FieldError(
                "spec.maxReplicas", INVALID, "must be greater than or equal to `minReplicas`", most
            )
        yield from _reference_errors("spec.scaleTargetRef", mapping(spec.get("scaleTargetRef")))
        metrics = mappings(spec.get("metrics"))
        for i, metric in enumerate(metrics):
            yield from _metric_errors(f"spec.metrics[{i}]", metric)
        if least == 0 and not {"Object", "External"} & {metric.get("type") for metric in metrics}:
            detail = "must specify at least one Object or External metric to support scaling to zero replicas"
            yield FieldError("spec.metrics", FORBIDDEN, detail)
        behavior = mapping(spec.get("behavior"))
        for name in ("scaleUp", "scaleDown"):
            if name in behavior:
                yield from _rules_errors(f"spec.behavior.{name}", mapping(behavior[name]))


def _reference_errors(path: str, reference: RawObject) -> Iterator[FieldError]:
    for name in ("kind", "name"):
        given = str(reference.get(name) or "")
        if not given:
            yield FieldError(f"{path}.{name}", REQUIRED)
        for detail in path_segment_errors(given):
            yield FieldError(f"{path}.{name}", INVALID, detail, given)
    version = str(reference.get("apiVersion") or "")
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        yield FieldError(f"{path}.apiVersion", INVALID, detail, version)
    elif "/" not in version:
        yield FieldError(f"{path}.apiVersion", INVALID, "apiVersion must specify API group", version)


def _metric_errors(path: str, metric: RawObject) -> Iterator[FieldError]:
    kind = str(metric.get("type") or "")
    if not kind:
        yield FieldError(f"{path}.type", REQUIRED, "must specify a metric source type")
    if kind not in _SOURCES:
        known = ", ".join(f'"{one}"' for one in _SOURCES)
        yield FieldError(f"{path}.type", NOT_SUPPORTED, f"supported values: {known}", kind)
    elif metric.get(_SOURCES[kind]) is None:
        detail = "must populate information for the given metric source"
        yield FieldError(f"{path}.{_SOURCES[kind]}", REQUIRED, detail)
    others = [
        name for name in _SOURCES.values() if metric.get(name) is not None and name != _SOURCES.get(kind)
    ]
    for name in others if kind in _SOURCES else ():
        yield FieldError(f"{path}.{name}", FORBIDDEN, "must populate the given metric source only")
    if not others and kind in ("Resource", "ContainerResource") and metric.get(_SOURCES[kind]) is not None:
        yield from _resource_errors(f"{path}.{_SOURCES[kind]}", mapping(metric[_SOURCES[kind]]))


def _resource_errors(path: str, source: RawObject) -> Iterator[FieldError]:
    if not source.get("name"):
        yield FieldError(f"{path}.name", REQUIRED, "must specify a resource name")
    target, path = mapping(source.get("target")), f"{path}.target"
    kind, share = str(target.get("type") or ""), target.get("averageUtilization")
    if not kind:
        yield FieldError(f"{path}.type", REQUIRED, "must specify a metric target type")
    if kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        yield FieldError(f"{path}.type", INVALID, detail, kind)
    if isinstance(share, int) and share < 1:
        yield FieldError(f"{path}.averageUtilization", INVALID, "must be greater than 0", share)
    if share is None and target.get("averageValue") is None:
        detail = "must set either a target raw value or a target utilization"
        yield FieldError(f"{path}.averageUtilization", REQUIRED, detail)
    elif share is not None and target.get("averageValue") is not None:
        detail = "may not set both a target raw value and a target utilization"
        yield FieldError(f"{path}.averageValue", FORBIDDEN, detail)


def _rules_errors(path: str, rules: RawObject) -> Iterator[FieldError]:
    window = rules.get("stabilizationWindowSeconds")
    if isinstance(window, int) and window < 0:
        detail = "must be greater than or equal to zero"
        yield FieldError(f"{path}.stabilizationWindowSeconds", INVALID, detail, window)
    if isinstance(window, int) and window > _LONGEST_WINDOW:
        detail = f"must be less than or equal to {_LONGEST_WINDOW}"
        yield FieldError(f"{path}.stabilizationWindowSeconds", INVALID, detail, window)
    for i, policy in enumerate(mappings(rules.get("policies"))):
        value, period = policy.get("value") or 0, policy.get("periodSeconds") or 0
        if value <= 0:
            yield FieldError(f"{path}.policies[{i}].value", INVALID, "must be greater than zero", value)
        if period <= 0:
            detail = "must be greater than zero"
            yield FieldError(f"{path}.policies[{i}].periodSeconds", INVALID, detail, period)
        elif period > _LONGEST_PERIOD:
            detail = f"must be less than or equal to {_LONGEST_PERIOD}"
            yield FieldError(f"{path}.policies[{i}].periodSeconds", INVALID, detail, period)


STRATEGIES = (
    AutoscalerStrategy(
        served(
            "autoscaling/v2",
            "horizontalpodautoscalers",
            "HorizontalPodAutoscaler",
            short="hpa",
            categories="all",
            subresources="status",
        ),
        columns=tables.HORIZONTAL_POD_AUTOSCALER,
        first_status={"desiredReplicas": 0, "currentMetrics": None},
        generation=False,
    ),
)
