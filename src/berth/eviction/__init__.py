"""Execution-time affinity: pods whose required rules stop holding are evicted, promptly and politely.

- `records`: what is known of one pod, with the phase of its eviction; `state` has all of them.
- `detection`: which rules are broken, by the engine's judgement; `state` has since when.
- `planning`: who has to go, in which order.
- `safety`: how fast, and when nobody at all; `pacing`: one at a time, and no circles.
- `lifecycle`: the transitions from phase to phase; `evictor` takes each pod through them.
- `eviction_requests`: evictions by way of the API of that name.
- `reports`, `metrics`: what people, dashboards and logs are told.
- `machine`: all of it together.
"""

from berth.eviction.machine import AffinityEviction
from berth.eviction.metrics import EvictionMetrics
from berth.eviction.reports import EvictionDecision, Tell
from berth.eviction.settings import EvictionRate, EvictionSettings

__all__ = [
    "AffinityEviction",
    "EvictionDecision",
    "EvictionMetrics",
    "EvictionRate",
    "EvictionSettings",
    "Tell",
]
