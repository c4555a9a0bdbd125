"""What the parts of the controller share."""

from __future__ import annotations

from dataclasses import dataclass

from berth.eviction.decisions import Tell
from berth.eviction.finding import Finding
from berth.eviction.metrics import EvictionMetrics
from berth.eviction.pacing import Pacing, Returns
from berth.eviction.planning import Planning
from berth.eviction.safety import Brake, Limits
from berth.eviction.settings import EvictionSettings
from berth.eviction.signals import Signals
from berth.machines.cache import Cache


@dataclass(frozen=True, slots=True)
class Desk:
    """Attributes:
    finding, planning: What is broken, and who has to go for it.
    brake, limits, pacing, returns: What may keep them from going.
    signals, metrics, tell: Who is told.
    """

    cache: Cache
    finding: Finding
    planning: Planning
    brake: Brake
    limits: Limits
    pacing: Pacing
    returns: Returns
    signals: Signals
    metrics: EvictionMetrics
    tell: Tell

    @classmethod
    def set_up(cls, cache: Cache, settings: EvictionSettings, metrics: EvictionMetrics, tell: Tell) -> Desk:
        finding, brake = Finding(settings, tell), Brake(settings)
        return cls(
            cache,
            finding,
            Planning(finding, cache, brake, settings),
            brake,
            Limits(settings),
            Pacing(cache, settings),
            Returns(),
            Signals(),
            metrics,
            tell,
        )
