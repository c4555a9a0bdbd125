"""Every pod that is ours to place, by phase, and the transitions between phases.

A binding whose fate is unknown (no answer, a server error, a conflict) is not forgotten: the pod may
well be on its node.  It is looked up first, and while it is unbound the same binding is sent again; only
an answer that says the binding was not made frees the place for others.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from itertools import count, islice

import msgspec

from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Key, Pod
from berth.kube.pods import GroupKey
from berth.machines.cache import take
from berth.machines.contract import Action, Outcome, Purpose, expect
from berth.machines.rates import Backoff

# --- one pod --------------------------------------------------------------------------------------


class SchedulingPhase(StrEnum):
    """Where a pod is on its way; `SchedulingQueue` has the transitions.

    The first four are named as the `queue` label of kube-scheduler's `scheduler_pending_pods`.
    """

    __hash__ = str.__hash__  # counted and looked up at every step

    ACTIVE = "active"  # to be tried now, by priority and then by age
    BACKOFF = "backoff"  # tried in vain a moment ago
    UNSCHEDULABLE = "unschedulable"  # no cluster event since its last attempt could help it
    # Not to be tried: it has gates, its group is incomplete, or another scheduler may be starting its group.
    GATED = "gated"
    SCHEDULING = "scheduling"  # taken from the queue; never between two steps of the machine
    VOLUMES = "volumes"  # assumed on a node, its volumes are being bound and its claims reserved
    BINDING = "binding"  # assumed on a node, the binding was sent or waits to be sent again
    UNSURE = "unsure"  # assumed on a node, the binding may have been made: asking
    BOUND = "bound"  # the binding was made; waiting to see it


ASSUMED = frozenset(
    {SchedulingPhase.VOLUMES, SchedulingPhase.BINDING, SchedulingPhase.UNSURE, SchedulingPhase.BOUND}
)
PENDING = frozenset(SchedulingPhase) - ASSUMED


class SchedulerPurpose(Purpose):
    """What the scheduler's requests are for."""

    BIND = "bind"  # the best node is its node
    LOOK_UP = "look up"  # is it bound?
    VOLUMES = "volumes"  # tell its claims and volumes where it goes
    RESERVATION = "reservation"  # reserve its claims to devices
    RETURN = "return"  # give a reservation back
    ANNOUNCEMENT = "announcement"  # tell other schedulers that it starts its group
    CONDITION = "condition"  # state in its status why it has no node
    PREEMPTION = "preemption"  # make room for it
    GROUP = "group"  # state in the status of its group whether that was placed


class QueuedPod(msgspec.Struct, eq=False):
    """One pod that has no node, or was not seen on it yet."""

    key: Key
    pod: Pod
    pod_class: PodClass | None  # None while it has no readable rules
    phase: SchedulingPhase = SchedulingPhase.GATED
    number: int = 0  # tells it from another pod that had the same name
    ticket: int = 0  # tells current entries of heaps from outdated ones
    group: GroupKey | None = None
    since: float | None = None  # when it could first have been tried, which is what users wait from
    attempts: int = 0  # how often it was tried in vain since its specification last changed
    tried: float = 0.0  # when it was last tried
    refused_by: frozenset[str] = frozenset()  # the rules that refused some node then
    # Reason, message and nominated node that were last written into its status.
    said: tuple[str, str, str | None] | None = None
    nominated: str | None = None  # the node that is being cleared for it
    node: str | None = None  # where it is assumed to be, once it is
    attempt: int = 0  # tells the requests of this attempt from those of an earlier one
    started: float = 0.0  # when that attempt began
    repeats: int = 0  # how often the binding, or the question for it, was put off
    again: float | None = None  # when to repeat the next request, after a pause
    deadline: float | None = None  # when to give up waiting for volumes and devices

    @property
    def priority(self) -> int:
        return self.pod.spec.priority or 0

    @property
    def created(self) -> str:
        return self.pod.metadata.creation_timestamp or ""

    @property
    def profile(self) -> str:
        return self.pod.spec.scheduler_name or ""

    @property
    def pending(self) -> bool:
        return self.phase in PENDING


# --- all of them ----------------------------------------------------------------------------------

FLUSH = 300.0  # an unschedulable pod is tried again after this long, whatever happens
_PAUSES = Backoff(0.2, 10.0)  # before a binding is repeated


