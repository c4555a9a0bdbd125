"""Deployments: one ReplicaSet a template, rolled from the old ones to the new one.

Upstream: pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.deployment_sets import REVISION, DeploymentSets, Sizes, revision
from berth.controllers.workloads.pods import wanted
from berth.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, RawObject
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
            replica_set = self.cache.controller(event.object.metadata, LiveWorkload, REPLICA_SETS)
            above = controller_of(replica_set.metadata) if replica_set else None
            if above is not None and above.kind == DEPLOYMENTS.kind:
                self.queue.add((event.key[0], above.name or ""))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        deployment = self.cache.get(DEPLOYMENTS, key, LiveWorkload)
        if deployment is None:
            return
        sets = DeploymentSets.of(deployment, self.owned(deployment, LiveWorkload))
        if deployment.metadata.deletion_timestamp:
            yield from self._status(sets, now)
            return
        if claims := self.claims(deployment):
            yield from claims
            return
        yield from self._roll(sets, now)
        if (number := (sets.new and revision(sets.new)) or 0) and number != revision(deployment):
            body = {"metadata": {"annotations": {REVISION: str(number)}}}
            yield patch(DEPLOYMENTS, deployment, body, f"revision {number}")
        else:
            yield from self._status(sets, now)

    # --- what to do ---------------------------------------------------------------------------------

    def _roll(self, sets: DeploymentSets, now: float) -> Iterator[Action]:
        if sets.deployment.spec.paused or sets.is_scaling:
            yield from self._resize(sets, sets.scaled(), "scaled", now)
        elif sets.is_rolling:
            yield from self._roll_out(sets, sets.rolled_up(), now)
        else:
            yield from self._recreate(sets, now)
        if _is_complete(sets, _reported(sets.deployment)) and _is_observed(sets.deployment):
            for replica_set in sets.surplus():
                cause = "beyond the revision history limit"
                yield delete(REPLICA_SETS, replica_set, cause, key=sets.key, propagation="Background")

    def _recreate(self, sets: DeploymentSets, now: float) -> Iterator[Action]:
        old = {rs.metadata.name or "": 0 for rs in sets.old if wanted(rs)}
        if old:
            yield from self._resize(sets, old, "recreated with a newer revision", now)
            return
        pods = (pod for rs in sets.old for pod in self.cache.owned(PODS, rs.metadata.uid, LivePod))
        if all(map(is_finished, pods)):
            yield from self._roll_out(sets, sets.replicas, now)

    def _roll_out(self, sets: DeploymentSets, size: int, now: float) -> Iterator[Action]:
        """One step: make the new ReplicaSet, keep its annotations, bring it to a size, take from the old."""
        if sets.new is None:
            yield from self._create(sets, size, now)
        elif annotated := list(self._annotate(sets, sets.new)):
            yield from annotated
        elif size != wanted(sets.new):
            yield from self._resize(sets, {sets.new.metadata.name or "": size}, "rolling out", now)
        elif sets.is_rolling:
            yield from self._resize(sets, sets.rolled_down(), "replaced by a newer revision", now)

    # --- how ----------------------------------------------------------------------------------------

    def _create(self, sets: DeploymentSets, size: int, now: float) -> Iterator[Action]:
        deployment, key = sets.deployment, sets.key
        template = plain(deployment.spec.template)
        collisions = deployment.status.collision_count or 0
        tag = template_hash(template, collisions)
        name = child_name(key[1], tag)
        taken = self.cache.get(REPLICA_SETS, (key[0], name), LiveWorkload)
        if taken is not None:
            if plain(taken.spec.template) != template or controller_of(taken.metadata) is not None:
                status = {"collisionCount": collisions + 1}
                yield status_patch(DEPLOYMENTS, deployment, status, f"{name} is another's")
            return
        message = f"Scaled up replica set {name} from 0 to {size}"
        self.recorder.record(now, DEPLOYMENTS, deployment, NORMAL, "ScalingReplicaSet", message)
        yield create(REPLICA_SETS, key, _replica_set(sets, name, tag, size), "no ReplicaSet has the template")

    def _annotate(self, sets: DeploymentSets, new: LiveWorkload) -> Iterator[Action]:
        """Keep the new ReplicaSet's annotations and readiness time in step."""
        annotations, minimum = sets.new_annotations(), sets.deployment.spec.min_ready_seconds or 0
        body: RawObject = {}
        if annotations != (new.metadata.annotations or {}):
            body["metadata"] = {"annotations": annotations}
        if (new.spec.min_ready_seconds or 0) != minimum:
            body["spec"] = {"minReadySeconds": minimum}
        if body:
            yield patch(REPLICA_SETS, new, body, "annotations", key=sets.key)

    def _resize(self, sets: DeploymentSets, sizes: Sizes, cause: str, now: float) -> Iterator[Action]:
        annotations = sets.size_annotations()
        for replica_set in sets.all:
            name, before = replica_set.metadata.name or "", wanted(replica_set)
            size, given = sizes.get(name, before), replica_set.metadata.annotations or {}
            same = annotations.items() <= given.items()
            if size == before and (same or name not in sizes):
                continue
            body: RawObject = {"metadata": {"annotations": annotations}, "spec": {"replicas": size}}
            yield patch(REPLICA_SETS, replica_set, body, cause, key=sets.key)
            if size != before:
                way = "up" if size > before else "down"
                message = f"Scaled {way} replica set {name} from {before} to {size}"
                self.recorder.record(now, DEPLOYMENTS, sets.deployment, NORMAL, "ScalingReplicaSet", message)

    def _status(self, sets: DeploymentSets, now: float) -> Iterator[Action]:
        """Write the counts and the conditions, unless the status has them already."""
        deployment, counts = sets.deployment, _counts(sets)
        conditions = Conditions(deployment.status.conditions, now, updated=True)
        if counts["availableReplicas"] >= sets.least_available:
            message = "Deployment has minimum availability."
            conditions.set("Available", TRUE, "MinimumReplicasAvailable", message)
        else:
            lacking = "Deployment does not have minimum availability."
            conditions.set("Available", FALSE, "MinimumReplicasUnavailable", lacking)
        if not deployment.spec.paused:
            self.queue.put_off(sets.key, _set_progress(sets, counts, conditions, now), now)
        elif (conditions.get("Progressing") or {}).get("reason") != TIMED_OUT:
            conditions.set("Progressing", UNKNOWN, "DeploymentPaused", "Deployment is paused")
        _set_failure(sets, conditions)
        if is_news(deployment, counts) or conditions.changed:
            yield status_patch(DEPLOYMENTS, deployment, {**counts, "conditions": conditions.list()})


