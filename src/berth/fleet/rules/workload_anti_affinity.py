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
    from collections.abc import Iterable, Iterator

    from berth.engine.state.arrays import Int64Array
    from berth.fleet.terms import WorkloadRule

GROUP_REASON = "cluster already has workload with the same anti-affinity group"


class WorkloadAntiAffinity(ClusterRule):
    name = "WorkloadAntiAffinity"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        if ANTI_AFFINITY_GROUP in ask.incomparable:
            yield incomparable(ask)
        for taken in _taken(ask):
            yield taken._replace(rejected=taken.rejected & ~ask.targets)

    def score(self, ask: Ask) -> Int64Array | None:
        return preference(ask, ask.entry.rules.preferred_anti_affinity, PRESENT, against=True)

    def violated(self, ask: Ask) -> Iterable[str]:
        for taken in _taken(ask):
            for slot in np.flatnonzero(taken.rejected & ask.targets):
                yield f"{ask.clusters.names[slot]}: {taken.why(int(slot))}"


def _taken(ask: Ask) -> Iterator[Objection]:
    """Clusters near which a peer is: first those its own rules are against, then those against it."""
    entry = ask.entry
    for rule in entry.rules.anti_affinity:
        term = ask.index.term(rule)
        tally = others(ask, term, PRESENT)
        if tally.counts:
            peers = Nearby(ask, ask.index.selected(term), rule.topology, len(tally.counts))
            yield _objection(ask, rule, rule.topology, tally, peers)
    for term, topology, tally in ask.index.owners(entry.label_set):
        own = entry.owned.count((term, topology))
        for _ in range(own):
            tally = tally.without(entry.places[PRESENT])  # noqa: PLW2901
        if tally.counts:
            owners = Nearby(ask, ask.index.owners_of(term, topology), topology, len(tally.counts))
            yield _objection(ask, None, topology, tally, owners)


def _objection(ask: Ask, rule: WorkloadRule | None, topology: str, tally: Tally, peers: Nearby) -> Objection:
    """To the clusters near the peers; `rule` is None where the rule is the peers'."""
    place = "cluster" if topology == CLUSTER else f"cluster's {topology}"
    if rule is not None and rule.group is not None:
        text = GROUP_REASON
    elif rule is not None:
        text = f"a workload that matches {rule.selector} is on the {place}"
    else:
        text = f"a workload on the {place} has anti-affinity to this one"
    near = reach(ask.clusters, topology, tally.mask(ask.clusters.size))
    return Objection(near, lambda _: text, peers.first if ask.options.name_peers else None)
