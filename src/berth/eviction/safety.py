"""How fast pods may go, and when none may go at all.

A mistake with labels can make every pod of a zone a violation.  So evictions are rate limited, in the
cluster and in each domain, and a domain from which more than a share of the pods would go is halted:
nobody is evicted there until the labels are back or a person says otherwise.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import replace

from berth.engine.execution.eviction_ceiling import Halt, measured, stopping
from berth.eviction.settings import EvictionRate, EvictionSettings

# Evictions are of one wave if no more than this is between them.
WAVE = 60.0
_MOST_BUCKETS = 4096


class Bucket:
    def __init__(self, rate: EvictionRate) -> None:
        self._rate = rate
        self._tokens = float(rate.burst)
        self._at = 0.0

    def available(self, now: float) -> float:
        """When the next token is there; not later than `now` if there is one."""
        self._fill(now)
        missing = 1.0 - self._tokens
        return now if missing <= 1e-9 else now + missing / self._rate.qps

    def take(self, now: float) -> None:
        self._fill(now)
        self._tokens -= 1.0

    def give_back(self) -> None:
        self._tokens = min(self._tokens + 1.0, float(self._rate.burst))

    def _fill(self, now: float) -> None:
        if self._at and now > self._at:
            self._tokens = min(self._tokens + (now - self._at) * self._rate.qps, float(self._rate.burst))
        self._at = max(now, self._at)


class Limits:
    """The rates of the cluster and of each domain together."""

    def __init__(self, settings: EvictionSettings) -> None:
        self._all = Bucket(settings.rate)
        self._rate = settings.domain_rate
        self._domains: dict[str, Bucket] = {}

    def available(self, domain: str, now: float) -> float:
        """When a pod of the domain may go; not later than `now` if at once."""
        return max(bucket.available(now) for bucket in self._of(domain))

    def open(self, now: float) -> float:
        """When any pod may go."""
        return self._all.available(now)

    def take(self, domain: str, now: float) -> None:
        for bucket in self._of(domain):
            bucket.take(now)

    def give_back(self, domain: str) -> None:
        """What was taken for an eviction that did not happen."""
        for bucket in self._of(domain):
            bucket.give_back()

    def _of(self, domain: str) -> tuple[Bucket, ...]:
        if not domain:
            return (self._all,)  # a node that is in no domain counts for the cluster only
        bucket = self._domains.get(domain)
        if bucket is None:
            if len(self._domains) >= _MOST_BUCKETS:
                del self._domains[next(iter(self._domains))]
            bucket = self._domains[domain] = Bucket(self._rate)
        return self._all, bucket


class Brake:
    """Which domains are halted.

    Attributes:
        halts: By domain.
        released: Domains that a person let go on.
    """

    def __init__(self, settings: EvictionSettings) -> None:
        self._ceiling = settings.ceiling
        self._gone: deque[tuple[float, str]] = deque()
        self._running: dict[str, int] = {}  # halted domain -> the pods there when it was halted
        self.halts: dict[str, Halt] = {}
        self.released: frozenset[str] = frozenset()

    def went(self, domain: str, now: float) -> None:
        self._gone.append((now, domain))

    def judge(
        self, going: Mapping[str, int], running: Mapping[str, int], now: float
    ) -> tuple[list[Halt], list[str]]:
        """Which domains are halted now that were not, and the other way round.

        Args:
            going: Pods that would go, by the domain they are in.
            running: All pods that run there.
            now: The time.
        """
        while self._gone and self._gone[0][0] < now - WAVE:
            self._gone.popleft()
        gone = Counter(domain for _, domain in self._gone)
        found = (self._remembering(halt) for halt in measured(going, running, gone))
        before, self.halts = self.halts, self._ceiling.exceeded(found, self.released)
        self._running = {
            domain: self._running.get(domain, halt.running) for domain, halt in self.halts.items()
        }
        new = [halt for domain, halt in self.halts.items() if domain not in before]
        return new, [domain for domain in before if domain not in self.halts]

    def _remembering(self, halt: Halt) -> Halt:
        """Pods that come to a halted domain do not end the halt: that is for labels and people."""
        running = min(halt.running, self._running.get(halt.domain, halt.running))
        return replace(halt, running=running)

    def stops(self, domain: str) -> Halt | None:
        return stopping(self.halts, domain)
