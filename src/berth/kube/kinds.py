"""Which kinds Berth has a typed view of, and which of all kinds live in a namespace."""

from __future__ import annotations

from berth.kube.objects import (
    CronJob,
    Job,
    KubeObject,
    Namespace,
    Node,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
    ReplicationController,
    Service,
    Workload,
)

_WORKLOAD_GROUPS = ("apps", "extensions")
_VIEWS: dict[tuple[str, str], type[KubeObject]] = {
    ("", "Pod"): Pod,
    ("", "Node"): Node,
    ("", "Namespace"): Namespace,
    ("", "Service"): Service,
    ("", "ReplicationController"): ReplicationController,
    ("batch", "Job"): Job,
    ("batch", "CronJob"): CronJob,
    ("policy", "PodDisruptionBudget"): PodDisruptionBudget,
    ("scheduling.k8s.io", "PriorityClass"): PriorityClass,
    **{
        (group, kind): Workload
        for group in _WORKLOAD_GROUPS
        for kind in ("Deployment", "ReplicaSet", "DaemonSet")
    },
    ("apps", "StatefulSet"): Workload,
}
_BY_KIND = {kind: view for (_, kind), view in _VIEWS.items()}
_CLUSTER_SCOPED = frozenset({"Node", "Namespace", "PriorityClass"})


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def view_of(api_version: str, kind: str) -> type[KubeObject] | None:
    """The typed view for a kind, None if Berth does not read it.

    The version is of no interest, and people leave it out; the group tells our Service from another's.
    """
    if not api_version:
        return _BY_KIND.get(kind)
    return _VIEWS.get((group_of(api_version), kind))


def is_cluster_scoped(kind: str) -> bool:
    """For kinds with a typed view."""
    return kind in _CLUSTER_SCOPED


def item_kind(list_kind: str) -> str | None:
    """The kind of the items of a ``PodList``; empty for a plain ``List``, None if it is no list at all."""
    return list_kind.removesuffix("List") if list_kind.endswith("List") else None
