"""What the parts of the controller share."""

from __future__ import annotations

from dataclasses import dataclass

from berth.controllers.cache import Cache
from berth.controllers.eviction.decisions import Tell
from berth.controllers.eviction.finding import Finding
from berth.controllers.eviction.metrics import Metrics
from berth.controllers.eviction.pacing import Pacing, Returns
from berth.controllers.eviction.planning import Planning
from berth.controllers.eviction.safety import Brake, Limits
from berth.controllers.eviction.settings import EvictionSettings
from berth.controllers.eviction.signals import Signals


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
    metrics: Metrics
    tell: Tell

    @classmethod
    def set_up(cls, cache: Cache, settings: EvictionSettings, metrics: Metrics, tell: Tell) -> Desk:
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
