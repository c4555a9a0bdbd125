"""Where replacements landed: one that did no good keeps its workload where it is, longer each time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from berth.kube.objects import Pod
from berth.machines.rates import Backoff

_RETURNS = Backoff(first=60.0, longest=6 * 3600.0)
_MEMORY = 3600.0  # landings are remembered for so long, and after a pause for as long again
_MOST_LANDINGS = 100


@dataclass(slots=True)
class LandingMemory:
    """Where replacements of a workload landed, and how often that was no good.

    Attributes:
        until: Until when it stays as it is.
    """

    _bound: Callable[[str], Pod | None]
    touched: float
    until: float = 0.0
    _landings: dict[str, str] = field(default_factory=dict)  # pod -> node
    _returns: int = 0

    def keep(self, landings: dict[str, str], now: float) -> None:
        """Replacements landed where it helps."""
        self._landings |= landings
        while len(self._landings) > _MOST_LANDINGS:
            del self._landings[next(iter(self._landings))]
        self.touched = now

    def notice_lost(self, node: str | None, now: float) -> None:
        """Back off if a replacement went to the same node before, and did not stay there.

        Whatever else was lost was lost with it, such as a whole zone: that counts once.
        """
        there = {
            pod: landing
            for pod, landing in self._landings.items()
            if (bound := self._bound(pod)) is not None and bound.spec.node_name == landing
        }
        if any(landing == node for pod, landing in self._landings.items() if pod not in there):
            self._landings = there
            self.back_off(now)

    def back_off(self, now: float) -> None:
        """It was no good again."""
        self._returns += 1
        self.touched = now
        self.until = now + _RETURNS.after(self._returns)

    def is_over(self, now: float) -> bool:
        return now > max(self.until, self.touched) + _MEMORY


class Landings:
    """The memories, by the uid of the workload; `bound` finds a pod that has a node."""

    def __init__(self, bound: Callable[[str], Pod | None]) -> None:
        self._bound = bound
        self._by_uid: dict[str, LandingMemory] = {}

    def of(self, uid: str, now: float) -> LandingMemory:
        memory = self._by_uid.get(uid)
        if memory is None or memory.is_over(now):
            self._by_uid = {each: known for each, known in self._by_uid.items() if not known.is_over(now)}
            memory = self._by_uid[uid] = LandingMemory(self._bound, now)
        return memory
