"""Workloads that must be kept apart never share a cluster (or zone, region, …).

It holds both ways: a newcomer keeps away from those its own terms select, and from those whose
terms select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.engine.state.columns import Int64Array
from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.rules.peers import PeerFinder, incomparable, others, preference
from berth.fleet.state.index import PRESENT, WorkloadCounts
from berth.fleet.state.terms import ANTI_AFFINITY_GROUP, CLUSTER, WorkloadRule
from berth.fleet.state.topology import reach

GROUP_REASON = "cluster already has workload with the same anti-affinity group"


class WorkloadAntiAffinityRule(ClusterRule):
    name = "WorkloadAntiAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if ANTI_AFFINITY_GROUP in query.incomparable:
            yield incomparable(query)
        for taken in _taken(query):
            yield taken._replace(rejected=taken.rejected & ~query.targets)

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return preference(query, query.entry.rules.preferred_anti_affinity, PRESENT, against=True)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for taken in _taken(query):
            for slot in np.flatnonzero(taken.rejected & query.targets):
                yield f"{query.clusters.names[slot]}: {taken.why(int(slot))}"


def _taken(query: PlacementQuery) -> Iterator[ClusterVerdict]:
    """Clusters near which a peer is: first those its own rules are against, then those against it."""
    entry = query.entry
    for rule in entry.rules.anti_affinity:
        term = query.index.term(rule)
        counts = others(query, term, PRESENT)
        if counts.by_slot:
            peers = PeerFinder(query, query.index.selected(term), rule.topology, len(counts.by_slot))
            yield _verdict(query, rule, rule.topology, counts, peers)
    for term, topology, counts in query.index.owners(entry.label_set):
        own = entry.owned.count((term, topology))
        for _ in range(own):
            counts = counts.without(entry.places[PRESENT])  # noqa: PLW2901
        if counts.by_slot:
            owners = PeerFinder(query, query.index.owners_of(term, topology), topology, len(counts.by_slot))
            yield _verdict(query, None, topology, counts, owners)


def _verdict(
    query: PlacementQuery, rule: WorkloadRule | None, topology: str, counts: WorkloadCounts, peers: PeerFinder
) -> ClusterVerdict:
    """To the clusters near the peers; `rule` is None where the rule is the peers'."""
    place = "cluster" if topology == CLUSTER else f"cluster's {topology}"
    if rule is not None and rule.group is not None:
        text = GROUP_REASON
    elif rule is not None:
        text = f"a workload that matches {rule.selector} is on the {place}"
    else:
        text = f"a workload on the {place} has anti-affinity to this one"
    near = reach(query.clusters, topology, counts.mask(query.clusters.size))
    return ClusterVerdict(near, lambda _: text, peers.first if query.options.name_peers else None)
