"""Which clusters share a domain: a zone, a region, a provider, or the value of a label."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from berth.engine.state.arrays import BoolArray
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
    value = (cluster.metadata.labels or {}).get(topology)
    return (value,) if value is not None else ()


def reach(clusters: Clusters, topology: str, inside: BoolArray) -> BoolArray:
    """The clusters that share a domain with one of those `inside`."""
    if topology == CLUSTER:
        return inside
    members = clusters.remembered(("members", topology), lambda: _members(clusters, topology))
    touched: BoolArray = np.logical_or.reduce(members[inside], axis=0)
    shared: BoolArray = np.logical_or.reduce(members[:, touched], axis=1)
    return shared


def _members(clusters: Clusters, topology: str) -> BoolArray:
    """Slot x domain: who is where. Clusters that do not exist are nowhere."""
    known: dict[str, int] = {}
    places = [
        (slot, known.setdefault(domain, len(known)))
        for slot, view in enumerate(clusters.views)
        if view is not None
        for domain in domains_of(view, topology)
    ]
    members = np.zeros((clusters.size, len(known)), dtype=np.bool_)
    if places:
        members[tuple(zip(*places, strict=True))] = True
    return members
