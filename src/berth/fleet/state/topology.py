"""Which clusters share a domain: a zone, a region, a provider, or the value of a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.engine.state.columns import BoolArray, grown
from berth.fleet.state.clusters import Clusters
from berth.fleet.state.terms import CLUSTER
from berth.kube.karmada import Cluster


def domains_of(cluster: Cluster, topology: str) -> Sequence[str]:
    """The domains a cluster is in: several zones are possible, and none of anything."""
    spec = cluster.spec
    match topology:
        case "cluster":
            return (cluster.metadata.name or "",)
        case "zone":
            return [z for z in spec.zones or () if z] or ([spec.zone] if spec.zone else [])
        case "region":
            return (spec.region,) if spec.region else ()
        case "provider":
            return (spec.provider,) if spec.provider else ()
    return _labelled(cluster, topology)


def _labelled(cluster: Cluster, label: str) -> Sequence[str]:
    value = (cluster.metadata.labels or {}).get(label)
    return (value,) if value is not None else ()


class Domains:
    """Which clusters are in which domains of a topology; with `label` that is a label, whatever its name.

    Attributes:
        names: The domains.
        inside: Slot x domain, wider than `names`: who is where. Clusters that do not exist are nowhere.
    """

    def __init__(self, topology: str, *, label: bool) -> None:
        self._topology, self._domains_of = topology, _labelled if label else domains_of
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
            for domain in self._domains_of(view, self._topology) if view is not None else ():
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


def domains(clusters: Clusters, topology: str, *, label: bool = False) -> Domains:
    """The domains of a topology, up to date."""
    known = clusters.beside(_AllDomains).by_topology
    found = known.get((topology, label))
    if found is None:
        found = known[topology, label] = Domains(topology, label=label)
    found.refresh(clusters)
    return found


def reach(clusters: Clusters, topology: str, inside: BoolArray) -> BoolArray:
    """The clusters that share a domain with one of those `inside`."""
    if topology == CLUSTER:
        return inside
    members = domains(clusters, topology).inside
    touched: BoolArray = np.logical_or.reduce(members[inside], axis=0)
    shared: BoolArray = np.logical_or.reduce(members[:, touched], axis=1)
    return shared