class SchedulingQueue:
    """The records of pods, each in the collection of its phase; nobody else changes phases."""

    def __init__(self, backoff: Backoff) -> None:
        self.backoff = backoff
        # Every record, from the pod's arrival until it is seen on a node or gone.
        self.pods: dict[Key, QueuedPod] = {}
        self.assumed: dict[Key, QueuedPod] = {}  # those that have a node
        self.counts: Counter[SchedulingPhase] = Counter()  # how many there are in each phase
        self._numbers = count(1)
        self._active: list[tuple[int, str, int, Key]] = []
        self._timers: list[tuple[float, int, Key]] = []  # ends of backoff, and flushes of unschedulable pods
        self._peers: dict[tuple[int, PodClass], dict[Key, QueuedPod]] = {}  # active pods of one class
        self._unschedulable: dict[PodClass | None, dict[Key, QueuedPod]] = {}
        self._timed: dict[Key, QueuedPod] = {}  # assumed pods with a pause or a deadline

    @property
    def in_flight(self) -> int:
        """Bindings under way."""
        return self.counts[SchedulingPhase.BINDING] + self.counts[SchedulingPhase.UNSURE]

    def pending(self, key: Key) -> QueuedPod | None:
        record = self.pods.get(key)
        return record if record is not None and record.pending else None

    def bound_by(self, action: Action) -> QueuedPod | None:
        """Whom a binding is for; None if it is settled, or another attempt is under way."""
        record = self.assumed.get(action.key)
        return record if record is not None and record.attempt == action.attempt else None

    # --- coming and going -------------------------------------------------------------------------

    def admit(self, record: QueuedPod) -> None:
        """Take a new pod in; it is gated until it is activated."""
        record.number = next(self._numbers)
        self.pods[record.key] = record
        self.counts[record.phase] += 1

    def drop(self, key: Key) -> QueuedPod | None:
        record = self.pods.pop(key, None)
        if record is not None:
            self._leave(record)
            self.assumed.pop(key, None)
            self._timed.pop(key, None)
            self.counts[record.phase] -= 1
        return record

    def revise(self, record: QueuedPod, pod: Pod, pod_class: PodClass | None) -> None:
        """The pod's specification changed; what was learnt about it is void."""
        self._become(record, SchedulingPhase.GATED)
        record.pod, record.pod_class = pod, pod_class
        record.attempts, record.refused_by = 0, frozenset()

    # --- pods without a node ----------------------------------------------------------------------

    def gate(self, record: QueuedPod) -> None:
        self._become(record, SchedulingPhase.GATED)

    def activate(self, record: QueuedPod, now: float) -> None:
        """To be tried as soon as its backoff is over."""
        until = record.tried + self.backoff.after(record.attempts)
        if until > now:
            self.back_off(record, until)
            return
        if record.since is None:
            record.since = now
        self._become(record, SchedulingPhase.ACTIVE)
        self._tidy()
        heapq.heappush(self._active, (-record.priority, record.created, record.ticket, record.key))
        if record.pod_class is not None:
            self._peers.setdefault((record.priority, record.pod_class), {})[record.key] = record

    def back_off(self, record: QueuedPod, until: float) -> None:
        if record.phase is not SchedulingPhase.BACKOFF:
            self._become(record, SchedulingPhase.BACKOFF)
            heapq.heappush(self._timers, (until, record.ticket, record.key))

    def set_aside(self, record: QueuedPod, now: float) -> None:
        """Unschedulable: wait for a cluster event that can help, but not forever."""
        self._become(record, SchedulingPhase.UNSCHEDULABLE)
        self._unschedulable.setdefault(record.pod_class, {})[record.key] = record
        heapq.heappush(self._timers, (now + FLUSH, record.ticket, record.key))

    def take(self, record: QueuedPod) -> None:
        """A node is being looked for."""
        record.attempt = next(self._numbers)
        self._become(record, SchedulingPhase.SCHEDULING)

    # --- pods with a node -------------------------------------------------------------------------

    def assume(
        self, record: QueuedPod, pod_class: PodClass, node: str, now: float, deadline: float | None
    ) -> None:
        """The pod has a node; with a deadline its volumes come first, otherwise its binding is sent."""
        record.pod_class, record.node, record.started, record.repeats = pod_class, node, now, 0
        self._become(record, SchedulingPhase.BINDING if deadline is None else SchedulingPhase.VOLUMES)
        self._time(record, deadline=deadline)

    def bind(self, record: QueuedPod) -> None:
        """The binding is sent, after volumes and claims or once more."""
        self._become(record, SchedulingPhase.BINDING)

    def put_off(self, record: QueuedPod, outcome: Outcome) -> None:
        """The next request is made after a pause."""
        record.repeats += 1
        self._time(record, again=outcome.again(_PAUSES.after(record.repeats)))

    def doubt(self, record: QueuedPod, outcome: Outcome) -> None:
        """Nobody knows whether the binding was made: after a pause the pod is looked up."""
        self._become(record, SchedulingPhase.UNSURE)
        self.put_off(record, outcome)

    def look_up(self, record: QueuedPod) -> None:
        """It is asked whether the pod is bound."""
        self._time(record)

    def confirm(self, record: QueuedPod) -> None:
        """The binding was made."""
        self._become(record, SchedulingPhase.BOUND)

    def give_back(self, record: QueuedPod, wait: float | None = None) -> None:
        """The pod has no node after all: to be tried again after its backoff."""
        record.node = None
        self.back_off(record, record.tried + max(self.backoff.after(record.attempts), wait or 0.0))

    def rested(self, now: float) -> list[QueuedPod]:
        """Those whose pause is over."""
        return [r for r in self._timed.values() if r.again is not None and r.again <= now]

    def late(self, now: float) -> list[QueuedPod]:
        """Those that have waited too long for their volumes."""
        return [r for r in self._timed.values() if r.deadline is not None and r.deadline <= now]

    def assumed_due(self) -> float | None:
        """When something is to be done about a pod that has a node."""
        times = (when for r in self._timed.values() for when in (r.again, r.deadline) if when is not None)
        return min(times, default=None)

    # --- trying -----------------------------------------------------------------------------------

    @property
    def any_active(self) -> bool:
        return self.counts[SchedulingPhase.ACTIVE] > 0

    @property
    def any_unschedulable(self) -> bool:
        return bool(self._unschedulable)

    def unschedulable(self) -> Iterator[tuple[PodClass | None, list[QueuedPod]]]:
        for pod_class, pods in list(self._unschedulable.items()):
            yield pod_class, list(pods.values())

    def due(self) -> float | None:
        """When there is something to try; 0 for now."""
        if self.any_active:
            return 0.0
        while self._timers and not self._current(self._timers[0][2], self._timers[0][1]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def flush(self, now: float) -> None:
        """Activate what has waited long enough."""
        while self._timers and self._timers[0][0] <= now:
            _, ticket, key = heapq.heappop(self._timers)
            if self._current(key, ticket):
                self.activate(self.pods[key], now)

    def next(self, most: int) -> list[QueuedPod]:
        """The first pod in line, and others of its class and priority, which are decided with it."""
        while self._active:
            _, _, ticket, key = heapq.heappop(self._active)
            if not self._current(key, ticket):
                continue
            first = self.pods[key]
            batch = [first]
            if first.pod_class is not None and first.group is None:
                peers = self._peers[first.priority, first.pod_class].values()
                others = (peer for peer in peers if peer is not first and peer.group is None)
                batch += islice(others, most - 1)
            for record in batch:
                self.take(record)
            return batch
        return []

    # --- bookkeeping --------------------------------------------------------------------------------

    def _become(self, record: QueuedPod, phase: SchedulingPhase) -> None:
        self._leave(record)
        self.counts[record.phase] -= 1
        self.counts[phase] += 1
        record.phase = phase
        if phase in ASSUMED:
            self.assumed[record.key] = record
        else:
            self.assumed.pop(record.key, None)
        record.ticket = next(self._numbers)
        self._time(record)

    def _time(self, record: QueuedPod, *, again: float | None = None, deadline: float | None = None) -> None:
        record.again, record.deadline = again, deadline
        if again is None and deadline is None:
            self._timed.pop(record.key, None)
        else:
            self._timed[record.key] = record

    def _leave(self, record: QueuedPod) -> None:
        """Out of the collection that the pod's phase keeps it in; heaps notice by the ticket."""
        if record.phase is SchedulingPhase.UNSCHEDULABLE:
            take(self._unschedulable, record.pod_class, record.key)
        elif record.phase is SchedulingPhase.ACTIVE and record.pod_class is not None:
            take(self._peers, (record.priority, record.pod_class), record.key)

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
        record = self.pods.get(key)
        return record is not None and record.ticket == ticket

    # --- proof --------------------------------------------------------------------------------------

    def validate(self) -> None:
        """Check between two steps that every record is where its phase says, and nowhere else; for tests."""
        phases = Counter(record.phase for record in self.pods.values())
        expect(+self.counts == phases, "the pods of each phase are counted", self.counts)
        heap = {key for *_, ticket, key in self._active if self._current(key, ticket)}
        timers = {key for _, ticket, key in self._timers if self._current(key, ticket)}
        peers = {key for found in self._peers.values() for key in found}
        aside = {key for found in self._unschedulable.values() for key in found}
        for key, record in self.pods.items():
            phase = record.phase
            timed = record.again is not None or record.deadline is not None
            is_active = phase is SchedulingPhase.ACTIVE
            waits = phase in (SchedulingPhase.BACKOFF, SchedulingPhase.UNSCHEDULABLE)
            places = {
                "the phase of a step": phase is SchedulingPhase.SCHEDULING,
                "the heap": (key in heap) != is_active,
                "the peers": (key in peers) != (is_active and record.pod_class is not None),
                "the timers": (key in timers) != waits,
                "the unschedulable": (key in aside) != (phase is SchedulingPhase.UNSCHEDULABLE),
                "the assumed": (self.assumed.get(key) is record) != (phase in ASSUMED),
                "the node": (record.node is not None) != (phase in ASSUMED),
                "the timed": (self._timed.get(key) is record) != timed,
                "the deadline": (record.deadline is not None) != (phase is SchedulingPhase.VOLUMES),
            }
            for name, wrong in places.items():
                expect(not wrong, f"{key} is {phase}, but not so by {name}")
        known = {*peers, *aside, *self.assumed, *self._timed}
        expect(known <= self.pods.keys(), "who is forgotten is forgotten everywhere", known)
