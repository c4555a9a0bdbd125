"""How fast pods may go, and when none may go at all.

A mistake with labels can make every pod of a zone a violation.  So evictions are rate limited, in the
cluster and in each domain, and a domain from which more than a share of the pods would go is halted:
nobody is evicted there until the labels are back or a person says otherwise.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from berth.engine.execution.eviction_ceiling import Halt, measured, name_of, stopping
from berth.eviction.pacing import OwnerPacing, OwnerReturns, owner_id
from berth.eviction.records import EvictionAttempt, PlannedEviction
from berth.eviction.settings import EvictionRate, EvictionSettings
from berth.kube.objects import LivePod
from berth.machines.cache import Cache
from berth.machines.token_bucket import TokenBucket

# What a pod may have to wait for, as logs and metrics have it.
REFUSED, CHANGED, HALTED = "refused", "changed", "halted"
PACED, BACKED_OFF, RATE = "paced", "owner-backed-off", "rate"
# Evictions are of one wave if no more than this is between them.
WAVE = 60.0
_MOST_BUCKETS = 4096


class EvictionHalts:
    """Which domains are above the ceiling, so that nobody is evicted there.

    Attributes:
        halts: By domain.
        released: Domains that a person let go on.
    """

    def __init__(self, settings: EvictionSettings) -> None:
        self._ceiling = settings.ceiling
        self._evicted: deque[tuple[float, str]] = deque()
        self._running: dict[str, int] = {}  # halted domain -> the pods there when it was halted
        self.halts: dict[str, Halt] = {}
        self.released: frozenset[str] = frozenset()

    def evicted(self, domain: str, now: float) -> None:
        """A pod of a domain was evicted: it counts there for a while."""
        self._evicted.append((now, domain))

    def update(
        self, going: Mapping[str, int], running: Mapping[str, int], now: float
    ) -> tuple[list[Halt], list[str]]:
        """Which domains are halted now that were not, and the other way round.

        Args:
            going: Pods that would go, by the domain they are in.
            running: All pods that run there.
            now: The time.
        """
        while self._evicted and self._evicted[0][0] < now - WAVE:
            self._evicted.popleft()
        gone = Counter(domain for _, domain in self._evicted)
        found = (self._as_when_halted(halt) for halt in measured(going, running, gone))
        before, self.halts = self.halts, self._ceiling.exceeded(found, self.released)
        self._running = {
            domain: self._running.get(domain, halt.running) for domain, halt in self.halts.items()
        }
        new = [halt for domain, halt in self.halts.items() if domain not in before]
        return new, [domain for domain in before if domain not in self.halts]

    def _as_when_halted(self, halt: Halt) -> Halt:
        """Pods that come to a halted domain do not end the halt: that is for labels and people."""
        running = min(halt.running, self._running.get(halt.domain, halt.running))
        return replace(halt, running=running)

    def of(self, domain: str) -> Halt | None:
        """What keeps the pods of a domain from being evicted."""
        return stopping(self.halts, domain)


class EvictionGates:
    """Everything that may keep a pod from going, asked in one order."""

    def __init__(self, cache: Cache, settings: EvictionSettings) -> None:
        self.halts = EvictionHalts(settings)
        self.pacing = OwnerPacing(cache, settings)
        self.returns = OwnerReturns()
        self._cluster_bucket = _bucket(settings.rate)
        self._domain_rate = settings.domain_rate
        self._domain_buckets: dict[str, TokenBucket] = {}
        self._paced: set[str] = set()

    def new_round(self) -> None:
        """An owner that is waited for once in a round is waited for throughout it."""
        self._paced.clear()

    def obstacle(self, attempt: EvictionAttempt, now: float) -> tuple[str, float | None]:
        """What a pod has to wait for, empty for nothing; and until when at the longest."""
        if (halt := self.halts.of(attempt.planned.domain)) is not None:
            return f"{HALTED} in {name_of(halt.domain)}", None
        if attempt.not_before > now:
            return REFUSED if attempt.refused else attempt.obstacle or RATE, attempt.not_before
        owner = owner_id(attempt.pod)
        if (until := self.returns.until(owner)) > now:
            return BACKED_OFF, until
        if owner in self._paced or self.pacing.waits(attempt.pod, now):
            self._paced.add(owner)
            return PACED, self.pacing.due(attempt.pod, now)
        when = max(bucket.available_at(now) for bucket in self._buckets(attempt.planned.domain))
        return (RATE, when) if when > now else ("", None)

    def enter(self, planned: PlannedEviction, pod: LivePod, now: float) -> None:
        """A pod begins to go; those who come after in the same round find the gates as it leaves them."""
        for bucket in self._buckets(planned.domain):
            bucket.take(now)
        self.pacing.begin(pod)

    def turn_back(self, planned: PlannedEviction, pod: LivePod) -> None:
        """A pod that began to go did not."""
        for bucket in self._buckets(planned.domain):
            bucket.give_back()
        self.pacing.cancel(pod)

    def evicted(self, planned: PlannedEviction, pod: LivePod, at: float) -> None:
        """A pod is gone, and counts for its owner and its domain."""
        self.pacing.evicted(pod, at)
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


def _bucket(rate: EvictionRate) -> TokenBucket:
    return TokenBucket(rate.qps, rate.burst)
