"""How fast pods may go, and when none may go at all.

A mistake with labels can make every pod of a zone a violation.  So evictions are rate limited, in the
cluster and in each domain, and a domain from which more than a share of the pods would go is halted until
the labels are back or a person says otherwise: only pods whose replacement has a node go there, one by one.
An owner whose replacements come back to a place where they break their rules again, as a scheduler that does
not know the rules would put them, is evicted from less and less often.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from berth.engine.execution.eviction_ceiling import (
    Ceiling,
    Halt,
    counted_halts,
    measured,
    name_of,
    stopping,
)
from berth.eviction.pacing import EvictionsUnderWay, owner_id
from berth.eviction.settings import EvictionRate, EvictionSettings
from berth.eviction.state import EvictionAttempt
from berth.kube.objects import LivePod
from berth.machines.cache import Cache
from berth.machines.rates import Backoff, Recent, ReturnMemories, ReturnMemory, TokenBucket

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
# How long an owner is waited for that comes back.
_RETURNS = Backoff(first=30.0, longest=3600.0)


class EvictionHalts:
    """Which domains are above the ceiling, so that pods go one by one there, or not at all.

    Attributes:
        ceiling: What is too many, and what happens then.
        halts: By domain.
        released: Domains that a person let go on.
    """

    def __init__(self, settings: EvictionSettings) -> None:
        self.ceiling: Ceiling = settings
        self._evicted: deque[tuple[float, str]] = deque()
        self._running: dict[str, int] = {}  # halted domain -> the pods there when it was halted
        self.halts: dict[str, Halt] = {}
        self.released: frozenset[str] = frozenset()

    def evicted(self, domain: str, now: float) -> None:
        """A pod of a domain was evicted: it counts there for a while."""
        self._evicted.append((now, domain))

    def update(self, going: Mapping[str, int], running: Mapping[str, int], now: float) -> None:
        """Judge anew which domains are halted: by domain, how many pods would go, and how many run there."""
        while self._evicted and self._evicted[0][0] < now - WAVE:
            self._evicted.popleft()
        gone = Counter(domain for _, domain in self._evicted)
        # Pods that come to a halted domain do not end the halt: that is for labels and people.
        found = (
            replace(halt, running=min(halt.running, self._running.get(halt.domain, halt.running)))
            for halt in measured(going, running, gone)
        )
        self.halts = self.ceiling.exceeded(found, self.released)
        self._running = {
            domain: self._running.get(domain, halt.running) for domain, halt in self.halts.items()
        }

    def count(self, moving: Mapping[str, int], staying: Mapping[str, int]) -> None:
        """How many may move from the domains, and how many may not."""
        self.halts = counted_halts(self.halts, moving, staying)

    def of(self, domain: str) -> Halt | None:
        """The halt that the pods of a domain are under."""
        return stopping(self.halts, domain)


class EvictionGates:
    """Everything that may keep a pod from going, asked in one order."""

    def __init__(self, cache: Cache, settings: EvictionSettings) -> None:
        self.halts = EvictionHalts(settings)
        self.under_way = EvictionsUnderWay(cache, settings)
        self.returns = ReturnMemories(partial(ReturnMemory, _RETURNS))
        self._cluster_bucket = _bucket(settings.rate)
        self._domain_rate = settings.domain_rate
        self._domain_buckets: Recent[str, TokenBucket] = Recent(_MOST_BUCKETS)
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
        if (returned := self.returns.known(owner, now)) is not None and returned.until > now:
            return BACKED_OFF, returned.until
        if owner in self._paced or self.under_way.owner_waits(attempt.pod, now):
            self._paced.add(owner)
            return PACED, self.under_way.owner_due(attempt.pod, now)
        if halt is not None and self._is_taken(halt, attempt.pod, now):
            return _held(ONE_BY_ONE, halt), self.under_way.turn_due(now)
        when = max(bucket.available_at(now) for bucket in self._buckets(attempt.planned.domain))
        return (RATE, when) if when > now else ("", None)

    def _is_taken(self, halt: Halt, pod: LivePod, now: float) -> bool:
        """Whether another pod of a halted domain is on its way, or enough were asked about in vain."""
        if halt.domain not in self._taken and self.under_way.turn_is_taken(halt.domain, pod, now):
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
        return not self.under_way.turn_is_taken(halt.domain, attempt.pod, now)

    def enter(self, attempt: EvictionAttempt, now: float) -> None:
        """A pod begins to go; those who come after in the same round find the gates as it leaves them."""
        for bucket in self._buckets(attempt.planned.domain):
            bucket.take(now)
        self.under_way.begin(attempt.pod, attempt.planned.domain)

    def turn_back(self, attempt: EvictionAttempt) -> None:
        """A pod that began to go did not."""
        for bucket in self._buckets(attempt.planned.domain):
            bucket.give_back()
        self.under_way.cancel(attempt.pod)

    def evicted(self, attempt: EvictionAttempt, at: float) -> None:
        """A pod is gone, and counts for its owner and its domain."""
        self.under_way.evicted(attempt.pod, at)
        self.returns.of(owner_id(attempt.pod), at).moved = at
        self.halts.evicted(attempt.planned.domain, at)

    def _buckets(self, domain: str) -> tuple[TokenBucket, ...]:
        """The rates that a pod counts for: the cluster's, and that of the domain if it is in one."""
        if not domain:
            return (self._cluster_bucket,)
        if domain not in self._domain_buckets:
            self._domain_buckets[domain] = _bucket(self._domain_rate)
        return self._cluster_bucket, self._domain_buckets[domain]


def _held(how: str, halt: Halt) -> str:
    return f"{how} in {name_of(halt.domain)}"


def _bucket(rate: EvictionRate) -> TokenBucket:
    return TokenBucket(rate.qps, rate.burst)
