"""Clusters that lack a property cannot be spread by it."""

from __future__ import annotations

from collections.abc import Iterable

from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.kube.karmada import Cluster

# The property of each field, as reasons call it.
_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


class SpreadConstraintRule(ClusterRule):
    name = "SpreadConstraint"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        constraints = query.placement.spread_constraints or ()
        fields = tuple(c.spread_by_field for c in constraints if c.spread_by_field in _PROPERTIES)
        if fields:
            lacking = query.clusters.remembered(
                (self.name, fields), lambda: query.each(lambda view: _first_lacking(view, fields) is not None)
            )
            yield ClusterVerdict(lacking, lambda slot: _reason(query.clusters.views[slot], fields))

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for verdict in self.verdicts(query):
            for target in query.binding.spec.clusters or ():
                slot = query.clusters.slot_of.get(target.name)
                if slot is not None and verdict.rejected[slot]:
                    yield f"{target.name}: {verdict.why(slot)}"


def _first_lacking(cluster: Cluster, fields: Iterable[str | None]) -> str | None:
    values = {"provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones}
    return next((field for field in fields if field is not None and not values[field]), None)


def _reason(cluster: Cluster | None, fields: Iterable[str | None]) -> str:
    lacking = _first_lacking(cluster, fields) if cluster is not None else None
    return f"cluster(s) did not have {_PROPERTIES[lacking or 'region']} property"
