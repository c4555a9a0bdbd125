"""The settings of evicting for affinity."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from berth.engine.execution.eviction_ceiling import Ceiling
from berth.engine.state.options import Options


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionRate:
    """Evictions a second on average, and how many at once."""

    qps: float
    burst: int

    def __post_init__(self) -> None:
        if not 0 < self.qps < math.inf or self.burst < 1:
            raise ValueError("an eviction rate must be greater than zero, and its burst at least one")


@dataclass(frozen=True, slots=True, kw_only=True)
class EvictionSettings(Ceiling):
    """How pods are evicted for affinity, and where too many would go at once; times in seconds."""

    # How the rules are read; also says which feature gates are on.
    options: Options = field(default_factory=Options)
    grace: float = 30.0  # how long pod affinity may be broken before a pod goes for it
    rate: EvictionRate = EvictionRate(qps=1.0, burst=10)  # evictions in the whole cluster
    domain_rate: EvictionRate = EvictionRate(qps=0.5, burst=5)  # evictions in one topology domain
    pace_by_owner: bool = True  # the replacement of a pod is Ready before the next pod of its owner goes
    pace_timeout: float = 600.0  # after so long without it the next one goes all the same; 0 to wait for ever
    dry_run: bool = False  # only tell what would be done
    uses_requests: bool = False  # ask for evictions by EvictionRequests instead of the Eviction API
    request_timeout: float = 1800.0  # an EvictionRequest that is not answered for so long is withdrawn

    def __post_init__(self) -> None:
        if not 0 < self.max_share <= 1:
            raise ValueError("the share of pods that may go must be greater than 0 and at most 1")
        if self.grace < 0 or self.pace_timeout < 0 or self.halt_above < 0:
            raise ValueError("times and numbers must not be negative")
