"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

Upstream: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation import FieldError
from berth.server.registry.checks import Found, invalid, one_of
from berth.server.registry.fields import decode_as, spec_of, unchanged
from berth.server.registry.kinds.pods.pod_specs import TemplatedStrategy, default_template
from berth.server.registry.resources import served
from berth.server.registry.strategy import Strategy
from berth.server.storage.selectors import paths
from berth.server.tables import workloads as tables

_ROLLING, _ROLLOUTS = "RollingUpdate", ("strategy", "updateStrategy")


def _rolling(**settings: Any) -> RawObject:  # noqa: ANN401 - JSON values
    return {"type": _ROLLING, "rollingUpdate": settings}


@dataclass(eq=False, kw_only=True)
class _ControllerStrategy(TemplatedStrategy):
    """What pods are made from again and again. `defaults`: of its spec."""

    defaults: RawObject = field(default_factory=dict)

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        for name, value in self.defaults.items():
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
        selector = parse_label_selector(decode_as(given, LabelSelector))
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
        return unchanged(obj, old, "spec", "selector")


class ReplicationControllerStrategy(_ControllerStrategy):
    """The ReplicaSet's ancestor, whose selector is nothing but labels; it is not checked."""

    def scale_selector(self, selector: RawObject) -> RawObject:
        return {"matchLabels": selector}


STRATEGIES = (
    ReplicationControllerStrategy(
        served(
            "v1",
            "replicationcontrollers",
            "ReplicationController",
            short="rc",
            categories="all",
            subresources="scale status",
        ),
        columns=tables.REPLICATION_CONTROLLER,
        defaults={"replicas": 1},
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    Strategy(
        served("apps/v1", "controllerrevisions", "ControllerRevision"),
        columns=tables.CONTROLLER_REVISION,
        generation=False,
    ),
    WorkloadStrategy(
        served("apps/v1", "daemonsets", "DaemonSet", short="ds", categories="all", subresources="status"),
        columns=tables.DAEMON_SET,
        defaults={"revisionHistoryLimit": 10, "updateStrategy": _rolling(maxUnavailable=1, maxSurge=0)},
        first_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    ),
    WorkloadStrategy(
        served(
            "apps/v1",
            "deployments",
            "Deployment",
            short="deploy",
            categories="all",
            subresources="scale status",
        ),
        columns=tables.DEPLOYMENT,
        defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
            "strategy": _rolling(maxUnavailable="25%", maxSurge="25%"),
        },
        status_metadata=("annotations", "finalizers", "ownerReferences"),
    ),
    WorkloadStrategy(
        served(
            "apps/v1", "replicasets", "ReplicaSet", short="rs", categories="all", subresources="scale status"
        ),
        columns=tables.REPLICA_SET,
        defaults={"replicas": 1},
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    WorkloadStrategy(
        served(
            "apps/v1",
            "statefulsets",
            "StatefulSet",
            short="sts",
            categories="all",
            subresources="scale status",
        ),
        columns=tables.STATEFUL_SET,
        defaults={
            "replicas": 1,
            "revisionHistoryLimit": 10,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": _rolling(partition=0),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
        },
        first_status={"replicas": 0, "availableReplicas": 0},
    ),
)
