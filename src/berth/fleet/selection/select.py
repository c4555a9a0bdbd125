"""Selecting, from the feasible clusters, those that a binding is to be placed on.

Without spread constraints all are selected, in order of preference.  What Karmada lacks is done unless
it is to be followed to the letter: spreading by zone, provider and cluster label, by several of them,
no maximum where none is written, and enough room for the replicas in the selected regions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int64Array
from berth.fleet.selection.ranking import ClusterSelection, ranked
from berth.fleet.selection.spread_by_group import (
    ANY_NUMBER,
    ReplicaDemand,
    SpreadLimit,
    karmadas_limits,
    limits,
    select_by_group,
)
from berth.fleet.selection.spread_cover import select_by_cover
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.errors import PlacementError
from berth.fleet.state.options import FleetOptions
from berth.fleet.state.strategy import strategy_of
from berth.fleet.state.terms import CLUSTER, REGION, ZONE
from berth.kube.amounts.quantity import QuantityError
from berth.kube.karmada import DUPLICATED, Binding, Placement
from berth.kube.well_known import SCHEDULER_ERROR

# --- spread by cluster ----------------------------------------------------------------------------

TOO_FEW_CLUSTERS = "the number of feasible clusters is less than spreadConstraint.MinGroups"


def select_by_cluster(
    ranking: ClusterSelection, limit: SpreadLimit, demand: ReplicaDemand
) -> ClusterSelection:
    """The best clusters, as many as may be; together they must have room for replicas that are divided."""
    if len(ranking) < limit.least:
        raise PlacementError(SCHEDULER_ERROR, TOO_FEW_CLUSTERS)
    number = min(len(ranking), limit.most)
    if demand.duplicated:
        return ranking.take(slice(number))
    chosen = with_room(ranking.available, np.arange(number), demand.replicas)
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


# --- selection ------------------------------------------------------------------------------------

UNSUPPORTED = "just support cluster and region spread constraint"
_NONE = SpreadLimit(CLUSTER, 0, 0)


def select(
    clusters: Clusters,
    feasible: BoolArray,
    score: Int64Array,
    binding: Binding,
    affinity_name: str,
    options: FleetOptions,
) -> ClusterSelection:
    """The feasible clusters that replicas are assigned to, the most preferred first.

    `affinity_name` is the term of clusterAffinities being tried, "" if there are none.

    Raises:
        PlacementError: The spread constraints cannot be satisfied.
    """
    try:
        return _select(ranked(clusters, feasible, score, binding, affinity_name), binding, options)
    except QuantityError as error:
        raise PlacementError(SCHEDULER_ERROR, f"failed to select clusters: {error}") from error
    except PlacementError as error:
        raise error.within("failed to select clusters") from None


def _select(ranking: ClusterSelection, binding: Binding, options: FleetOptions) -> ClusterSelection:
    placement = binding.spec.placement or Placement()
    strategy = strategy_of(placement, options)
    constraints = placement.spread_constraints
    if not constraints or strategy.ignores_spread:
        return ranking
    by_topology = karmadas_limits(constraints) if options.compat else limits(constraints)
    cluster_limit = by_topology.get(CLUSTER)
    demand = ReplicaDemand(binding.spec.replicas or 0, duplicated=strategy.type == DUPLICATED)
    if not options.compat:
        return _spread(ranking, by_topology, demand)
    if REGION in by_topology:
        return ranking.take(select_by_group(ranking, by_topology[REGION], cluster_limit or _NONE, demand))
    if cluster_limit is not None:
        return select_by_cluster(ranking, cluster_limit, demand)
    raise PlacementError(SCHEDULER_ERROR, UNSUPPORTED)


def _spread(
    ranking: ClusterSelection, by_topology: dict[str, SpreadLimit], demand: ReplicaDemand
) -> ClusterSelection:
    others = [limit for topology, limit in by_topology.items() if topology != CLUSTER]
    cluster_limit = _one_a_group(by_topology.get(CLUSTER, ANY_NUMBER), others)
    if not others:
        return select_by_cluster(ranking, cluster_limit, demand)
    if len(others) == 1 and _is_partition(others[0]):
        # Each group needs at least one cluster.
        limit = replace(others[0], most=min(others[0].most, cluster_limit.most))
        selected = ranking.take(select_by_group(ranking, limit, cluster_limit, demand))
        if demand.duplicated or int(selected.available.sum()) >= demand.replicas:
            return selected
    return ranking.take(select_by_cover(ranking, others, cluster_limit, demand))


def _one_a_group(cluster_limit: SpreadLimit, others: Iterable[SpreadLimit]) -> SpreadLimit:
    """One cluster of each region, as Karmada takes, even if the cluster constraint allows fewer in all."""
    least = max((limit.least for limit in others if _is_partition(limit)), default=0)
    return replace(cluster_limit, most=max(cluster_limit.most, least))


def _is_partition(limit: SpreadLimit) -> bool:
    """Whether a cluster has one domain at most; it may be in several zones."""
    return limit.label or limit.topology != ZONE
