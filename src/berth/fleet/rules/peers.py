"""What the rules between workloads share: counting peers without oneself, and naming one."""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter

import numpy as np

from berth.engine.state.columns import Int64Array
from berth.engine.state.pod_class import Term
from berth.fleet.rules.base import MAX_SCORE, ClusterVerdict, PlacementQuery
from berth.fleet.state.index import HOME, PRESENT, IndexedWorkload, WorkloadCounts
from berth.fleet.state.terms import CLUSTER, WorkloadRule
from berth.fleet.state.topology import reach

INCOMPARABLE = "failed to compare resource versions for ResourceBinding"


def incomparable(query: PlacementQuery) -> ClusterVerdict:
    """Nothing new is decided on peers of which it is not known what they are."""
    return ClusterVerdict(~query.targets, lambda _: INCOMPARABLE)


def others(query: PlacementQuery, term: Term, kind: int) -> WorkloadCounts:
    """Where the selected workloads are, the asking one left out."""
    counts = query.index.counts(term, kind)
    mine = query.entry.places[kind]
    return counts.without(mine) if mine and query.entry.label_set in term.selected else counts


def preference(
    query: PlacementQuery, rules: Iterable[WorkloadRule], kind: int, *, against: bool = False
) -> Int64Array | None:
    """The weights of the preferences each cluster meets, scaled so that they never outweigh staying put.

    Nor do those of affinity and of anti-affinity together.
    """
    total: Int64Array | None = None
    for rule in rules:
        near = reach(
            query.clusters,
            rule.topology,
            others(query, query.index.term(rule), kind).mask(query.clusters.size),
        )
        met = (~near if against else near).astype(np.int64) * rule.weight
        total = met if total is None else total + met
    if total is None:
        return None
    best = int(total.max(where=query.clusters.exists, initial=0))
    return total * ((MAX_SCORE - 1) // 2) // best if best else total


class PeerFinder:
    """Peers by the clusters near them, to name one; they are gone through once, and only if one is asked for.

    Args:
        query: Who asks, and is no peer.
        peers: Where to look.
        topology: What is near.
        clusters: On how many clusters there are peers.
    """

    def __init__(
        self, query: PlacementQuery, peers: Iterable[IndexedWorkload], topology: str, clusters: int
    ) -> None:
        self._query, self._peers, self._topology = query, peers, topology
        self._clusters = clusters
        self._first: dict[int, tuple[int, IndexedWorkload]] | None = None

    def first(self, slot: int) -> str:
        """The name of a peer that is near a cluster."""
        if self._first is None:
            self._first = self._look()
        found = [self._first[near] for near in self._near(slot) if near in self._first]
        return min(found, key=itemgetter(0))[1].name if found else ""

    def _look(self) -> dict[int, tuple[int, IndexedWorkload]]:
        first: dict[int, tuple[int, IndexedWorkload]] = {}
        for number, peer in enumerate(self._peers):
            if peer is not self._query.entry:
                for slot in peer.places[PRESENT]:
                    first.setdefault(slot, (number, peer))
                if len(first) >= self._clusters:
                    break
        return first

    def _near(self, slot: int) -> Iterable[int]:
        if self._topology == CLUSTER:
            return (slot,)
        clusters = self._query.clusters
        near: list[int] = np.flatnonzero(reach(clusters, self._topology, clusters.mask((slot,)))).tolist()
        return near


def first_elsewhere(query: PlacementQuery, term: Term, slot: int) -> str:
    """The name of a placed peer that is not on a cluster."""
    for peer in query.index.selected(term):
        if peer is not query.entry and peer.places[HOME] and slot not in peer.places[HOME]:
            return peer.name
    return ""
