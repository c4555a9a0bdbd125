"""Moves out of halted domains: the next pod goes when the replacement of the last one is Ready.

Stricter than the pace of an owner: all owners of the domain wait for each other, and a replacement that
gets no node, or never becomes Ready, is waited for without a limit.  Where something went wrong with labels
after all, that is one pod and no more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from berth.engine.execution.eviction_ceiling import CLUSTER, is_in, is_replaced
from berth.eviction.owned_pods import OwnedPods, owner_id
from berth.eviction.settings import EvictionSettings
from berth.kube.objects import LivePod, OwnerReference
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_ready

_MOST_MOVES = 4096


@dataclass(slots=True)
class _Move:
    """A pod that goes or has gone, and is not replaced yet.

    Attributes:
        domain: Where it ran; that of the cluster if that is not known any more.
        uid: Empty if a process before us sent it away.
        ready, placed: How many pods of the owner were, with this one.
        known: The pods that the owner had; any other one came after it.
        deadline: When to stop asking for what can no longer be known; None while the pod has not gone.
    """

    uid: str
    domain: str
    namespace: str
    owner: OwnerReference
    ready: int
    placed: int
    known: frozenset[str]
    deadline: float | None = None


class Moves:
    """The pods that are under way, of all domains: where one is halted, the others there wait for them."""

    def __init__(self, owners: OwnedPods, settings: EvictionSettings) -> None:
        self._owners = owners
        self._timeout = settings.pace_timeout or math.inf
        self._moves: dict[str, _Move] = {}  # in the order in which they began

    def concerns(self, pod: LivePod) -> bool:
        """Whether somebody may wait for pods of this one's owner."""
        owner = owner_id(pod)
        return any(move.owner.uid == owner for move in self._moves.values())

    def turn_is_taken(self, halted: str, pod: LivePod, now: float) -> bool:
        """Whether a pod of a halted domain has to wait for another one that began before it."""
        for key, move in list(self._moves.items()):
            if move.uid == pod.metadata.uid:
                return False
            if not is_in(move.domain, halted) and move.domain != CLUSTER:
                continue
            if not self._is_over(move, now):
                return True
            del self._moves[key]
        return False

    def due(self, now: float) -> float | None:
        """When a move may be over though nothing happens."""
        times = [move.deadline for move in self._moves.values() if move.deadline is not None]
        return min((when for when in times if now < when < math.inf), default=None)

    def begin(self, pod: LivePod, domain: str) -> None:
        """A pod is about to be evicted; one that nobody replaces is not waited for."""
        owner = controller_of(pod.metadata)
        if owner is None or not is_replaced(pod.metadata):
            return
        known = frozenset(each.metadata.uid or "" for each in self._owners.pods(owner))
        namespace, uid = pod.metadata.namespace or "", pod.metadata.uid or ""
        ready, placed = self._owners.ready(owner), self._owners.placed(owner)
        self._moves[uid] = _Move(uid, domain, namespace, owner, ready, placed, known)

    def evicted(self, pod: LivePod, now: float) -> None:
        """The pod is gone, or may be: its replacement is waited for."""
        if (move := self._moves.get(pod.metadata.uid or "")) is not None:
            move.deadline = now + self._timeout
        while len(self._moves) > _MOST_MOVES:
            del self._moves[next(iter(self._moves))]

    def cancel(self, pod: LivePod) -> None:
        """The pod was not evicted after all."""
        self._moves.pop(pod.metadata.uid or "", None)

    def resume(self, pod: LivePod, now: float) -> None:
        """After a restart: an owner with too few ready pods may have lost one to us just before."""
        owner, namespace = controller_of(pod.metadata), pod.metadata.namespace or ""
        if owner is None or not is_replaced(pod.metadata) or owner_id(pod) in self._moves:
            return
        replicas = self._owners.replicas(namespace, owner)
        if replicas is not None and self._owners.ready(owner) < replicas:
            known = frozenset(each.metadata.uid or "" for each in self._owners.pods(owner))
            deadline = now + self._timeout
            self._moves[owner_id(pod)] = _Move(
                "", CLUSTER, namespace, owner, replicas, replicas, known, deadline
            )

    def forget_settled(self, now: float) -> None:
        """Leave out those that nobody would have to wait for."""
        self._moves = {key: move for key, move in self._moves.items() if not self._is_over(move, now)}

    def _is_over(self, move: _Move, now: float) -> bool:
        if move.deadline is None:
            return False
        owner, uid = move.owner, move.uid
        replicas = self._owners.replicas(move.namespace, owner)
        ready, placed = move.ready, move.placed
        if replicas is not None:
            ready, placed = min(ready, replicas), min(placed, replicas)
        are_placed = self._owners.placed(owner, but=uid) >= placed
        if are_placed and self._owners.ready(owner, but=uid) >= ready:
            return True
        if move.deadline <= now and not uid:
            return are_placed  # it may never have been whole
        if move.deadline <= now and any(pod.metadata.uid == uid for pod in self._owners.pods(owner)):
            return True  # the server said that it goes, and it did not
        if replicas is not None:
            return False
        return self._has_come(move) or (move.deadline <= now and not self._waits(move))

    def _has_come(self, move: _Move) -> bool:
        """Whether the owner, of a kind that is not counted, has made another pod that is Ready or done."""
        return any(
            pod.metadata.uid not in move.known and (is_ready(pod) or is_finished(pod))
            for pod in self._owners.pods(move.owner, but=move.uid)
        )

    def _waits(self, move: _Move) -> bool:
        """Whether the owner has a pod that is to become Ready: if not, perhaps it needs no more."""
        pods = self._owners.pods(move.owner, but=move.uid)
        return any(not is_ready(pod) and not is_finished(pod) for pod in pods)

    def begun(self) -> set[str]:
        """The uids of the pods that began to go and have not gone yet."""
        return {move.uid for move in self._moves.values() if move.deadline is None}
