"""ReplicaSets: as many pods as asked for, no more, no fewer.

Upstream: pkg/controller/replicaset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from berth.controllers.conditions import Conditions
from berth.controllers.patches import status_patch
from berth.controllers.workloads.adoption import Claim, selecting
from berth.controllers.workloads.pods import deletion_rank, is_available, next_available, pod_from
from berth.kube.api_resources import PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, PartialObjectMetadata, RawObject
from berth.kube.ownership import controller_of, owner_reference
from berth.kube.pods import is_active, is_ready
from berth.kube.well_known import DELETED, TRUE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Delete, Event, Outcome
from berth.machines.controller import Controller
from berth.machines.recorder import NORMAL, WARNING

BURST = 500


class ReplicaSetController(Controller):
    name = "replicaset-controller"
    watches = (REPLICA_SETS, PODS)

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._failure: dict[Key, str] = {}  # why the last creation failed, until there are enough pods

    def handle(self, event: Event) -> None:
        if event.resource == REPLICA_SETS:
            if event.change == DELETED:
                self.expectations.forget(event.object.metadata.uid or "")
            self.queue.add(event.key)
            return
        pod: LivePod = event.object
        self._settle(event, pod)
        for seen in (pod, event.old):
            owner = controller_of(seen.metadata) if seen is not None else None
            if owner is not None and owner.kind == REPLICA_SETS.kind:
                self.queue.add((pod.metadata.namespace or "", owner.name or ""))
            elif owner is None and seen is pod and event.change != DELETED:
                for key in selecting(self.cache, REPLICA_SETS, pod.metadata.namespace, pod.metadata.labels):
                    self.queue.add(key)

    def _settle(self, event: Event, pod: LivePod) -> None:
        owner = controller_of(pod.metadata)
        if owner is None or owner.kind != REPLICA_SETS.kind:
            return
        if event.old is None:
            self.expectations.created(owner.uid or "")
        if event.change == DELETED or pod.metadata.deletion_timestamp:
            self.expectations.deleted(owner.uid or "", pod.metadata.uid or "")

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        replica_set = self.cache.get(REPLICA_SETS, key, LiveWorkload)
        if replica_set is None or self.waits(key, replica_set.metadata.uid, now):
            return
        metadata = replica_set.metadata
        claim = Claim(self.cache, REPLICA_SETS, metadata, replica_set.spec.selector, dependents=PODS)
        claims = list(claim.actions(LivePod))
        if claims:
            yield from claims
            return  # who belongs here is decided first
        active = [pod for pod in claim.owned(LivePod) if is_active(pod)]
        if not metadata.deletion_timestamp:
            yield from self._manage(key, replica_set, active, now)
        yield from self._status(key, replica_set, active, now)

    # --- pods -------------------------------------------------------------------------------------

    def _manage(
        self, key: Key, replica_set: LiveWorkload, active: list[LivePod], now: float
    ) -> Iterator[Action]:
        uid = replica_set.metadata.uid or ""
        missing = _wanted(replica_set) - len(active)
        if missing > 0:
            # What just failed is tried once, not five hundred times.
            count = 1 if self.queue.failures(key) else min(missing, BURST)
            for _ in range(count):
                self.expectations.expect_creation(uid, now)
                yield self._create(key, replica_set)
        elif missing < 0:
            neighbours = self._neighbours(replica_set, active)
            ranked = sorted(active, key=lambda pod: deletion_rank(pod, neighbours, now))
            for pod in ranked[: min(-missing, BURST)]:
                self.expectations.expect_deletion(uid, pod.metadata.uid or "", now)
                yield Delete(
                    resource=PODS,
                    key=key,
                    namespace=key[0],
                    name=pod.metadata.name or "",
                    uid=pod.metadata.uid,
                    why=f"{len(active)} pods, {_wanted(replica_set)} wanted",
                )
                message = f"Deleted pod: {pod.metadata.name}"
                self.recorder.record(now, REPLICA_SETS, replica_set, NORMAL, "SuccessfulDelete", message)

    def _create(self, key: Key, replica_set: LiveWorkload) -> Create:
        body = pod_from(
            replica_set.spec.template,
            owner_reference(REPLICA_SETS, replica_set.metadata),
            key[0],
            generate_name=f"{key[1]}-",
        )
        return Create(resource=PODS, key=key, namespace=key[0], body=body, why="too few pods")

    def _neighbours(self, replica_set: LiveWorkload, active: list[LivePod]) -> dict[str, int]:
        """How many pods of the same workload run on each node, over all its ReplicaSets."""
        owner = controller_of(replica_set.metadata)
        siblings = (
            self.cache.owned(REPLICA_SETS, owner.uid, LiveWorkload) if owner is not None else [replica_set]
        )
        nodes: Counter[str] = Counter()
        for sibling in siblings:
            owned = (
                active
                if sibling.metadata.uid == replica_set.metadata.uid
                else self.cache.owned(PODS, sibling.metadata.uid, LivePod)
            )
            nodes.update(pod.spec.node_name for pod in owned if pod.spec.node_name and is_active(pod))
        return nodes

    def done(self, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Create) and action.resource == PODS and outcome.ok:
            replica_set = self.cache.get(REPLICA_SETS, action.key, LiveWorkload)
            if replica_set is not None:
                name = outcome.decode(PartialObjectMetadata).metadata.name
                self.recorder.record(
                    outcome.at, REPLICA_SETS, replica_set, NORMAL, "SuccessfulCreate", f"Created pod: {name}"
                )
        super().done(action, outcome)

    def failed(self, action: Action, outcome: Outcome) -> None:
        key: Key = action.key
        replica_set = self.cache.get(REPLICA_SETS, key, LiveWorkload)
        if replica_set is None or action.resource != PODS:
            return
        uid = replica_set.metadata.uid or ""
        if isinstance(action, Create):
            self.expectations.created(uid)
            self._failure[key] = outcome.message
            self.recorder.record(
                outcome.at,
                REPLICA_SETS,
                replica_set,
                WARNING,
                "FailedCreate",
                f"Error creating: {outcome.message}",
            )
        elif isinstance(action, Delete):
            self.expectations.deleted(uid, action.uid or "")

    # --- status -----------------------------------------------------------------------------------

    def _status(
        self, key: Key, replica_set: LiveWorkload, active: list[LivePod], now: float
    ) -> Iterator[Action]:
        minimum = replica_set.spec.min_ready_seconds or 0
        old = replica_set.status
        if len(active) >= _wanted(replica_set):
            self._failure.pop(key, None)
        conditions = Conditions(old.conditions, now)
        if key in self._failure:
            conditions.set("ReplicaFailure", TRUE, "FailedCreate", self._failure[key])
        else:
            conditions.drop("ReplicaFailure")
        template_labels = ((replica_set.spec.template or {}).get("metadata") or {}).get("labels") or {}
        status: RawObject = {
            "replicas": len(active),
            "fullyLabeledReplicas": sum(
                template_labels.items() <= (pod.metadata.labels or {}).items() for pod in active
            ),
            "readyReplicas": sum(map(is_ready, active)),
            "availableReplicas": sum(is_available(pod, minimum, now) for pod in active),
            "observedGeneration": replica_set.metadata.generation or 0,
        }
        if (when := next_available(active, minimum, now)) is not None:
            self.queue.add_at(key, when)
        known = (
            old.replicas or 0,
            old.fully_labeled_replicas or 0,
            old.ready_replicas or 0,
            old.available_replicas or 0,
            old.observed_generation or 0,
        )
        new_conditions = conditions.list()
        if tuple(status.values()) != known or new_conditions != Conditions(old.conditions, now).list():
            status["conditions"] = new_conditions or None
            yield status_patch(REPLICA_SETS, replica_set, status)


def _wanted(replica_set: LiveWorkload) -> int:
    return 1 if replica_set.spec.replicas is None else replica_set.spec.replicas
