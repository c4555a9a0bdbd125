"""Clusters that lack a property cannot be spread by it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.fleet.rules.base import Ask, ClusterRule, Objection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.kube.karmada import Cluster

# The property of each field, as reasons call it.
_PROPERTIES = {"provider": "provider", "region": "region", "zone": "zones"}


class SpreadConstraint(ClusterRule):
    name = "SpreadConstraint"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        constraints = ask.placement.spread_constraints or ()
        fields = tuple(c.spread_by_field for c in constraints if c.spread_by_field in _PROPERTIES)
        if fields:
            lacking = ask.clusters.remembered(
                (self.name, fields), lambda: ask.each(lambda view: _first_lacking(view, fields) is not None)
            )
            yield Objection(lacking, lambda slot: _reason(ask.clusters.views[slot], fields))

    def violated(self, ask: Ask) -> Iterable[str]:
        for objection in self.objections(ask):
            for target in ask.binding.spec.clusters or ():
                slot = ask.clusters.slot_of.get(target.name)
                if slot is not None and objection.rejected[slot]:
                    yield f"{target.name}: {objection.why(slot)}"


def _first_lacking(cluster: Cluster, fields: Iterable[str | None]) -> str | None:
    values = {"provider": cluster.spec.provider, "region": cluster.spec.region, "zone": cluster.spec.zones}
    return next((field for field in fields if field is not None and not values[field]), None)


def _reason(cluster: Cluster | None, fields: Iterable[str | None]) -> str:
    lacking = _first_lacking(cluster, fields) if cluster is not None else None
    return f"cluster(s) did not have {_PROPERTIES[lacking or 'region']} property"
