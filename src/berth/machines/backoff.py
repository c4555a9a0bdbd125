"""How long to wait before trying again: twice as long each time, up to a limit.

Whoever tries counts the failures; nothing is remembered here, and chance is handed in.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

_DOUBLINGS = 60  # past any limit, and far from where floats end


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds, from `first` to `longest`."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The delay after so many failures in a row; none if there was no failure."""
        if failures <= 0:
            return 0.0
        return float(min(self.first * 2.0 ** min(failures - 1, _DOUBLINGS), self.longest))

    def jittered(self, failures: int, rng: random.Random) -> float:
        """The same with up to half of it left to chance, so that clients do not come back together."""
        return self.after(failures) * (0.5 + rng.random() / 2)
