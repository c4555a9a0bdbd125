"""In which domains (regions, zones, providers, values of a label) clusters are, and of how many to choose."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from berth.engine.state.arrays import BoolArray, grown
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.topology import domains_of
from berth.kube.karmada import Cluster, SpreadConstraint

# --- limits ---------------------------------------------------------------------------------------

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


# --- domains --------------------------------------------------------------------------------------


class Domains:
    """Which clusters are in which domains.

    Attributes:
        names: The domains.
        inside: Slot x domain, wider than `names`: who is where.
    """

    def __init__(self, limit: SpreadLimit) -> None:
        self._limit = limit
        self._version = 0
        self._column_of: dict[str, int] = {}
        self.names: list[str] = []
        self.inside: BoolArray = np.zeros((0, 4), dtype=np.bool_)

    def refresh(self, clusters: Clusters) -> None:
        if self.inside.shape[0] != clusters.size:
            self.inside = np.ascontiguousarray(grown(self.inside.T, clusters.size).T)
        if self._version == clusters.version:
            return
        for slot in clusters.changed_since(self._version).tolist():
            self.inside[slot] = False
            view = clusters.views[slot]
            for domain in _domains_of(view, self._limit) if view is not None else ():
                column = self._column(domain)
                self.inside[slot, column] = True
        self._version = clusters.version

    def _column(self, domain: str) -> int:
        column = self._column_of.get(domain)
        if column is None:
            column = self._column_of[domain] = len(self.names)
            self.names.append(domain)
            if column >= self.inside.shape[1]:
                self.inside = grown(self.inside, 2 * self.inside.shape[1])
        return column


class _AllDomains:
    def __init__(self) -> None:
        self.by_topology: dict[tuple[str, bool], Domains] = {}


def domains(clusters: Clusters, limit: SpreadLimit) -> Domains:
    """The domains that a limit is about, up to date."""
    known = clusters.beside(_AllDomains).by_topology
    key = limit.topology, limit.label
    found = known.get(key)
    if found is None:
        found = known[key] = Domains(limit)
    found.refresh(clusters)
    return found


def _domains_of(cluster: Cluster, limit: SpreadLimit) -> Sequence[str]:
    if not limit.label:
        return domains_of(cluster, limit.topology)
    value = (cluster.metadata.labels or {}).get(limit.topology)
    return () if value is None else (value,)
