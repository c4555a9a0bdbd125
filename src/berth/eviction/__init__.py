"""Execution-time affinity: pods whose required rules stop holding are evicted, promptly and politely.

- `finding`: which rules are broken, by the engine's judgement; `ledger` since when.
- `reading`: which rules are none.
- `census`: how many pods run where.
- `planning`: who has to go, in which order.
- `safety`: how fast, and when nobody at all; `pacing`: one of an owner at a time, and no circles.
- `evicting`: each pod through its steps.
- `signals`, `metrics`, `decisions`: what people, dashboards and logs are told.
- `machine`: all of it together.
"""

from berth.eviction.decisions import EvictionDecision, Tell
from berth.eviction.machine import AffinityEviction
from berth.eviction.metrics import EvictionMetrics
from berth.eviction.settings import EvictionRate, EvictionSettings

__all__ = [
    "AffinityEviction",
    "EvictionDecision",
    "EvictionMetrics",
    "EvictionRate",
    "EvictionSettings",
    "Tell",
]
