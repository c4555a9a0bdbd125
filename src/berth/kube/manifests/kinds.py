"""Which kinds Berth has a typed view of, and which of all kinds live in a namespace."""

from __future__ import annotations

from typing import get_args

from berth.kube import objects
from berth.kube.api_resources import VIEWS
from berth.kube.objects import CronJob, Job, KubeObject, PodTemplateSpec, ReplicationController, Workload

# Every version a group of ours ever had.
_VERSIONS = {
    "": ("v1",),
    "apps": ("v1", "v1beta2", "v1beta1"),
    "extensions": ("v1beta1",),
    "batch": ("v1", "v1beta1", "v2alpha1"),
    "policy": ("v1", "v1beta1"),
    "scheduling.k8s.io": ("v1", "v1beta1", "v1alpha1", "v1alpha2", "v1alpha3"),
    "scheduling.x-k8s.io": ("v1alpha1",),
    "storage.k8s.io": ("v1", "v1beta1", "v1alpha1"),
    "resource.k8s.io": ("v1", "v1beta2", "v1beta1", "v1alpha3", "v1alpha2", "v1alpha1"),
}
# The versions that a server of today may have, the best first, where that is not v1 alone.
_SERVED: dict[str, tuple[str, ...]] = {
    "extensions": (),
    "scheduling.x-k8s.io": ("v1alpha1",),
    "resource.k8s.io": ("v1", "v1beta2", "v1beta1"),
}
# Of kinds that came after their group, which versions had them.
_LATE = {("scheduling.k8s.io", "PodGroup"): ("v1beta1", "v1alpha3", "v1alpha2")}
# As people write objects, not as a control plane keeps them.
_WRITTEN: dict[type, type] = {
    objects.LivePod: objects.Pod,
    objects.LiveWorkload: Workload,
    objects.LiveJob: Job,
    objects.LiveCronJob: CronJob,
}
_VIEWS: dict[tuple[str, str], type[KubeObject]] = {
    (each.group, each.kind): _WRITTEN.get(view, view)
    for each, view in VIEWS.items()
    if _WRITTEN.get(view, view) in get_args(KubeObject)
} | {("extensions", kind): Workload for kind in ("Deployment", "ReplicaSet", "DaemonSet")}
_BY_KIND = {kind: view for (_, kind), view in _VIEWS.items()}
_CLUSTER_SCOPED = frozenset(each.kind for each in VIEWS if not each.namespaced and each.kind in _BY_KIND)


def group_of(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def view_of(api_version: str, kind: str) -> type[KubeObject] | None:
    """The typed view for a kind, None if Berth does not read it.

    People leave the version out, and all of them read the same; the group tells our Service from another's.
    """
    if not api_version:
        return _BY_KIND.get(kind)
    return _VIEWS.get((group_of(api_version), kind))


def home_of(api_version: str, kind: str) -> str | None:
    """The API version to write a kind with a typed view in; None for any other kind."""
    return _home(group_of(api_version), kind) if view_of(api_version, kind) else None


def _home(group: str, kind: str) -> str:
    """The best version of a kind, in its own group if that still has it."""
    own = (group, kind) in _VIEWS and _served(group, kind)
    home = group if own else next(known for known, name in _VIEWS if name == kind)
    return f"{home}/{_served(home, kind)[0]}".lstrip("/")


def _served(group: str, kind: str) -> tuple[str, ...]:
    return _LATE.get((group, kind)) or _SERVED.get(group, ("v1",))


def read_kinds(group: str) -> tuple[str, ...]:
    """The kinds of an API group that have a typed view."""
    return tuple(kind for held, kind in _VIEWS if held == group)


def versions_of(group: str) -> tuple[str, ...]:
    """The versions that an API group ever had; none if it has no kind with a typed view."""
    return _VERSIONS.get(group, ())


def expected_api_version(api_version: str, kind: str) -> str | None:
    """What to write instead, if a kind of ours has an apiVersion that never existed; else None."""
    group, _, version = api_version.rpartition("/")
    if not api_version or kind not in _BY_KIND or group not in _VERSIONS:
        return None  # whatever it is, it is not one of ours
    if (group, kind) in _VIEWS and version in _LATE.get((group, kind), _VERSIONS[group]):
        return None
    return _home(group, kind)


def served_instead(api_version: str, kind: str) -> str | None:
    """What to write instead, if no server of today has this version of a kind of ours; else None."""
    group, _, version = api_version.rpartition("/")
    if not api_version or (group, kind) not in _VIEWS or version in _served(group, kind):
        return None
    return _home(group, kind)


def pod_template(view: KubeObject | None) -> tuple[tuple[str, ...], PodTemplateSpec | None]:
    """Where an object has the template of its pods, and what stands there; no path if it makes no pods."""
    path = ("spec", "template")
    if isinstance(view, Workload | ReplicationController | Job):
        return path, view.spec.template
    if isinstance(view, CronJob):
        job = view.spec.job_template
        return ("spec", "jobTemplate", *path), job.spec.template if job and job.spec else None
    return (), None


def is_cluster_scoped(kind: str) -> bool:
    """For kinds with a typed view."""
    return kind in _CLUSTER_SCOPED


def is_list(kind: str) -> bool:
    """Whether this is the list of a kind of ours, or of anything."""
    return kind == "List" or (item_kind(kind) or "") in _BY_KIND


def item_kind(list_kind: str) -> str | None:
    """The kind of the items of a ``PodList``; empty for a plain ``List``, None if it is no list at all."""
    return list_kind.removesuffix("List") if list_kind.endswith("List") else None
