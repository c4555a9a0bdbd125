"""Pods that have no node yet: which to try next, and which wait for what.

A pod is *active* (to be tried now, by priority and then by age), in *backoff* (tried in vain a moment
ago), *stuck* (no change since its last attempt could help it), *gated* (not to be tried at all), or
*taken* (being placed or bound at the moment).
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from berth.engine.state.pod_class import PodClass
from berth.kube.api_resources import Resource
from berth.kube.objects import Key, Pod
from berth.machines.contract import Purpose
from berth.machines.indexes import take

GroupKey = tuple[Resource, str, str]

FLUSH = 300.0  # a stuck pod is tried again after this long, whatever happens


class State(StrEnum):
    """Named as the `queue` label of kube-scheduler's `scheduler_pending_pods`."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    STUCK = "unschedulable"
    GATED = "gated"
    TAKEN = "taken"


class SchedulerPurpose(Purpose):
    BIND = "bind"  # the best node is its node
    LOOK_UP = "look up"  # is it bound?
    VOLUMES = "volumes"  # tell its claims and volumes where it goes
    STATEMENT = "statement"  # state in its status why it has no node
    PREEMPTION = "preemption"  # make room for it


@dataclass(slots=True, eq=False)
class Waiting:
    """One pod without a node.

    Attributes:
        number: Tells it from another pod that had the same name.
        pod_class: None while it has no readable rules.
        since: When it could first have been tried, which is what users wait from.
        attempts: How often it was tried in vain since its specification last changed.
        tried: When it was last tried.
        refused_by: The rules that refused some node then.
        said: Reason, message and nominated node that were last written into its status.
        nominated: The node that is being cleared for it.
        ticket: Tells current entries of heaps from outdated ones.
    """

    key: Key
    pod: Pod
    pod_class: PodClass | None
    since: float | None = None
    group: GroupKey | None = None
    state: State = State.GATED
    attempts: int = 0
    tried: float = 0.0
    refused_by: frozenset[str] = frozenset()
    said: tuple[str, str, str | None] | None = None
    nominated: str | None = None
    ticket: int = 0
    number: int = 0

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def created(self) -> str:
        return self.pod.metadata.creation_timestamp or ""


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float = 1.0
    longest: float = 10.0

    def of(self, attempts: int) -> float:
        return float(min(self.first * 2.0 ** min(attempts - 1, 30), self.longest)) if attempts > 0 else 0.0


