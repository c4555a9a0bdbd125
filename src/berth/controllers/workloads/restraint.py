"""How long a workload waits for another pod after the last one was refused, failed or was evicted."""

from __future__ import annotations

from dataclasses import dataclass, field

from berth.machines.rates import Backoff

# Upstream: the rate limit of failed syncs, in client-go's DefaultTypedControllerRateLimiter.
REFUSALS = Backoff(first=0.005, longest=1000.0)
# Upstream: the back-off of failed daemon pods, in pkg/controller/daemon.
FAILURES = Backoff(first=1.0, longest=900.0)
_CALM = 60.0  # seconds, at least


@dataclass(slots=True)
class Restraint:
    """Failures by owner and place, which may be a node; each makes the next wait longer.

    Attributes:
        backoff: How long to wait after so many failures in a row.
        calm: How long nothing has to fail for a failure to be the first again; None: twice the last wait.
        free: How many failures in a row cost nothing.
    """

    backoff: Backoff
    calm: float | None = None
    free: int = 0
    _failures: dict[tuple[str, str], tuple[int, float]] = field(default_factory=dict)  # count, and the last

    def note(self, owner: str, now: float, place: str = "") -> float:
        """One more failure; when the next pod may be made."""
        count, last = self._failures.get((owner, place), (0, 0.0))
        calm = max(2 * self.backoff.after(count), _CALM) if self.calm is None else self.calm
        if count and now - last > calm:
            count = 0
        self._failures[owner, place] = (count + 1, now)
        return self.until(owner, place)

    def until(self, owner: str, place: str = "") -> float:
        """From when on a pod may be made; 0 if nothing failed there."""
        count, last = self._failures.get((owner, place), (0, 0.0))
        return last + self.backoff.after(count - self.free) if count else 0.0

    def forget(self, owner: str) -> None:
        for known in [known for known in self._failures if known[0] == owner]:
            del self._failures[known]
