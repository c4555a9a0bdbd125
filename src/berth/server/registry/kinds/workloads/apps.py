"""Deployments, ReplicaSets, StatefulSets, DaemonSets and ReplicationControllers.

Upstream: pkg/apis/apps/v1/defaults.go, pkg/apis/apps/validation.
"""

from __future__ import annotations

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

_ROLLING = "RollingUpdate"


class WorkloadStrategy(TemplatedStrategy):
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


class ReplicaSetStrategy(WorkloadStrategy):
    """Replicas of one template."""

    def default(self, obj: RawObject) -> None:
        _default_replicas(obj)


class ReplicationControllerStrategy(TemplatedStrategy):
    """The ReplicaSet's ancestor, whose selector is nothing but labels; it is not checked."""

    def default(self, obj: RawObject) -> None:
        _default_replicas(obj)

    def scale_selector(self, selector: RawObject) -> RawObject:
        return {"matchLabels": selector}


class DeploymentStrategy(WorkloadStrategy):
    """A rollout of one template after the other."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)
        _default_rollout(spec, "strategy", maxUnavailable="25%", maxSurge="25%")
        default_template(spec)


class StatefulSetStrategy(WorkloadStrategy):
    """Replicas with names of their own."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("podManagementPolicy", "OrderedReady")
        _default_rollout(spec, "updateStrategy", partition=0)
        spec.setdefault(
            "persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}
        )
        default_template(spec)


class DaemonSetStrategy(WorkloadStrategy):
    """One pod a node."""

    def default(self, obj: RawObject) -> None:
        spec = spec_of(obj)
        spec.setdefault("revisionHistoryLimit", 10)
        _default_rollout(spec, "updateStrategy", maxUnavailable=1, maxSurge=0)
        default_template(spec)


def _default_replicas(obj: RawObject) -> None:
    spec = spec_of(obj)
    spec.setdefault("replicas", 1)
    default_template(spec)


def _default_rollout(spec: RawObject, name: str, **rolling: Any) -> None:  # noqa: ANN401 - JSON values
    strategy = spec.setdefault(name, {})
    strategy.setdefault("type", _ROLLING)
    if strategy["type"] == _ROLLING:
        strategy["rollingUpdate"] = {**rolling, **(strategy.get("rollingUpdate") or {})}


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
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    Strategy(
        served("apps/v1", "controllerrevisions", "ControllerRevision"),
        columns=tables.CONTROLLER_REVISION,
        generation=False,
    ),
    DaemonSetStrategy(
        served("apps/v1", "daemonsets", "DaemonSet", short="ds", categories="all", subresources="status"),
        columns=tables.DAEMON_SET,
        first_status={
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    ),
    DeploymentStrategy(
        served(
            "apps/v1",
            "deployments",
            "Deployment",
            short="deploy",
            categories="all",
            subresources="scale status",
        ),
        columns=tables.DEPLOYMENT,
        status_metadata=("annotations", "finalizers", "ownerReferences"),
    ),
    ReplicaSetStrategy(
        served(
            "apps/v1", "replicasets", "ReplicaSet", short="rs", categories="all", subresources="scale status"
        ),
        columns=tables.REPLICA_SET,
        fields=paths("status.replicas", default="0"),
        first_status={"replicas": 0},
    ),
    StatefulSetStrategy(
        served(
            "apps/v1",
            "statefulsets",
            "StatefulSet",
            short="sts",
            categories="all",
            subresources="scale status",
        ),
        columns=tables.STATEFUL_SET,
        first_status={"replicas": 0, "availableReplicas": 0},
    ),
)
