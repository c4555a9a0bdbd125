"""Where a binding is already, it had better stay."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.rules.base import MAX_SCORE, Ask, ClusterRule

if TYPE_CHECKING:
    from berth.engine.state.arrays import Int64Array


class ClusterLocality(ClusterRule):
    name = "ClusterLocality"

    def score(self, ask: Ask) -> Int64Array | None:
        return ask.targets.astype(np.int64) * MAX_SCORE
