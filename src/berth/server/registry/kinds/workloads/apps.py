"""What keeps pods running: Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

Upstream: pkg/apis/apps/v1/defaults.go and pkg/apis/apps/validation.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from berth.kube.amounts.integers import integer
from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation.errors import Errors, FieldError
from berth.kube.validation.metadata import check_label_selector
from berth.kube.workloads.stored_templates import default_template, fill
from berth.server.fields import at, mapping, number
from berth.server.registry import checks
from berth.server.registry.checks import FieldErrors, forbidden, invalid, one_of, spec_of
from berth.server.registry.kinds.pods.pod_specs import TemplatedStrategy
from berth.server.registry.kinds.workloads.figures import (
    ROLLING,
    in_order,
    of_daemon_set,
    of_deployment,
    of_stateful_set,
    readiness,
)
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import AGE, NAME, NONE, Column, containers, count, label_selector, labels

_TEMPLATE = ("spec", "template")
_ROLLOUTS = ("strategy", "updateStrategy")
_GENERATION = "deprecated.daemonset.template.generation"
_RETENTION = "persistentVolumeClaimRetentionPolicy"


def _rolling(**settings: Any) -> RawObject:  # noqa: ANN401 - JSON values
    return {"type": ROLLING, "rollingUpdate": settings}


@dataclass(eq=False, kw_only=True)
class ControllerStrategy(TemplatedStrategy):
    """What pods are made from again and again."""

    spec_defaults: RawObject = field(default_factory=dict)

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        for name, value in self.spec_defaults.items():
            held = spec.setdefault(name, copy.deepcopy(value))
            if name in _ROLLOUTS:
                held["type"] = held.get("type") or ROLLING
                if held["type"] == ROLLING:
                    held["rollingUpdate"] = {**value["rollingUpdate"], **(held.get("rollingUpdate") or {})}
            elif name == _RETENTION:
                spec[name] = {**value, **held}
        default_template(spec)


@dataclass(eq=False, kw_only=True)
class WorkloadStrategy(ControllerStrategy):
    """A workload's selector fits its template, and stays."""

    figures: Callable[[RawObject], FieldErrors] = readiness  # what is wrong with the other parts of a spec
    order: tuple[str, ...] = ("replicas", "minReadySeconds", "selector", "template")  # of what is found
    told_as: str = ""  # what upstream calls it, if not by its kind

    def check(self, obj: RawObject) -> FieldErrors:
        yield from self.figures(spec_of(obj))
        given, template = at(obj, "spec", "selector"), mapping(obj, *_TEMPLATE)
        if not isinstance(given, dict):
            return
        wrong = Errors()
        check_label_selector(checks.decode_as(given, LabelSelector), wrong, ("spec", "selector"))
        if wrong:
            yield invalid("spec.selector", given, "invalid label selector")
            return
        selector = parse_label_selector(checks.decode_as(given, LabelSelector))
        if selector.everything:
            whose = self.told_as or obj["kind"].lower()
            yield invalid("spec.selector", {}, f"empty selector is invalid for {whose}")
            return
        labels = mapping(template, "metadata", "labels")
        if not selector.matches(labels):
            detail = "`selector` does not match template `labels`"
            yield invalid("spec.template.metadata.labels", labels, detail)
        spec, path = mapping(template, "spec"), "spec.template.spec"
        policy = spec.get("restartPolicy", "Always")
        yield from one_of(f"{path}.restartPolicy", policy, ("Always",), needed=False)
        if spec.get("activeDeadlineSeconds") is not None:
            detail = f"activeDeadlineSeconds in {obj['kind']} is not Supported"
            yield forbidden(f"{path}.activeDeadlineSeconds", detail)

    def judge(self, registry: Registry, obj: RawObject, old: RawObject | None) -> list[FieldError]:
        return in_order(self.order, super().judge(registry, obj, old))

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return checks.unchanged(obj, old, "spec", "selector")


