"""The alphabetical order of the clusters' names as a column, to sort by without touching strings."""

from __future__ import annotations

import numpy as np

from berth.engine.state.arrays import Int64Array
from berth.fleet.state.clusters import Clusters


class _NameOrder:
    def __init__(self) -> None:
        self.ranks: Int64Array = np.zeros(0, dtype=np.int64)

    def of(self, clusters: Clusters) -> Int64Array:
        # Names keep their slots, so that the order changes only when there are more of them.
        names = clusters.names
        if len(self.ranks) != len(names):
            self.ranks = np.empty(len(names), dtype=np.int64)
            self.ranks[sorted(range(len(names)), key=names.__getitem__)] = np.arange(len(names))
        return self.ranks


def name_ranks(clusters: Clusters) -> Int64Array:
    """Slot -> how many names come before this one. As long as `clusters.names`."""
    return clusters.beside(_NameOrder).of(clusters)
