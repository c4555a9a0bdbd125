"""What controllers ask about pods, and how they make them from templates."""

from __future__ import annotations

import copy
from collections.abc import Iterable
from typing import Any

from berth.kube.api_resources import Resource
from berth.kube.objects import Condition, LivePod, ObjectMeta, OwnerReference
from berth.kube.times import seconds
from berth.machines.contract import RawObject

FINISHED = ("Succeeded", "Failed")
DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"


def phase(pod: LivePod) -> str:
    return (pod.status.phase if pod.status else None) or "Pending"


def is_finished(pod: LivePod) -> bool:
    return pod.status is not None and pod.status.phase in FINISHED


def is_terminating(pod: LivePod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: LivePod) -> bool:
    """Whether a workload counts the pod: neither finished nor going."""
    return not is_finished(pod) and not is_terminating(pod)


def condition(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    return next((c for c in conditions or () if c.type == kind), None)


def pod_condition(pod: LivePod, kind: str) -> Condition | None:
    return condition(pod.status.conditions if pod.status else None, kind)


def is_ready(pod: LivePod) -> bool:
    ready = pod_condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def available_at(pod: LivePod, min_ready: int) -> float | None:
    """When the pod is or will be available; None as long as it is not ready."""
    ready = pod_condition(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    if not min_ready:
        return 0.0
    return seconds(ready.last_transition_time) + min_ready if ready.last_transition_time else None


def is_available(pod: LivePod, min_ready: int, now: float) -> bool:
    when = available_at(pod, min_ready)
    return when is not None and when <= now


def next_available(pods: list[LivePod], min_ready: int, now: float) -> float | None:
    """When the next of the pods becomes available by waiting alone."""
    times = (available_at(pod, min_ready) for pod in pods) if min_ready else ()
    return min((when for when in times if when is not None and when > now), default=None)


def restarts(pod: LivePod) -> int:
    return max(
        (s.restart_count or 0 for s in (pod.status and pod.status.container_statuses) or ()), default=0
    )


def deletion_rank(pod: LivePod, neighbours: dict[str, int], now: float) -> tuple[Any, ...]:
    """Which pod to delete first (the smallest): the least useful one, as upstream ranks them."""
    order = {"Pending": 0, "Unknown": 1, "Running": 2}
    ready = pod_condition(pod, "Ready")
    ready_since = seconds(ready.last_transition_time) if ready and ready.last_transition_time else 0.0
    return (
        bool(pod.spec.node_name),
        order.get(phase(pod), 3),
        is_ready(pod),
        _deletion_cost(pod),
        -neighbours.get(pod.spec.node_name or "", 0),
        -_age_rank(ready_since, now) if is_ready(pod) else 0,
        -restarts(pod),
        -_age_rank(created_at(pod.metadata), now),
        pod.metadata.uid or "",
    )


def _age_rank(since: float, now: float) -> int:
    """Younger pods go first, but pods of about the same age are equal: the age on a logarithmic scale."""
    return -int(max(now - since, 1.0)).bit_length()


def created_at(metadata: ObjectMeta) -> float:
    return seconds(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0


def _deletion_cost(pod: LivePod) -> int:
    text = (pod.metadata.annotations or {}).get(DELETION_COST, "0")
    try:
        return int(text)
    except ValueError:
        return 0


# --- making -----------------------------------------------------------------------------------


def owner_reference(resource: Resource, metadata: ObjectMeta) -> RawObject:
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def raw_owner(owner: OwnerReference) -> RawObject:
    """An owner reference as it is written."""
    fields = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": owner.controller,
        "blockOwnerDeletion": owner.block_owner_deletion,
    }
    return {name: value for name, value in fields.items() if value is not None}


def pod_from(
    template: RawObject | None,
    owner: RawObject,
    namespace: str | None,
    *,
    name: str = "",
    generate_name: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> RawObject:
    """A pod of the template; labels and annotations are added to the template's own."""
    template = template or {}
    given = template.get("metadata") or {}
    metadata: RawObject = {"namespace": namespace, "ownerReferences": [owner]}
    if name:
        metadata["name"] = name
    else:
        metadata["generateName"] = generate_name
    if all_labels := {**(given.get("labels") or {}), **(labels or {})}:
        metadata["labels"] = all_labels
    if all_annotations := {**(given.get("annotations") or {}), **(annotations or {})}:
        metadata["annotations"] = all_annotations
    if given.get("finalizers"):
        metadata["finalizers"] = list(given["finalizers"])
    spec = copy.deepcopy(template.get("spec") or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