def _replica_set(sets: DeploymentSets, name: str, tag: str, size: int) -> RawObject:
    deployment, hashed = sets.deployment, {TEMPLATE_HASH: tag}
    template = deployment.spec.template or {}
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), **hashed}
    selector: RawObject = msgspec.to_builtins(deployment.spec.selector) or {}
    spec = {
        "replicas": size,
        "minReadySeconds": deployment.spec.min_ready_seconds or 0,
        "selector": {**selector, "matchLabels": {**(selector.get("matchLabels") or {}), **hashed}},
        "template": {**template, "metadata": {**metadata, "labels": labels}},
    }
    annotations = sets.new_annotations()
    content = {"spec": spec}
    return child_of(
        deployment, DEPLOYMENTS, REPLICA_SETS, name, content, labels=labels, annotations=annotations
    )


# --- status ---------------------------------------------------------------------------------------
# Counts over the ReplicaSets, and how the rollout is getting on.  Upstream: progress.go and sync.go.

DONE = "NewReplicaSetAvailable"
TIMED_OUT = "ProgressDeadlineExceeded"
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas")


def _counts(sets: DeploymentSets) -> RawObject:
    statuses = [replica_set.status for replica_set in sets.all]
    available = sum(status.available_replicas or 0 for status in statuses)
    return {
        "observedGeneration": sets.deployment.metadata.generation or 0,
        "replicas": sum(status.replicas or 0 for status in statuses),
        "updatedReplicas": (sets.new.status.replicas or 0) if sets.new else 0,
        "readyReplicas": sum(status.ready_replicas or 0 for status in statuses),
        "availableReplicas": available,
        "unavailableReplicas": max(sum(map(wanted, sets.all)) - available, 0),
    }


def _set_progress(
    sets: DeploymentSets, counts: RawObject, conditions: Conditions, now: float
) -> float | None:
    """Set the Progressing condition; when it may time out."""
    deployment = sets.deployment
    of_new = f'{"ReplicaSet" if sets.new else "Deployment"} "{(sets.new or deployment).metadata.name}"'
    known = conditions.get("Progressing")
    deadline = deployment.spec.progress_deadline_seconds
    if known is not None and known.get("reason") == "DeploymentPaused":
        conditions.set("Progressing", UNKNOWN, "DeploymentResumed", "Deployment is resumed")
        known = conditions.get("Progressing")
    if _is_complete(sets, counts) and sets.new is not None:
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
        known = conditions.get("Progressing") or {}
    if deadline is None or deadline >= 2**31 - 1 or known.get("reason") in (DONE, TIMED_OUT):
        return None
    since = known.get("lastUpdateTime")
    due = (seconds(since) if since else now) + deadline
    if due > now:
        return due
    conditions.set("Progressing", FALSE, TIMED_OUT, f"{of_new} has timed out progressing.")
    return None


def _reported(deployment: LiveWorkload) -> RawObject:
    """The counts in the status."""
    known: RawObject = msgspec.to_builtins(deployment.status)
    return {name: known.get(name) or 0 for name in _COUNTS}


def _is_observed(deployment: LiveWorkload) -> bool:
    return (deployment.status.observed_generation or 0) >= (deployment.metadata.generation or 0)


def _is_complete(sets: DeploymentSets, counts: RawObject) -> bool:
    return all(counts[name] == sets.replicas for name in ("updatedReplicas", "replicas", "availableReplicas"))


def _progresses(deployment: LiveWorkload, counts: RawObject) -> bool:
    old = _reported(deployment)
    fewer = counts["replicas"] - counts["updatedReplicas"] < old["replicas"] - old["updatedReplicas"]
    more = any(counts[name] > old[name] for name in _COUNTS if name != "replicas")
    return fewer or more


def _set_failure(sets: DeploymentSets, conditions: Conditions) -> None:
    for replica_set in sets.all:
        failure = true_condition(replica_set.status.conditions, "ReplicaFailure")
        if failure is not None:
            conditions.set("ReplicaFailure", TRUE, failure.reason or "", failure.message or "")
            return
    conditions.drop("ReplicaFailure")
