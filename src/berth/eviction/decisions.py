"""What the controller decided and why, as records that a shell logs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

BROKEN = "Rule broken"
HEALED = "Rule holds again"
EVICTING = "Evicting pod"
EVICTED = "Evicted pod"
REFUSED = "Eviction refused"
WOULD_EVICT = "Would evict pod"
WAITING = "Eviction waits"
HALTED = "Evictions halted"
ONE_BY_ONE = "Evictions go one by one"
RESUMED = "Evictions resumed"
BACKED_OFF = "Owner backed off"
INVALID = "Annotation is not valid"
# What became of a pod; all else about pods is a step on the way.
_RESULTS = frozenset({EVICTED, REFUSED, WOULD_EVICT, BACKED_OFF, INVALID})
_WARNINGS = frozenset({REFUSED, HALTED, ONE_BY_ONE, BACKED_OFF, INVALID})


@dataclass(frozen=True, slots=True)
class EvictionDecision:
    """One thing that the controller decided, or found.

    Attributes:
        what: One of the constants of this module.
        subject: The pod as `namespace/name`, or the domain.
        details: The rule, the node, the label and the value, and what else there is to say.
    """

    at: float
    what: str
    subject: str
    details: Mapping[str, object] = field(default_factory=dict)

    @property
    def warns(self) -> bool:
        return self.what in _WARNINGS

    @property
    def is_result(self) -> bool:
        return self.what in _RESULTS


Tell = Callable[[EvictionDecision], None]


def silent(decision: EvictionDecision) -> None:
    """For those who do not want to know."""
