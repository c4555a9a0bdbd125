"""Execution-time affinity: pods whose required rules stop holding are evicted, promptly and politely.

- `state`: what is known of every pod, with the phase of its eviction, and what it breaks since when.
- `detection`: which rules are broken, by the engine's judgement.
- `planning`: who has to go, in which order.
- `safety`: how fast, one of an owner at a time, and when nobody at all.
- `lifecycle`: the transitions from phase to phase; `evictor` takes each pod through them, itself or by way of
  EvictionRequests.
- `reports`: what people, dashboards and logs are told.
- `machine`: all of it together.
"""

from berth.eviction.machine import AffinityEviction
from berth.eviction.reports import EvictionDecision, EvictionMetrics, TellEviction
from berth.eviction.settings import EvictionRate, EvictionSettings

__all__ = [
    "AffinityEviction",
    "EvictionDecision",
    "EvictionMetrics",
    "EvictionRate",
    "EvictionSettings",
    "TellEviction",
]
