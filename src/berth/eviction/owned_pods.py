"""The pods that a controller has, and how many it is to have."""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.api_resources import (
    PODS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
    Resource,
)
from berth.kube.objects import LivePod, LiveWorkload, OwnerReference, ReplicationController
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_ready, is_terminating
from berth.machines.cache import Cache

_COUNTED: dict[str, Resource] = {
    REPLICA_SETS.kind: REPLICA_SETS,
    STATEFUL_SETS.kind: STATEFUL_SETS,
    REPLICATION_CONTROLLERS.kind: REPLICATION_CONTROLLERS,
}


def owner_id(pod: LivePod) -> str:
    """What is remembered about: the controller, or the name of a pod that has none."""
    owner = controller_of(pod.metadata)
    if owner is not None and owner.uid:
        return owner.uid
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


class OwnedPods:
    """Asks the cache about the pods of controllers."""

    def __init__(self, cache: Cache) -> None:
        self._cache = cache

    def pods(self, owner: OwnerReference, but: str = "") -> Iterator[LivePod]:
        """Its pods that stay, those that are finished included; `but` is the uid of one to leave out."""
        for pod in self._cache.owned(PODS, owner.uid, LivePod):
            if not is_terminating(pod) and pod.metadata.uid != but:
                yield pod

    def ready(self, owner: OwnerReference, but: str = "") -> int:
        return sum(map(is_ready, self.pods(owner, but)))

    def placed(self, owner: OwnerReference, but: str = "") -> int:
        """How many have a node and are not finished."""
        return sum(bool(pod.spec.node_name) and not is_finished(pod) for pod in self.pods(owner, but))

    def is_coming(self, owner: OwnerReference, but: str = "") -> bool:
        """Whether one has a node and is not Ready yet: that is worth any wait."""
        return any(
            bool(pod.spec.node_name) and not is_ready(pod) and not is_finished(pod)
            for pod in self.pods(owner, but)
        )

    def replicas(self, namespace: str, owner: OwnerReference) -> int | None:
        """How many pods the owner is to have; None if that is not known."""
        resource = _COUNTED.get(owner.kind or "")
        if resource is None:
            return None
        key = (namespace, owner.name or "")
        found: LiveWorkload | ReplicationController | None
        if resource == REPLICATION_CONTROLLERS:
            found = self._cache.get(resource, key, ReplicationController)
        else:
            found = self._cache.get(resource, key, LiveWorkload)
        if found is None or found.metadata.uid != owner.uid or found.metadata.deletion_timestamp:
            return 0
        return 1 if found.spec.replicas is None else found.spec.replicas
