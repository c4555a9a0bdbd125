"""What everyone asks about a pod: how far it is, and whether it still counts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from berth.kube.objects import Condition, LivePod, Pod, UntimedCondition
from berth.kube.well_known import FAILED, PENDING, READY, SUCCEEDED, TRUE

FINISHED = (SUCCEEDED, FAILED)

_C = TypeVar("_C", bound=UntimedCondition)


def phase(pod: Pod) -> str:
    return (pod.status.phase if pod.status else None) or PENDING


def is_finished(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase in FINISHED


def is_terminating(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether a workload counts the pod: neither finished nor being deleted."""
    return not is_finished(pod) and not is_terminating(pod)


def condition(conditions: Iterable[_C] | None, kind: str) -> _C | None:
    return next((known for known in conditions or () if known.type == kind), None)


def pod_condition(pod: LivePod, kind: str) -> Condition | None:
    return condition(pod.status.conditions if pod.status else None, kind)


def is_ready(pod: Pod) -> bool:
    ready = condition(pod.status.conditions if pod.status else None, READY)
    return ready is not None and ready.status == TRUE
