"""How long to wait before trying again: doubling, bounded, and different for everyone."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(slots=True)
class Backoff:
    """Delays from `first` to `longest`; up to half of each is left to chance, so that clients spread."""

    first: float = 0.2
    longest: float = 30.0
    rng: random.Random | None = None
    failures: int = 0

    def reset(self) -> None:
        self.failures = 0

    def next(self, at_least: float | None = None) -> float:
        delay = min(self.first * 2.0 ** min(self.failures, 30), self.longest)
        self.failures += 1
        share = (self.rng or random).random()
        return max(delay * (0.5 + share / 2), at_least or 0.0)
