"""One pod of an owner at a time, and no circles.

The next pod of an owner goes when the replacement of the last one is Ready, however long that takes; one
that gets no node is waited for up to a limit, because the rules of the others are broken, too.  An owner
whose replacements come back to a place where they break their rules again, as a scheduler that does not
know the rules would put them, is evicted from less and less often.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from berth.engine.execution.eviction_ceiling import is_replaced
from berth.eviction.settings import EvictionSettings
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
from berth.machines.rates import Backoff

# --- the pods of an owner -------------------------------------------------------------------------

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


# --- their pace -----------------------------------------------------------------------------------

# How long an owner is waited for that comes back.
_RETURNS = Backoff(first=30.0, longest=3600.0)
# An eviction is remembered for so long after the pause that followed it.
_MEMORY = 3600.0
_MOST_OWNERS = 4096


@dataclass(slots=True)
class _Step:
    """A pod of an owner that goes or has gone, and is not replaced yet."""

    uid: str
    target: int
    namespace: str
    owner: OwnerReference
    deadline: float | None = None  # None while it has not gone yet


class OwnerPacing:
    """Which owners wait for a replacement."""

    def __init__(self, owners: OwnedPods, settings: EvictionSettings) -> None:
        self._owners = owners
        self._enabled = settings.pace_by_owner
        self._timeout = settings.pace_timeout or math.inf
        self._steps: dict[str, _Step] = {}

    def concerns(self, pod: LivePod) -> bool:
        """Whether somebody waits for pods of this one's owner."""
        return bool(self._steps) and owner_id(pod) in self._steps

    def waits(self, pod: LivePod, now: float) -> bool:
        """Whether a pod has to wait for the replacement of another."""
        owner = owner_id(pod)
        step = self._steps.get(owner)
        if step is None or step.uid == pod.metadata.uid:
            return False
        if not self._is_over(step, now):
            return True
        del self._steps[owner]
        return False

    def due(self, pod: LivePod, now: float) -> float | None:
        """When a pod that waits may no longer be asked to; None if only another pod can end its wait."""
        step = self._steps.get(owner_id(pod))
        return None if step is None or step.deadline is None or step.deadline <= now else step.deadline

    def begin(self, pod: LivePod) -> None:
        """A pod is about to be evicted."""
        owner = self._paced_owner(pod)
        if owner is not None:
            uid, namespace = pod.metadata.uid or "", pod.metadata.namespace or ""
            self._steps[owner_id(pod)] = _Step(uid, self._owners.ready(owner), namespace, owner)

    def evicted(self, pod: LivePod, now: float) -> None:
        """The pod is gone, or may be: its replacement is waited for."""
        if (step := self._step_of(pod)) is not None:
            step.deadline = now + self._timeout

    def cancel(self, pod: LivePod) -> None:
        """The pod was not evicted after all."""
        if self._step_of(pod) is not None:
            del self._steps[owner_id(pod)]

    def resume(self, pod: LivePod, now: float) -> None:
        """After a restart: an owner with too few ready pods may have lost one to us just before."""
        owner, namespace = self._paced_owner(pod), pod.metadata.namespace or ""
        if owner is None or owner_id(pod) in self._steps:
            return
        replicas = self._owners.replicas(namespace, owner)
        if replicas is not None and self._owners.ready(owner) < replicas:
            self._steps[owner_id(pod)] = _Step("", replicas, namespace, owner, now + self._timeout)

    def _paced_owner(self, pod: LivePod) -> OwnerReference | None:
        """Who makes its replacement, if that is waited for: the pod of a node has none anywhere else."""
        return controller_of(pod.metadata) if self._enabled and is_replaced(pod.metadata) else None

    def _step_of(self, pod: LivePod) -> _Step | None:
        step = self._steps.get(owner_id(pod))
        return step if step is not None and step.uid == pod.metadata.uid else None

    def _is_over(self, step: _Step, now: float) -> bool:
        if step.deadline is None:
            return False
        if step.deadline <= now and not self._owners.is_coming(step.owner, but=step.uid):
            return True
        replicas = self._owners.replicas(step.namespace, step.owner)
        target = step.target if replicas is None else min(step.target, replicas)
        return self._owners.ready(step.owner, but=step.uid) >= target

    def begun(self) -> set[str]:
        """The uids of the pods that began to go and have not gone yet."""
        return {step.uid for step in self._steps.values() if step.deadline is None}


@dataclass(slots=True)
class _Memory:
    """When a pod of an owner was last evicted, how often one came back, and until when none goes."""

    evicted: float
    returns: int = 0
    until: float = 0.0

    def is_over(self, now: float) -> bool:
        return now > max(self.until, self.evicted) + _MEMORY


class OwnerReturns:
    """Who was evicted and came back, of the last few thousand owners."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, _Memory] = OrderedDict()

    def evicted(self, owner: str, now: float) -> None:
        """A pod of an owner was evicted."""
        memory = self._owners.get(owner)
        if memory is None or memory.is_over(now):
            self._owners[owner] = _Memory(now)
        else:
            memory.evicted = now
        self._owners.move_to_end(owner)
        if len(self._owners) > _MOST_OWNERS:
            self._owners.popitem(last=False)

    def came_back(self, owner: str, arrived: float, now: float) -> float | None:
        """A pod of an owner breaks a rule as soon as it is there; until when to wait, if we sent it there.

        One that came before the last eviction is not the replacement of the pod that went.
        """
        memory = self._owners.get(owner)
        if memory is None or memory.is_over(now) or arrived < memory.evicted:
            return None
        memory.returns += 1
        memory.until = now + _RETURNS.after(memory.returns)
        return memory.until

    def until(self, owner: str) -> float:
        """Until when nobody of the owner goes."""
        memory = self._owners.get(owner)
        return memory.until if memory is not None else 0.0

    def times(self, owner: str) -> int:
        memory = self._owners.get(owner)
        return memory.returns if memory is not None else 0
