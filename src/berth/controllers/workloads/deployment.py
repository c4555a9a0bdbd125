"""Deployments: one ReplicaSet a template, rolled from the old ones to the new one.

Upstream: pkg/controller/deployment.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.controllers.actions import create, delete, patch, status_patch
from berth.controllers.workloads import deployment_sets as sizing
from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.deployment_sets import DESIRED, MAXIMUM, Sets, plain, revision
from berth.controllers.workloads.deployment_status import status_of
from berth.controllers.workloads.pods import wanted
from berth.kube.api_resources import DEPLOYMENTS, PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, RawObject, key_of
from berth.kube.ownership import controller_of, owner_reference
from berth.kube.pods import is_finished
from berth.kube.well_known import DELETED, TEMPLATE_HASH
from berth.kube.workloads.pod_templates import template_hash
from berth.machines.contract import Action, Event
from berth.machines.recorder import NORMAL

_NAME_LENGTH = 253


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
            owner = controller_of(event.object.metadata)
            replica_set = owner and self.cache.get(
                REPLICA_SETS, (event.key[0], owner.name or ""), LiveWorkload
            )
            above = controller_of(replica_set.metadata) if replica_set else None
            if above is not None and above.kind == DEPLOYMENTS.kind:
                self.queue.add((event.key[0], above.name or ""))

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        deployment = self.cache.get(DEPLOYMENTS, key, LiveWorkload)
        if deployment is None:
            return
        claim = self.claim(deployment)
        sets = sizing.sort_out(deployment, claim.owned(LiveWorkload))
        if deployment.metadata.deletion_timestamp:
            yield from self._status(deployment, sets, now)
            return
        adoptions = list(claim.actions(LiveWorkload))
        if adoptions:
            yield from adoptions
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
        if any(self._old_pods(sets)):
            return
        if sets.new is None:
            yield from self._create(key, deployment, sets, wanted(deployment), now)
            return
        annotated = list(self._annotate(deployment, sets))
        yield from annotated
        if not annotated and wanted(sets.new) != wanted(deployment):
            name = sets.new.metadata.name or ""
            yield from self._resize(deployment, sets, {name: wanted(deployment)}, "rolling out", now)

    def _old_pods(self, sets: Sets) -> Iterator[LivePod]:
        for replica_set in sets.old:
            pods = self.cache.owned(PODS, replica_set.metadata.uid, LivePod)
            yield from (pod for pod in pods if not is_finished(pod))

    # --- how ----------------------------------------------------------------------------------------

    def _create(
        self, key: Key, deployment: LiveWorkload, sets: Sets, size: int, now: float
    ) -> Iterator[Action]:
        template = plain(deployment.spec.template)
        collisions = deployment.status.collision_count or 0
        tag = template_hash(template, collisions)
        name = f"{key[1][: _NAME_LENGTH - len(tag) - 1]}-{tag}"
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
        if not _is_complete(deployment):
            return
        for replica_set in sizing.surplus(deployment, sets):
            cause = "beyond the revision history limit"
            yield delete(REPLICA_SETS, replica_set, cause, key=key, propagation="Background")

    def _status(self, deployment: LiveWorkload, sets: Sets, now: float) -> Iterator[Action]:
        status, due = status_of(deployment, sets, now)
        if due is not None:
            self.queue.add_at(key_of(deployment.metadata), due)
        if status is not None:
            yield status_patch(DEPLOYMENTS, deployment, status)


def _replica_set(deployment: LiveWorkload, sets: Sets, name: str, tag: str, size: int) -> RawObject:
    template = sizing.template_with_hash(deployment.spec.template, TEMPLATE_HASH, tag)
    selector = deployment.spec.selector
    labels = {**((selector.match_labels if selector else None) or {}), TEMPLATE_HASH: tag}
    expressions = [
        {"key": e.key, "operator": e.operator, **({"values": e.values} if e.values else {})}
        for e in (selector.match_expressions if selector else None) or ()
    ]
    return {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": sizing.new_annotations(deployment, sets),
            "ownerReferences": [owner_reference(DEPLOYMENTS, deployment.metadata)],
        },
        "spec": {
            "replicas": size,
            "minReadySeconds": deployment.spec.min_ready_seconds or 0,
            "selector": {"matchLabels": labels, **({"matchExpressions": expressions} if expressions else {})},
            "template": template,
        },
    }


def _is_complete(deployment: LiveWorkload) -> bool:
    status, replicas = deployment.status, wanted(deployment)
    counts = (status.updated_replicas or 0, status.replicas or 0, status.available_replicas or 0)
    return counts == (replicas, replicas, replicas) and (status.observed_generation or 0) >= (
        deployment.metadata.generation or 0
    )
