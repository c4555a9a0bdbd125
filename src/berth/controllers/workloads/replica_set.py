"""ReplicaSets: as many pods as asked for, no more, no fewer.

Upstream: pkg/controller/replicaset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from berth.controllers.workloads.controller import WorkloadController
from berth.controllers.workloads.pods import deletion_rank, is_available, next_available, pod_from, wanted
from berth.kube.api_resources import PODS, REPLICA_SETS
from berth.kube.objects import Key, LivePod, LiveWorkload, RawObject, key_of
from berth.kube.ownership import controller_of
from berth.kube.pods import is_active, is_ready
from berth.kube.well_known import TRUE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Outcome
from berth.machines.recorder import NORMAL
from berth.machines.requests import Conditions, is_news, status_patch


class ReplicaSetController(WorkloadController):
    name = "replicaset-controller"
    watches = (REPLICA_SETS, PODS)
    owner = REPLICA_SETS

    def __init__(self, cache: Cache) -> None:
        super().__init__(cache)
        self._failure: dict[Key, str] = {}  # why the last creation failed, until there are enough pods

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        replica_set = self.cache.get(REPLICA_SETS, key, LiveWorkload)
        if replica_set is None or self.waits(replica_set.metadata, now):
            return
        metadata = replica_set.metadata
        if claims := self.claims(replica_set):
            yield from claims
            return  # who belongs here is decided first
        owned = self.owned(replica_set, LivePod)
        self.count_failures(metadata, owned, now)
        active = [pod for pod in owned if is_active(pod)]
        if not metadata.deletion_timestamp:
            yield from self._manage(replica_set, active, now)
        yield from self._status(replica_set, active, now)

    # --- pods -------------------------------------------------------------------------------------

    def _manage(self, replica_set: LiveWorkload, active: list[LivePod], now: float) -> Iterator[Action]:
        missing = wanted(replica_set) - len(active)
        if missing > 0:
            for _ in range(self.creations_allowed(replica_set.metadata, missing, now)):
                body = pod_from(replica_set, REPLICA_SETS)
                yield self.create_pod(replica_set, body, "too few pods", now)
        elif missing < 0:
            neighbours = self._neighbours(replica_set, active)
            ranked = sorted(active, key=lambda pod: deletion_rank(pod, neighbours, now))
            for pod in ranked[: min(-missing, self.burst)]:
                cause = f"{len(active)} pods, {wanted(replica_set)} wanted"
                yield self.delete_pod(replica_set, pod, cause, now)
                message = f"Deleted pod: {pod.metadata.name}"
                self.recorder.record(now, REPLICA_SETS, replica_set, NORMAL, "SuccessfulDelete", message)

    def _neighbours(self, replica_set: LiveWorkload, active: list[LivePod]) -> dict[str, int]:
        """How many pods of the same workload run on each node, over all its ReplicaSets."""
        owner, pods = controller_of(replica_set.metadata), list(active)
        for sibling in self.cache.owned(REPLICA_SETS, owner.uid, LiveWorkload) if owner is not None else ():
            if sibling.metadata.uid != replica_set.metadata.uid:
                pods += self.cache.owned(PODS, sibling.metadata.uid, LivePod)
        return Counter(pod.spec.node_name for pod in pods if pod.spec.node_name and is_active(pod))

    def creation_failed(self, item: LiveWorkload, action: Create, outcome: Outcome) -> None:
        self._failure[action.key] = outcome.message
        super().creation_failed(item, action, outcome)

    # --- status -----------------------------------------------------------------------------------

    def _status(self, replica_set: LiveWorkload, active: list[LivePod], now: float) -> Iterator[Action]:
        key = key_of(replica_set.metadata)
        if len(active) >= wanted(replica_set):
            self._failure.pop(key, None)
        conditions = Conditions(replica_set.status.conditions, now)
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
            "availableReplicas": sum(is_available(pod, replica_set, now) for pod in active),
            "observedGeneration": replica_set.metadata.generation or 0,
        }
        self.queue.put_off(key, next_available(active, replica_set, now), now)
        if is_news(replica_set, status) or conditions.changed:
            status["conditions"] = conditions.list() or None
            yield status_patch(REPLICA_SETS, replica_set, status)
