"""In which domains of a topology (regions, zones, providers, values of a label) the clusters are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.engine.state.arrays import BoolArray, grown
from berth.fleet.selection.spread_limits import SpreadLimit
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.topology import domains_of
from berth.kube.karmada import Cluster


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
