"""One rule asked by itself, about a binding in a small fleet."""

from berth.fleet.placement.fleet import Fleet
from berth.fleet.rules.base import ClusterRule, PlacementQuery
from berth.fleet.state.options import FleetOptions
from tests.support.fleet.builders import BindingBuilder, ClusterBuilder

Thing = ClusterBuilder | BindingBuilder


def refused(
    rule: ClusterRule, binding: BindingBuilder, *things: Thing, options: FleetOptions | None = None
) -> dict[str, str]:
    """The clusters that a rule refuses for a binding among these, and why."""
    query = _query(binding, things, options)
    return {
        name: verdict.why(slot)
        for verdict in rule.verdicts(query)
        for slot, name in enumerate(query.clusters.names)
        if name and verdict.refused[slot]
    }


def scores(rule: ClusterRule, binding: BindingBuilder, *things: Thing) -> dict[str, int]:
    """How much a rule is for each cluster; empty where all are the same to it."""
    query = _query(binding, things)
    found = rule.score(query)
    return {} if found is None else {name: found.item(slot) for name, slot in query.clusters.slot_of.items()}


def broken(rule: ClusterRule, binding: BindingBuilder, *things: Thing) -> list[str]:
    """How a placed binding breaks a rule where it is."""
    return list(rule.violated(_query(binding, things)))


def _query(
    binding: BindingBuilder, things: tuple[Thing, ...], options: FleetOptions | None = None
) -> PlacementQuery:
    fleet = Fleet(options)
    for thing in things:
        if isinstance(thing, ClusterBuilder):
            fleet.clusters.set(thing.build())
    for each in (*things, binding):
        if isinstance(each, BindingBuilder):
            built = each.build()
            known = fleet.set_binding((built.metadata.namespace or "", built.metadata.name or ""), built)
    return fleet._query(known)
