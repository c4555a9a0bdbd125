"""Select and assign for tests: all clusters are feasible, present targets are liked."""

from collections.abc import Iterable

import numpy as np

from berth.fleet.placement.assignment import assign
from berth.fleet.selection.ranking import ClusterSelection
from berth.fleet.selection.select import select
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.options import COMPATIBLE, FleetOptions
from tests.support.fleet.builders import BindingBuilder, ClusterBuilder

__all__ = ["BERTH", "COMPATIBLE", "assigned", "selected", "selection"]

BERTH = FleetOptions()


def selection(
    clusters: Iterable[ClusterBuilder] | Clusters,
    binding: BindingBuilder,
    *,
    term: str = "",
    options: FleetOptions = BERTH,
) -> ClusterSelection:
    if not isinstance(clusters, Clusters):
        clusters = Clusters(cluster.build() for cluster in clusters)
    built = binding.build()
    score = np.zeros(clusters.size, dtype=np.int64)
    for target in built.spec.clusters or ():
        score[clusters.slot(target.name)] = 100
    return select(clusters, clusters.schedulable, score, built, term, options)


def selected(
    clusters: Iterable[ClusterBuilder] | Clusters,
    binding: BindingBuilder,
    *,
    term: str = "",
    options: FleetOptions = BERTH,
) -> list[str]:
    """The names of the selected clusters, the most preferred first."""
    return selection(clusters, binding, term=term, options=options).names


def assigned(
    clusters: Iterable[ClusterBuilder] | Clusters,
    binding: BindingBuilder,
    *,
    term: str = "",
    options: FleetOptions = BERTH,
) -> dict[str, int]:
    """The targets and their replicas."""
    found = selection(clusters, binding, term=term, options=options)
    targets = assign(found, binding.build(), term, options)
    assert len({target.name for target in targets}) == len(targets)
    return {target.name: target.replicas for target in targets}
