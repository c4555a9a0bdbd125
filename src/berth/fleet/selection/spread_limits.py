"""How many domains (regions, zones, providers, values of a label) the selected clusters are to be in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from berth.fleet.state.clusters import Clusters
from berth.fleet.state.topology import Domains, domains
from berth.kube.karmada import SpreadConstraint

_NO_LIMIT = 2**31 - 1


@dataclass(frozen=True, slots=True)
class SpreadLimit:
    """How many domains of a topology are selected.

    Attributes:
        topology: "cluster", "region", "zone", "provider", or a cluster label if `label` is set.
    """

    topology: str
    least: int
    most: int
    label: bool = False

    def domains(self, clusters: Clusters) -> Domains:
        return domains(clusters, self.topology, label=self.label)


ANY_NUMBER = SpreadLimit("cluster", 0, _NO_LIMIT)


def karmadas_limits(constraints: Iterable[SpreadConstraint]) -> dict[str, SpreadLimit]:
    """By field and as written: no maximum is a maximum of 0, and spreading by label is not understood."""
    return {
        c.spread_by_field or "": SpreadLimit(c.spread_by_field or "", c.min_groups or 0, c.max_groups or 0)
        for c in constraints
    }


def limits(constraints: Iterable[SpreadConstraint]) -> dict[str, SpreadLimit]:
    """By topology: one domain at least, and no maximum unless there is one.

    A constraint that names neither field nor label is about clusters.
    """
    found = {}
    for c in constraints:
        topology = c.spread_by_field or c.spread_by_label or "cluster"
        label = not c.spread_by_field and bool(c.spread_by_label)
        found[topology] = SpreadLimit(topology, c.min_groups or 1, c.max_groups or _NO_LIMIT, label)
    return found
