"""How fast pods may go, and when none may go at all.

A mistake with labels can make every pod of a zone a violation.  So evictions are rate limited, in the
cluster and in each domain, and a domain from which more than a share of the pods would go is halted until
the labels are back or a person says otherwise: only pods whose replacement has a node go there, one by one.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, replace

from berth.engine.execution.eviction_ceiling import (
    CLUSTER,
    Halt,
    counted_halts,
    is_in,
    is_replaced,
    measured,
    name_of,
    stopping,
)
from berth.eviction.pacing import OwnedPods, OwnerPacing, OwnerReturns, owner_id
from berth.eviction.records import EvictionAttempt, PlannedEviction
from berth.eviction.settings import EvictionRate, EvictionSettings
from berth.kube.objects import LivePod, OwnerReference
from berth.kube.ownership import controller_of
from berth.kube.pods import is_finished, is_ready
from berth.machines.cache import Cache
from berth.machines.rates import TokenBucket

# --- one pod of a halted domain at a time ---------------------------------------------------------
# Stricter than the pace of an owner: all owners of the domain wait for each other, and a replacement that
# gets no node, or never becomes Ready, is waited for without a limit.  Where something went wrong with labels
# after all, that is one pod and no more.

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


# --- rates and halts ------------------------------------------------------------------------------

# What a pod may have to wait for, as logs and metrics have it.
REFUSED, CHANGED, HALTED, ONE_BY_ONE = "refused", "changed", "halted", "one-by-one"
PACED, BACKED_OFF, RATE = "paced", "owner-backed-off", "rate"
# Evictions are of one wave if no more than this is between them.
WAVE = 60.0
# A pod of a halted domain whose place is taken after all is asked about again after so long.
_ASK_AGAIN = 5.0
# No more than these of a halted domain are asked about in one round.
_MOST_ASKED = 10
_MOST_BUCKETS = 4096


class EvictionHalts:
    """Which domains are above the ceiling, so that pods go one by one there, or not at all.

    Attributes:
        ceiling: What is too many, and what happens then.
        halts: By domain.
        released: Domains that a person let go on.
    """

    def __init__(self, settings: EvictionSettings) -> None:
        self.ceiling = settings.ceiling
        self._evicted: deque[tuple[float, str]] = deque()
        self._running: dict[str, int] = {}  # halted domain -> the pods there when it was halted
        self.halts: dict[str, Halt] = {}
        self.released: frozenset[str] = frozenset()

    def evicted(self, domain: str, now: float) -> None:
        """A pod of a domain was evicted: it counts there for a while."""
        self._evicted.append((now, domain))

    def update(self, going: Mapping[str, int], running: Mapping[str, int], now: float) -> None:
        """Judge anew which domains are halted.

        Args:
            going: Pods that would go, by the domain they are in.
            running: All pods that run there.
            now: The time.
        """
        while self._evicted and self._evicted[0][0] < now - WAVE:
            self._evicted.popleft()
        gone = Counter(domain for _, domain in self._evicted)
        found = (self._as_when_halted(halt) for halt in measured(going, running, gone))
        self.halts = self.ceiling.exceeded(found, self.released)
        self._running = {
            domain: self._running.get(domain, halt.running) for domain, halt in self.halts.items()
        }

    def count(self, moving: Mapping[str, int], staying: Mapping[str, int]) -> None:
        """How many may move from the domains, and how many may not."""
        self.halts = counted_halts(self.halts, moving, staying)

    def _as_when_halted(self, halt: Halt) -> Halt:
        """Pods that come to a halted domain do not end the halt: that is for labels and people."""
        running = min(halt.running, self._running.get(halt.domain, halt.running))
        return replace(halt, running=running)

    def of(self, domain: str) -> Halt | None:
        """The halt that the pods of a domain are under."""
        return stopping(self.halts, domain)


class EvictionGates:
    """Everything that may keep a pod from going, asked in one order."""

    def __init__(self, cache: Cache, settings: EvictionSettings) -> None:
        self.halts = EvictionHalts(settings)
        owners = OwnedPods(cache)
        self.pacing = OwnerPacing(owners, settings)
        self.moves = Moves(owners, settings)
        self.returns = OwnerReturns()
        self._cluster_bucket = _bucket(settings.rate)
        self._domain_rate = settings.domain_rate
        self._domain_buckets: dict[str, TokenBucket] = {}
        self._paced: set[str] = set()
        self._taken: set[str] = set()
        self._asked: Counter[str] = Counter()

    def new_round(self) -> None:
        """An owner or a halted domain that is waited for once in a round is waited for throughout it."""
        self._paced.clear()
        self._taken.clear()
        self._asked.clear()

    def obstacle(self, attempt: EvictionAttempt, now: float) -> tuple[str, float | None]:
        """What a pod has to wait for, empty for nothing; and until when at the longest."""
        halt = self.halts.of(attempt.planned.domain)
        if halt is not None and not attempt.planned.movable:
            return _held(HALTED, halt), None
        if attempt.not_before > now:
            return REFUSED if attempt.refused else attempt.obstacle or RATE, attempt.not_before
        owner = owner_id(attempt.pod)
        if (until := self.returns.until(owner)) > now:
            return BACKED_OFF, until
        if owner in self._paced or self.pacing.waits(attempt.pod, now):
            self._paced.add(owner)
            return PACED, self.pacing.due(attempt.pod, now)
        if halt is not None and self._is_taken(halt, attempt.pod, now):
            return _held(ONE_BY_ONE, halt), self.moves.due(now)
        when = max(bucket.available_at(now) for bucket in self._buckets(attempt.planned.domain))
        return (RATE, when) if when > now else ("", None)

    def _is_taken(self, halt: Halt, pod: LivePod, now: float) -> bool:
        """Whether another pod of a halted domain is on its way, or enough were asked about in vain."""
        if halt.domain not in self._taken and self.moves.turn_is_taken(halt.domain, pod, now):
            self._taken.add(halt.domain)
        return halt.domain in self._taken or self._asked[halt.domain] >= _MOST_ASKED

    def has_no_place(self, attempt: EvictionAttempt, halt: Halt, now: float) -> tuple[str, float]:
        """A pod of a halted domain had its turn, and no node would take its replacement now."""
        self._asked[halt.domain] += 1
        attempt.not_before = now + _ASK_AGAIN
        return _held(HALTED, halt), attempt.not_before

    def may_go_on(self, attempt: EvictionAttempt, now: float) -> bool:
        """Whether a pod that is on its way may go on though its domain may have been halted meanwhile."""
        planned = attempt.planned
        if (halt := self.halts.of(planned.domain)) is None:
            return True
        movable = self.halts.ceiling.moves(attempt.pod.metadata, attempt.replacement)
        if not movable or planned.unplaceable:
            return False
        return not self.moves.turn_is_taken(halt.domain, attempt.pod, now)

    def enter(self, planned: PlannedEviction, pod: LivePod, now: float) -> None:
        """A pod begins to go; those who come after in the same round find the gates as it leaves them."""
        for bucket in self._buckets(planned.domain):
            bucket.take(now)
        self.pacing.begin(pod)
        self.moves.begin(pod, planned.domain)

    def turn_back(self, planned: PlannedEviction, pod: LivePod) -> None:
        """A pod that began to go did not."""
        for bucket in self._buckets(planned.domain):
            bucket.give_back()
        self.cancel(pod)

    def cancel(self, pod: LivePod) -> None:
        """Nobody waits for a replacement of a pod that is there."""
        self.pacing.cancel(pod)
        self.moves.cancel(pod)

    def perhaps_evicted(self, pod: LivePod, at: float) -> None:
        """Nobody knows whether a pod is gone: its replacement is waited for."""
        self.pacing.evicted(pod, at)
        self.moves.evicted(pod, at)

    def resume(self, pod: LivePod, now: float) -> None:
        """After a restart: a process before us may have evicted another pod of the owner."""
        self.pacing.resume(pod, now)
        self.moves.resume(pod, now)

    def concerns(self, pod: LivePod) -> bool:
        """Whether somebody waits for pods of this one's owner."""
        return self.pacing.concerns(pod) or (bool(self.halts.halts) and self.moves.concerns(pod))

    def begun(self) -> set[str]:
        """The uids of the pods that began to go and have not gone yet."""
        return self.pacing.begun() | self.moves.begun()

    def evicted(self, planned: PlannedEviction, pod: LivePod, at: float) -> None:
        """A pod is gone, and counts for its owner and its domain."""
        self.perhaps_evicted(pod, at)
        self.returns.evicted(owner_id(pod), at)
        self.halts.evicted(planned.domain, at)

    def _buckets(self, domain: str) -> tuple[TokenBucket, ...]:
        """The rates that a pod counts for: the cluster's, and that of the domain if it is in one."""
        if not domain:
            return (self._cluster_bucket,)
        bucket = self._domain_buckets.get(domain)
        if bucket is None:
            if len(self._domain_buckets) >= _MOST_BUCKETS:
                del self._domain_buckets[next(iter(self._domain_buckets))]
            bucket = self._domain_buckets[domain] = _bucket(self._domain_rate)
        return self._cluster_bucket, bucket


def _held(how: str, halt: Halt) -> str:
    return f"{how} in {name_of(halt.domain)}"


def _bucket(rate: EvictionRate) -> TokenBucket:
    return TokenBucket(rate.qps, rate.burst)
