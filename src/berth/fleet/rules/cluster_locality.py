"""Where a binding is already, it had better stay."""

from __future__ import annotations

import numpy as np

from berth.engine.state.arrays import Int64Array
from berth.fleet.rules.base import MAX_SCORE, ClusterRule, PlacementQuery


class ClusterLocalityRule(ClusterRule):
    name = "ClusterLocality"

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return query.targets.astype(np.int64) * MAX_SCORE
