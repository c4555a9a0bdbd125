"""Deployments: one ReplicaSet a template, rolled from the old ones to the new one.

Upstream: pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.controllers.workloads import deployment_sets as sizing
from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.deployment_sets import DESIRED, MAXIMUM, Sets, limits, revision
from berth.controllers.workloads.pods import controller_among, wanted
from berth.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, RawObject, key_of
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, true_condition
from berth.kube.times import seconds
from berth.kube.well_known import DELETED, FALSE, TEMPLATE_HASH, TRUE, UNKNOWN
from berth.kube.workloads.pod_templates import child_name, plain, template_hash
from berth.machines.contract import Action, Event
from berth.machines.recorder import NORMAL
from berth.machines.requests import Conditions, child_of, create, delete, is_news, patch, status_patch


class DeploymentController(WorkloadController):
    name = "deployment-controller"
    watches = (DEPLOYMENTS, REPLICA_SETS, PODS)
    owner = DEPLOYMENTS
    dependents = REPLICA_SETS

    def handle(self, event: Event) -> None:
        if event.resource != PODS:
            super().handle(event)
        elif event.change == DELETED:
            # A Recreate deployment waits for the last old pod to go.
            replica_set = controller_among(self.cache, event.object.metadata, REPLICA_SETS)
            above = controller_of(replica_set.metadata) if replica_set else None
            if above is not None and above.kind == DEPLOYMENTS.kind:
                self.queue.add((event.key[0], above.name or ""))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        deployment = self.cache.get(DEPLOYMENTS, key, LiveWorkload)
        if deployment is None:
            return
        sets = sizing.sort_out(deployment, self.owned(deployment, LiveWorkload))
        if deployment.metadata.deletion_timestamp:
            yield from self._status(deployment, sets, now)
            return
        if claims := self.claims(deployment):
            yield from claims
            return
        yield from self._roll(key, deployment, sets, now)
        if (number := (sets.new and revision(sets.new)) or 0) and number != revision(deployment):
            body = {"metadata": {"annotations": {sizing.REVISION: str(number)}}}
            yield patch(DEPLOYMENTS, deployment, body, f"revision {number}")
        else:
            yield from self._status(deployment, sets, now)

    # --- what to do ---------------------------------------------------------------------------------

    def _roll(self, key: Key, deployment: LiveWorkload, sets: Sets, now: float) -> Iterator[Action]:
        if deployment.spec.paused or sizing.is_scaling(deployment, sets):
            sizes = sizing.scaled(deployment, sets)
            yield from self._resize(deployment, sets, sizes, "scaled", now)
        elif sizing.is_rolling(deployment):
            yield from self._rolling_update(key, deployment, sets, now)
        else:
            yield from self._recreate(key, deployment, sets, now)
        yield from self._clean_up(key, deployment, sets)

    def _rolling_update(self, key: Key, deployment: LiveWorkload, sets: Sets, now: float) -> Iterator[Action]:
        size = sizing.rolled_up(deployment, sets)
        if sets.new is None:
            yield from self._create(key, deployment, sets, size, now)
            return
        annotated = list(self._annotate(deployment, sets))
        if annotated:
            yield from annotated
            return
        name = sets.new.metadata.name or ""
        if size != wanted(sets.new):
            yield from self._resize(deployment, sets, {name: size}, "rolling out", now)
            return
        sizes = sizing.rolled_down(deployment, sets)
        yield from self._resize(deployment, sets, sizes, "replaced by a newer revision", now)

    def _recreate(self, key: Key, deployment: LiveWorkload, sets: Sets, now: float) -> Iterator[Action]:
        old = {rs.metadata.name or "": 0 for rs in sets.old if wanted(rs)}
        if old:
            yield from self._resize(deployment, sets, old, "recreated with a newer revision", now)
            return
        pods = (pod for rs in sets.old for pod in self.cache.owned(PODS, rs.metadata.uid, LivePod))
        if not all(map(is_finished, pods)):
            return
        if sets.new is None:
            yield from self._create(key, deployment, sets, wanted(deployment), now)
            return
        annotated = list(self._annotate(deployment, sets))
        yield from annotated
        if not annotated and wanted(sets.new) != wanted(deployment):
            name = sets.new.metadata.name or ""
            yield from self._resize(deployment, sets, {name: wanted(deployment)}, "rolling out", now)

    # --- how ----------------------------------------------------------------------------------------

    def _create(
        self, key: Key, deployment: LiveWorkload, sets: Sets, size: int, now: float
    ) -> Iterator[Action]:
        template = plain(deployment.spec.template)
        collisions = deployment.status.collision_count or 0
        tag = template_hash(template, collisions)
        name = child_name(key[1], tag)
        taken = self.cache.get(REPLICA_SETS, (key[0], name), LiveWorkload)
        if taken is not None:
            if plain(taken.spec.template) != template or controller_of(taken.metadata) is not None:
                yield status_patch(
                    DEPLOYMENTS, deployment, {"collisionCount": collisions + 1}, f"{name} is another's"
                )
            return
        message = f"Scaled up replica set {name} from 0 to {size}"
        self.recorder.record(now, DEPLOYMENTS, deployment, NORMAL, "ScalingReplicaSet", message)
        body = _replica_set(deployment, sets, name, tag, size)
        yield create(REPLICA_SETS, key, body, "no ReplicaSet has the template")

    def _annotate(self, deployment: LiveWorkload, sets: Sets) -> Iterator[Action]:
        """Keep the new ReplicaSet's annotations and readiness time in step."""
        new = sets.new
        if new is None:
            return
        annotations = sizing.new_annotations(deployment, sets)
        body: RawObject = {}
        if annotations != (new.metadata.annotations or {}):
            body["metadata"] = {"annotations": annotations}
        if (new.spec.min_ready_seconds or 0) != (deployment.spec.min_ready_seconds or 0):
            body["spec"] = {"minReadySeconds": deployment.spec.min_ready_seconds or 0}
        if body:
            yield patch(REPLICA_SETS, new, body, "annotations", key=key_of(deployment.metadata))

    def _resize(
        self, deployment: LiveWorkload, sets: Sets, sizes: sizing.Sizes, cause: str, now: float
    ) -> Iterator[Action]:
        annotations = sizing.size_annotations(deployment)
        for replica_set in sets.all:
            name = replica_set.metadata.name or ""
            size, given = sizes.get(name, wanted(replica_set)), replica_set.metadata.annotations or {}
            same = all(given.get(key) == annotations[key] for key in (DESIRED, MAXIMUM))
            if size == wanted(replica_set) and (same or name not in sizes):
                continue
            body: RawObject = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            yield patch(REPLICA_SETS, replica_set, body, cause, key=key_of(deployment.metadata))
            if size != wanted(replica_set):
                way = "up" if size > wanted(replica_set) else "down"
                message = f"Scaled {way} replica set {name} from {wanted(replica_set)} to {size}"
                self.recorder.record(now, DEPLOYMENTS, deployment, NORMAL, "ScalingReplicaSet", message)

    def _clean_up(self, key: Key, deployment: LiveWorkload, sets: Sets) -> Iterator[Action]:
        status, observed = deployment.status, deployment.status.observed_generation or 0
        counts = (status.updated_replicas or 0, status.replicas or 0, status.available_replicas or 0)
        if not _is_complete(deployment, *counts) or observed < (deployment.metadata.generation or 0):
            return
        for replica_set in sizing.surplus(deployment, sets):
            cause = "beyond the revision history limit"
            yield delete(REPLICA_SETS, replica_set, cause, key=key, propagation="Background")

    def _status(self, deployment: LiveWorkload, sets: Sets, now: float) -> Iterator[Action]:
        status, due = _status_of(deployment, sets, now)
        if due is not None:
            self.queue.add_at(key_of(deployment.metadata), due)
        if status is not None:
            yield status_patch(DEPLOYMENTS, deployment, status)


