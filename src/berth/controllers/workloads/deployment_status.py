"""A Deployment's status: counts over its ReplicaSets, and how its rollout is getting on.

Upstream: pkg/controller/deployment/progress.go and sync.go.
"""

from __future__ import annotations

from berth.controllers.actions import is_news
from berth.controllers.conditions import Conditions
from berth.controllers.workloads.deployment_sets import Sets, limits
from berth.controllers.workloads.pods import wanted
from berth.kube.objects import LiveWorkload, RawObject
from berth.kube.times import seconds
from berth.kube.well_known import FALSE, TRUE, UNKNOWN

DONE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


def status_of(deployment: LiveWorkload, sets: Sets, now: float) -> tuple[RawObject | None, float | None]:
    """The status to write, None if it is right already; and when it may change by itself."""
    old = deployment.status
    counts = _counts(deployment, sets)
    conditions = Conditions(old.conditions, now, updated=True)
    _set_available(deployment, counts, conditions)
    due = None
    if deployment.spec.paused:
        _pause(conditions)
    else:
        due = _set_progress(deployment, sets, counts, conditions, now)
    _set_failure(sets, conditions)
    if not is_news(deployment, counts) and conditions.list() == Conditions(old.conditions, now).list():
        return None, due
    return {**counts, "conditions": conditions.list()}, due


def _counts(deployment: LiveWorkload, sets: Sets) -> RawObject:
    statuses = [replica_set.status for replica_set in sets.all]
    available = sum(status.available_replicas or 0 for status in statuses)
    return {
        "observedGeneration": deployment.metadata.generation or 0,
        "replicas": sum(status.replicas or 0 for status in statuses),
        "updatedReplicas": (sets.new.status.replicas or 0) if sets.new else 0,
        "readyReplicas": sum(status.ready_replicas or 0 for status in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(wanted, sets.all)) - available, 0),
    }


def _set_available(deployment: LiveWorkload, counts: RawObject, conditions: Conditions) -> None:
    if counts["availableReplicas"] >= wanted(deployment) - limits(deployment).unavailable:
        conditions.set("Available", TRUE, "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        conditions.set(
            "Available", FALSE, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )


def _pause(conditions: Conditions) -> None:
    known = conditions.get("Progressing")
    if known is None or known.get("reason") != TIMED_OUT:
        conditions.set("Progressing", UNKNOWN, "DeploymentPaused", "Deployment is paused")


def _set_progress(
    deployment: LiveWorkload, sets: Sets, counts: RawObject, conditions: Conditions, now: float
) -> float | None:
    """Set the Progressing condition; when it may time out."""
    name = deployment.metadata.name
    of_new = f'ReplicaSet "{sets.new.metadata.name}"' if sets.new else f'Deployment "{name}"'
    known = conditions.get("Progressing")
    deadline = deployment.spec.progress_deadline_seconds
    if known is not None and known.get("reason") == "DeploymentPaused":
        conditions.set("Progressing", UNKNOWN, "DeploymentResumed", "Deployment is resumed")
        known = conditions.get("Progressing")
    if _is_complete(deployment, counts) and sets.new is not None:
        message = f"{of_new} has successfully progressed."
        if known is None or known.get("reason") != DONE or known.get("message") != message:
            conditions.set("Progressing", TRUE, DONE, message)
        return None
    if known is None:
        reason = "NewReplicaSetCreated" if sets.new else "FoundNewReplicaSet"
        conditions.set("Progressing", TRUE, reason, f"Created new replica set for {of_new}")
        known = conditions.get("Progressing") or {}
    elif _progresses(deployment, counts) or (known.get("reason") == DONE and not _same_set(known, of_new)):
        conditions.drop("Progressing")
        conditions.set("Progressing", TRUE, "ReplicaSetUpdated", f"{of_new} is progressing.")
        if known.get("status") == TRUE and (renewed := conditions.get("Progressing")) is not None:
            renewed["lastTransitionTime"] = known.get("lastTransitionTime", renewed["lastTransitionTime"])
        known = conditions.get("Progressing") or {}
    if deadline is None or deadline >= 2**31 - 1 or known.get("reason") in (DONE, TIMED_OUT):
        return None
    since = known.get("lastUpdateTime")
    due = (seconds(since) if since else now) + deadline
    if due > now:
        return due
    conditions.set("Progressing", FALSE, TIMED_OUT, f"{of_new} has timed out progressing.")
    return None


def _same_set(known: RawObject, of_new: str) -> bool:
    return str(known.get("message", "")).startswith(of_new)


def _is_complete(deployment: LiveWorkload, counts: RawObject) -> bool:
    replicas = wanted(deployment)
    return bool(
        counts["updatedReplicas"] == replicas
        and counts["replicas"] == replicas
        and counts["availableReplicas"] == replicas
    )


def _progresses(deployment: LiveWorkload, counts: RawObject) -> bool:
    old = deployment.status
    before_old = (old.replicas or 0) - (old.updated_replicas or 0)
    return bool(
        counts["updatedReplicas"] > (old.updated_replicas or 0)
        or counts["replicas"] - counts["updatedReplicas"] < before_old
        or counts["readyReplicas"] > (old.ready_replicas or 0)
        or counts["availableReplicas"] > (old.available_replicas or 0)
    )


def _set_failure(sets: Sets, conditions: Conditions) -> None:
    for replica_set in sets.all:
        for condition in replica_set.status.conditions or ():
            if condition.type == "ReplicaFailure" and condition.status == TRUE:
                conditions.set("ReplicaFailure", TRUE, condition.reason or "", condition.message or "")
                return
    conditions.drop("ReplicaFailure")