class WaitingPods:
    """Attributes:
    pods: Every pod without a node that is ours to place.
    """

    def __init__(self, backoff: Backoff | None = None) -> None:
        self.pods: dict[Key, Waiting] = {}
        self.backoff = backoff or Backoff()
        self.counts: Counter[State] = Counter()
        self._tickets = 0
        self._active: list[tuple[int, str, int, Key]] = []
        self._timers: list[tuple[float, int, Key]] = []  # ends of backoff, and flushes of stuck pods
        self._peers: dict[tuple[int, PodClass], dict[Key, Waiting]] = {}  # active pods of one class
        self._stuck: dict[PodClass | None, dict[Key, Waiting]] = {}

    # --- coming and going -------------------------------------------------------------------------

    def add(self, waiting: Waiting) -> None:
        """Take a new pod in; it is gated until it is activated."""
        self.pods[waiting.key] = waiting
        self.counts[waiting.state] += 1

    def drop(self, key: Key) -> Waiting | None:
        waiting = self.pods.pop(key, None)
        if waiting is not None:
            self._leave(waiting)
            self.counts[waiting.state] -= 1
        return waiting

    def revise(self, waiting: Waiting, pod: Pod, pod_class: PodClass | None) -> None:
        """The pod's specification changed; what was learnt about it is void."""
        self._leave(waiting)
        waiting.pod, waiting.pod_class = pod, pod_class
        waiting.attempts, waiting.refused_by = 0, frozenset()
        self._become(waiting, State.GATED)

    # --- states -----------------------------------------------------------------------------------

    def activate(self, waiting: Waiting, now: float) -> None:
        """To be tried as soon as its backoff is over."""
        until = waiting.tried + self.backoff.of(waiting.attempts)
        if until > now:
            self.back_off(waiting, until)
            return
        if waiting.since is None:
            waiting.since = now
        self._leave(waiting)
        self._become(waiting, State.ACTIVE)
        self._tidy()
        heapq.heappush(self._active, (-waiting.priority, waiting.created, waiting.ticket, waiting.key))
        if waiting.pod_class is not None:
            self._peers.setdefault((waiting.priority, waiting.pod_class), {})[waiting.key] = waiting

    def back_off(self, waiting: Waiting, until: float) -> None:
        if waiting.state is State.BACKOFF:
            return
        self._leave(waiting)
        self._become(waiting, State.BACKOFF)
        heapq.heappush(self._timers, (until, waiting.ticket, waiting.key))

    def stick(self, waiting: Waiting, now: float) -> None:
        """Wait for a change that can help, but not forever."""
        self._leave(waiting)
        self._become(waiting, State.STUCK)
        self._stuck.setdefault(waiting.pod_class, {})[waiting.key] = waiting
        heapq.heappush(self._timers, (now + FLUSH, waiting.ticket, waiting.key))

    def gate(self, waiting: Waiting) -> None:
        self._leave(waiting)
        self._become(waiting, State.GATED)

    def take(self, waiting: Waiting) -> None:
        self._leave(waiting)
        self._become(waiting, State.TAKEN)

    def stuck_classes(self) -> Iterator[tuple[PodClass | None, list[Waiting]]]:
        for pod_class, pods in list(self._stuck.items()):
            yield pod_class, list(pods.values())

    @property
    def any_stuck(self) -> bool:
        return bool(self._stuck)

    # --- trying -----------------------------------------------------------------------------------

    def due(self) -> float | None:
        """When there is something to try; 0 for now."""
        if self.counts[State.ACTIVE]:
            return 0.0
        while self._timers and not self._current(self._timers[0][2], self._timers[0][1]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def ripen(self, now: float) -> None:
        """Activate what has waited long enough."""
        while self._timers and self._timers[0][0] <= now:
            _, ticket, key = heapq.heappop(self._timers)
            if self._current(key, ticket):
                waiting = self.pods[key]
                self.activate(waiting, now)

    def next(self, most: int) -> list[Waiting]:
        """The first pod in line, and others of its class and priority, which are decided with it."""
        while self._active:
            _, _, ticket, key = heapq.heappop(self._active)
            if not self._current(key, ticket):
                continue
            first = self.pods[key]
            batch = [first]
            if first.pod_class is not None and first.group is None:
                peers = self._peers[first.priority, first.pod_class]
                for peer in peers.values():
                    if len(batch) >= most:
                        break
                    if peer is not first and peer.group is None:
                        batch.append(peer)
            for waiting in batch:
                self.take(waiting)
            return batch
        return []

    # --- bookkeeping --------------------------------------------------------------------------------

    def _become(self, waiting: Waiting, state: State) -> None:
        self.counts[waiting.state] -= 1
        self.counts[state] += 1
        waiting.state = state
        self._tickets += 1
        waiting.ticket = self._tickets

    def _tidy(self) -> None:
        """Drop outdated entries once they are many: where nobody decides nobody pops them."""
        most = 2 * len(self.pods) + 1024
        if len(self._active) > most:
            self._active = [entry for entry in self._active if self._current(entry[3], entry[2])]
            heapq.heapify(self._active)
        if len(self._timers) > 2 * most:
            self._timers = [entry for entry in self._timers if self._current(entry[2], entry[1])]
            heapq.heapify(self._timers)

    def _current(self, key: Key, ticket: int) -> bool:
        waiting = self.pods.get(key)
        return waiting is not None and waiting.ticket == ticket

    def _leave(self, waiting: Waiting) -> None:
        """Out of whatever collection the pod's state keeps it in; heaps notice by the ticket."""
        if waiting.state is State.ACTIVE and waiting.pod_class is not None:
            take(self._peers, (waiting.priority, waiting.pod_class), waiting.key)
        elif waiting.state is State.STUCK:
            take(self._stuck, waiting.pod_class, waiting.key)