def _replica_set(deployment: LiveWorkload, sets: Sets, name: str, tag: str, size: int) -> RawObject:
    template = deployment.spec.template or {}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), TEMPLATE_HASH: tag}
    selector = deployment.spec.selector
    selected = {**((selector.match_labels if selector else None) or {}), TEMPLATE_HASH: tag}
    expressions = [
        {"key": e.key, "operator": e.operator, **({"values": e.values} if e.values else {})}
        for e in (selector.match_expressions if selector else None) or ()
    ]
    spec = {
        "replicas": size,
        "minReadySeconds": deployment.spec.min_ready_seconds or 0,
        "selector": {"matchLabels": selected, **({"matchExpressions": expressions} if expressions else {})},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    annotations = sizing.new_annotations(deployment, sets)
    content = {"spec": spec}
    return child_of(
        deployment, DEPLOYMENTS, REPLICA_SETS, name, content, labels=labels, annotations=annotations
    )


# --- status ---------------------------------------------------------------------------------------
# Counts over the ReplicaSets, and how the rollout is getting on.  Upstream: progress.go and sync.go.

DONE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"


def _status_of(deployment: LiveWorkload, sets: Sets, now: float) -> tuple[RawObject | None, float | None]:
    """The status to write, None if it is right already; and when it may change by itself."""
    old = deployment.status
    counts = _counts(deployment, sets)
    conditions = Conditions(old.conditions, now, updated=True)
    _set_available(deployment, counts, conditions)
    due = None
    if deployment.spec.paused:
        if (conditions.get("Progressing") or {}).get("reason") != TIMED_OUT:
            conditions.set("Progressing", UNKNOWN, "DeploymentPaused", "Deployment is paused")
    else:
        due = _set_progress(deployment, sets, counts, conditions, now)
    _set_failure(sets, conditions)
    if not is_news(deployment, counts) and not conditions.changed:
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
    totals = (counts["updatedReplicas"], counts["replicas"], counts["availableReplicas"])
    if _is_complete(deployment, *totals) and sets.new is not None:
        message = f"{of_new} has successfully progressed."
        if known is None or known.get("reason") != DONE or known.get("message") != message:
            conditions.set("Progressing", TRUE, DONE, message)
        return None
    if known is None:
        reason = "NewReplicaSetCreated" if sets.new else "FoundNewReplicaSet"
        conditions.set("Progressing", TRUE, reason, f"Created new replica set for {of_new}")
        known = conditions.get("Progressing") or {}
    elif _progresses(deployment, counts) or (
        known.get("reason") == DONE and not str(known.get("message", "")).startswith(of_new)
    ):
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


def _is_complete(deployment: LiveWorkload, updated: int, replicas: int, available: int) -> bool:
    return updated == replicas == available == wanted(deployment)


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
        failure = true_condition(replica_set.status.conditions, "ReplicaFailure")
        if failure is not None:
            conditions.set("ReplicaFailure", TRUE, failure.reason or "", failure.message or "")
            return
    conditions.drop("ReplicaFailure")
