"""Workloads that must be kept apart never share a cluster (or zone, region, …).

It holds both ways: a newcomer keeps away from those its own terms select, and from those whose
terms select it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.index import PRESENT, Tally
from berth.fleet.rules.base import Ask, ClusterRule, Objection
from berth.fleet.rules.peers import Nearby, incomparable, others, preference
from berth.fleet.terms import ANTI_AFFINITY_GROUP, CLUSTER
from berth.fleet.topology import reach

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from berth.engine.arrays import BoolArray, Int64Array
    from berth.fleet.terms import WorkloadRule

GROUP_REASON = "cluster already has workload with the same anti-affinity group"


class WorkloadAntiAffinity(ClusterRule):
    name = "WorkloadAntiAffinity"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        if ANTI_AFFINITY_GROUP in ask.incomparable:
            yield incomparable(ask)
        for taken, reason in _taken(ask):
            yield Objection(taken & ~ask.targets, reason)

    def score(self, ask: Ask) -> Int64Array | None:
        return preference(ask, ask.entry.rules.preferred_anti_affinity, PRESENT, against=True)

    def violated(self, ask: Ask) -> Iterable[str]:
        for taken, reason in _taken(ask):
            for slot in np.flatnonzero(taken & ask.targets):
                yield f"{ask.clusters.names[slot]}: {reason(int(slot))}"


def _taken(ask: Ask) -> Iterator[tuple[BoolArray, Callable[[int], str]]]:
    """Clusters near which a peer is: first those its own rules are against, then those against it."""
    entry = ask.entry
    for rule in entry.rules.anti_affinity:
        term = ask.index.term(rule)
        tally = others(ask, term, PRESENT)
        if tally.counts:
            peers = Nearby(ask, ask.index.selected(term), rule.topology, len(tally.counts))
            yield _near(ask, tally, rule.topology), _reasons(ask, rule, rule.topology, peers)
    for term, topology, tally in ask.index.owners(entry.label_set):
        own = entry.owned.count((term, topology))
        for _ in range(own):
            tally = tally.without(entry.places[PRESENT])  # noqa: PLW2901
        if tally.counts:
            owners = Nearby(ask, ask.index.owners_of(term, topology), topology, len(tally.counts))
            yield _near(ask, tally, topology), _reasons(ask, None, topology, owners)


def _near(ask: Ask, tally: Tally, topology: str) -> BoolArray:
    return reach(ask.clusters, topology, tally.mask(ask.clusters.size))


def _reasons(ask: Ask, rule: WorkloadRule | None, topology: str, peers: Nearby) -> Callable[[int], str]:
    """Why, by cluster; `rule` is None where the rule is the peer's."""
    place = "cluster" if topology == CLUSTER else f"cluster's {topology}"
    if rule is not None and rule.group is not None:
        text = GROUP_REASON
    elif rule is not None:
        text = f"a workload that matches {rule.selector} is on the {place}"
    else:
        text = f"a workload on the {place} has anti-affinity to this one"
    if not ask.options.name_peers:
        return lambda _: text
    return lambda slot: f"{text}{peers.first(slot)}"
