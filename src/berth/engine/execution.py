"""Rules that must hold while pods run: who breaks them, who has to go, and where the replacements land.

- `berth.engine.breaches`: which execution-time rules running pods break, and why.
- `berth.engine.suspects`: which pods to judge again after a change.
- `berth.engine.departures`: the smallest set of pods whose going heals everything.
- `berth.engine.landing`: where their replacements would go.
"""

from __future__ import annotations

from berth.engine.breaches import (
    AFFINITY,
    ANTI_AFFINITY,
    NODE,
    Breach,
    all_breaches,
    breaches_among,
    breaches_of,
    breaches_on,
    is_in_the_way,
    owns_execution_rules,
)
from berth.engine.departures import Departure, departures
from berth.engine.landing import landing
from berth.engine.suspects import suspects

__all__ = [
    "AFFINITY",
    "ANTI_AFFINITY",
    "NODE",
    "Breach",
    "Departure",
    "all_breaches",
    "breaches_among",
    "breaches_of",
    "breaches_on",
    "departures",
    "is_in_the_way",
    "landing",
    "owns_execution_rules",
    "suspects",
]