class DaemonSetStrategy(WorkloadStrategy):
    """It says in an annotation how often its template was changed, for clients of long ago."""

    def default(self, obj: RawObject) -> None:
        super().default(obj)
        strategy = mapping(spec_of(obj), "updateStrategy")
        if strategy.get("rollingUpdate") is not None:
            fill(strategy["rollingUpdate"], maxUnavailable=0, maxSurge=0)

    def prepare_input(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        super().prepare_input(registry, obj, old)
        changed = old is None or at(old, *_TEMPLATE) != at(obj, *_TEMPLATE)
        before = integer(str((at(old, "metadata", "annotations") or {}).get(_GENERATION)), least=0) or 0
        annotations = obj["metadata"].get("annotations") or {}
        obj["metadata"]["annotations"] = {**annotations, _GENERATION: str(before + changed)}


class StatefulSetStrategy(WorkloadStrategy):
    """maxUnavailable is behind a gate that is off."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        super().prepare(registry, obj, old)
        path = ("spec", "updateStrategy", "rollingUpdate")
        if at(old, *path, "maxUnavailable") is None:
            mapping(obj, *path).pop("maxUnavailable", None)


def _ready_of_wanted(obj: RawObject, _: float) -> str:
    return f"{number(obj, 'status', 'readyReplicas')}/{number(obj, 'spec', 'replicas')}"


_REPLICAS = (
    NAME,
    Column("Desired", count("spec", "replicas"), type="integer"),
    Column("Current", count("status", "replicas"), type="integer"),
    Column("Ready", count("status", "readyReplicas"), type="integer"),
    AGE,
    *containers(*_TEMPLATE),
)


def _controller(obj: RawObject, _: float) -> str:
    for owner in at(obj, "metadata", "ownerReferences") or ():
        if at(owner, "controller"):
            group = str(at(owner, "apiVersion")).rpartition("/")[0]
            kind = str(at(owner, "kind")).lower()
            return f"{kind}.{group}/{at(owner, 'name')}" if group else f"{kind}/{at(owner, 'name')}"
    return NONE


GROUP_PRIORITIES = {"apps": 17_800}
STRATEGIES = (
    ControllerStrategy(  # the selector of the ReplicaSet's ancestor is not checked
        served("v1", "ReplicationController", short="rc", categories="all", subresources="scale status"),
        columns=(
            *_REPLICAS,
            Column("Selector", lambda obj, _: labels(mapping(obj, "spec", "selector")), wide=True),
        ),
        spec_defaults={"replicas": 1},
        fields=paths("status.replicas", default="0"),
        plain_selector=True,
        first_status={"replicas": 0},
    ),
    Strategy(
        served("apps/v1", "ControllerRevision"),
        columns=(
            NAME,
            Column("Controller", _controller),
            Column("Revision", count("revision")),
            AGE,
        ),
        generation=False,
    ),
    DaemonSetStrategy(
        served("apps/v1", "DaemonSet", short="ds", categories="all", subresources="status"),
        columns=(
            NAME,
            Column("Desired", count("status", "desiredNumberScheduled"), type="integer"),
            Column("Current", count("status", "currentNumberScheduled"), type="integer"),
            Column("Ready", count("status", "numberReady"), type="integer"),
            Column("Up-to-date", count("status", "updatedNumberScheduled"), type="integer"),
            Column("Available", count("status", "numberAvailable"), type="integer"),
            Column("Node Selector", lambda obj, _: labels(mapping(obj, *_TEMPLATE, "spec", "nodeSelector"))),
            AGE,
            *containers(*_TEMPLATE),
            label_selector("spec", "selector"),
        ),
        spec_defaults={"revisionHistoryLimit": 10, "updateStrategy": _rolling(maxUnavailable=1, maxSurge=0)},
        figures=of_daemon_set,
        order=("selector", "template", "minReadySeconds", "updateStrategy", "revisionHistoryLimit"),
        first_status=dict.fromkeys(
            ("currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"), 0
        ),
    ),
    WorkloadStrategy(
        served("apps/v1", "Deployment", short="deploy", categories="all", subresources="scale status"),
        columns=(
            NAME,
            Column("Ready", _ready_of_wanted),
            Column("Up-to-date", count("status", "updatedReplicas")),
            Column("Available", count("status", "availableReplicas")),
            AGE,
            *containers(*_TEMPLATE),
            label_selector("spec", "selector"),
        ),
        spec_defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": _rolling(maxUnavailable="25%", maxSurge="25%"),
        },
        figures=of_deployment,
        order=(
            *("replicas", "selector", "template", "strategy", "minReadySeconds", "revisionHistoryLimit"),
            "progressDeadlineSeconds",
        ),
        status_metadata=("annotations", "finalizers", "ownerReferences"),
    ),
    WorkloadStrategy(
        served("apps/v1", "ReplicaSet", short="rs", categories="all", subresources="scale status"),
        columns=(*_REPLICAS, label_selector("spec", "selector")),
        spec_defaults={"replicas": 1},
        told_as="deployment",
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    StatefulSetStrategy(
        served("apps/v1", "StatefulSet", short="sts", categories="all", subresources="scale status"),
        columns=(NAME, Column("Ready", _ready_of_wanted), AGE, *containers(*_TEMPLATE)),
        spec_defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": _rolling(partition=0),
            _RETENTION: {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        figures=of_stateful_set,
        order=(
            *("podManagementPolicy", "updateStrategy", _RETENTION, "replicas", "minReadySeconds", "ordinals"),
            *("serviceName", "selector", "template"),
        ),
        first_status={"replicas": 0, "availableReplicas": 0},
    ),
)
