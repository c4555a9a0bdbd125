"""How many pods a workload wants, which are available, which goes first, and how they are made."""

from __future__ import annotations

import copy
from typing import Any

from berth.kube.amounts.shares import or_one
from berth.kube.api_resources import PODS, Resource
from berth.kube.objects import LiveJob, LivePod, LiveWorkload, RawObject
from berth.kube.ownership import owner_reference
from berth.kube.pods import deletion_cost_of, is_ready, phase, pod_condition
from berth.kube.times import created_at, seconds
from berth.kube.well_known import PENDING, READY, RUNNING, TRUE, UNKNOWN
from berth.machines.requests import new_object


def wanted(workload: LiveWorkload) -> int:
    return or_one(workload.spec.replicas)


def available_at(pod: LivePod, workload: LiveWorkload) -> float | None:
    """When a pod of the workload is or will be available; None as long as it is not ready."""
    ready, min_ready = pod_condition(pod, READY), workload.spec.min_ready_seconds or 0
    if ready is None or ready.status != TRUE:
        return None
    if not min_ready:
        return 0.0
    return seconds(ready.last_transition_time) + min_ready if ready.last_transition_time else None


def is_available(pod: LivePod, workload: LiveWorkload, now: float) -> bool:
    when = available_at(pod, workload)
    return when is not None and when <= now


def next_available(pods: list[LivePod], workload: LiveWorkload, now: float) -> float | None:
    """When the next of the pods becomes available by waiting alone."""
    times = (available_at(pod, workload) for pod in pods) if workload.spec.min_ready_seconds else ()
    return min((when for when in times if when is not None and when > now), default=None)


def restarts(pod: LivePod) -> int:
    return max(
        (s.restart_count or 0 for s in (pod.status and pod.status.container_statuses) or ()), default=0
    )


def deletion_rank(pod: LivePod, neighbours: dict[str, int], now: float) -> tuple[Any, ...]:
    """Which pod to delete first (the smallest): the least useful one, as upstream ranks them."""
    order = {PENDING: 0, UNKNOWN: 1, RUNNING: 2}
    ready = pod_condition(pod, READY)
    ready_since = seconds(ready.last_transition_time) if ready and ready.last_transition_time else 0.0
    return (
        bool(pod.spec.node_name),
        order.get(phase(pod), 3),
        is_ready(pod),
        deletion_cost_of(pod),
        -neighbours.get(pod.spec.node_name or "", 0),
        -_age_rank(ready_since, now) if is_ready(pod) else 0,
        -restarts(pod),
        -_age_rank(created_at(pod.metadata), now),
        pod.metadata.uid or "",
    )


def _age_rank(since: float, now: float) -> int:
    """Younger pods go first, but pods of about the same age are equal: the age on a logarithmic scale."""
    return -int(max(now - since, 1.0)).bit_length()


# --- making -----------------------------------------------------------------------------------


def pod_from(
    owner: LiveWorkload | LiveJob,
    resource: Resource,
    *,
    template: RawObject | None = None,
    name: str = "",
    prefix: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> RawObject:
    """A pod of its owner's template, or an older one; labels and annotations are added to the template's own.

    Without a name the server makes one of the prefix, which is the owner's name by default.
    """
    template = template or owner.spec.template or {}
    given = template.get("metadata") or {}
    metadata: RawObject = {
        **({"name": name} if name else {"generateName": f"{prefix or owner.metadata.name}-"}),
        "namespace": owner.metadata.namespace,
        "ownerReferences": [owner_reference(resource, owner.metadata)],
    }
    if all_labels := {**(given.get("labels") or {}), **(labels or {})}:
        metadata["labels"] = all_labels
    if all_annotations := {**(given.get("annotations") or {}), **(annotations or {})}:
        metadata["annotations"] = all_annotations
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    return new_object(PODS, metadata, spec=copy.deepcopy(template.get("spec") or {}))
