"""Selecting so many clusters, and enough room for the replicas in them."""

from __future__ import annotations

import numpy as np

from berth.engine.state.arrays import IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection
from berth.fleet.selection.spread_limits import SpreadLimit
from berth.fleet.state.errors import PlacementError
from berth.kube.well_known import SCHEDULER_ERROR

TOO_FEW_CLUSTERS = "the number of feasible clusters is less than spreadConstraint.MinGroups"


def select_by_cluster(
    ranking: ClusterSelection, limit: SpreadLimit, replicas: int | None
) -> ClusterSelection:
    """The best clusters, as many as may be; with `replicas` they must have room for that many."""
    if len(ranking) < limit.least:
        raise PlacementError(SCHEDULER_ERROR, TOO_FEW_CLUSTERS)
    number = min(len(ranking), limit.most)
    if replicas is None:
        return ranking.take(slice(number))
    chosen = with_room(ranking.available, np.arange(number), replicas)
    if chosen is None or not number:
        raise PlacementError(SCHEDULER_ERROR, f"no enough resource when selecting {number} clusters")
    return ranking.take(chosen)


def with_room(available: Int64Array, chosen: IndexArray, replicas: int) -> IndexArray | None:
    """`chosen` with some, from the last on, exchanged for the roomiest of the others; None if that won't do.

    Exchanged are the fewest that make room for the replicas.
    """
    missing = replicas - int(available[chosen].sum())
    if missing <= 0:
        return chosen
    chosen = chosen.copy()
    rest = np.ones(len(available), dtype=np.bool_)
    rest[chosen] = False
    others = np.flatnonzero(rest)
    if not len(others):
        return None
    room = available[others]
    for place in range(len(chosen) - 1, -1, -1):
        best = int(room.argmax())
        old = int(chosen[place])
        gain = int(room[best] - available[old])
        if gain > 0:
            chosen[place], others[best] = others[best], old
            room[best] = available[old]
            missing -= gain
            if missing <= 0:
                return chosen
    return None
