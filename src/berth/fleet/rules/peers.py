"""What the rules between workloads share: counting peers without oneself, and naming one."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.index import HOME, PRESENT, Entry, Tally
from berth.fleet.rules.base import MAX_SCORE, Ask, Objection
from berth.fleet.terms import CLUSTER
from berth.fleet.topology import reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.engine.state.arrays import Int64Array
    from berth.engine.state.matching import Term
    from berth.fleet.terms import WorkloadRule

INCOMPARABLE = "failed to compare resource versions for ResourceBinding"


def incomparable(ask: Ask) -> Objection:
    """Nothing new is decided on peers of which it is not known what they are."""
    return Objection(~ask.targets, lambda _: INCOMPARABLE)


def others(ask: Ask, term: Term, kind: int) -> Tally:
    """Where the selected workloads are, the asking one left out."""
    tally = ask.index.tally(term, kind)
    mine = ask.entry.places[kind]
    return tally.without(mine) if mine and ask.entry.label_set in term.selected else tally


def preference(
    ask: Ask, rules: Iterable[WorkloadRule], kind: int, *, against: bool = False
) -> Int64Array | None:
    """The weights of the preferences each cluster meets, scaled so that they never outweigh staying put.

    Nor do those of affinity and of anti-affinity together.
    """
    total: Int64Array | None = None
    for rule in rules:
        near = reach(
            ask.clusters, rule.topology, others(ask, ask.index.term(rule), kind).mask(ask.clusters.size)
        )
        met = (~near if against else near).astype(np.int64) * rule.weight
        total = met if total is None else total + met
    if total is None:
        return None
    best = int(total.max(where=ask.clusters.exists, initial=0))
    return total * ((MAX_SCORE - 1) // 2) // best if best else total


class Nearby:
    """Peers by the clusters near them, to name one; they are gone through once, and only if one is asked for.

    Args:
        ask: Who asks, and is no peer.
        peers: Where to look.
        topology: What is near.
        clusters: On how many clusters there are peers.
    """

    def __init__(self, ask: Ask, peers: Iterable[Entry], topology: str, clusters: int) -> None:
        self._ask, self._peers, self._topology = ask, peers, topology
        self._clusters = clusters
        self._first: dict[int, tuple[int, Entry]] | None = None

    def first(self, slot: int) -> str:
        """The name of a peer that is near a cluster."""
        if self._first is None:
            self._first = self._look()
        found = [self._first[near] for near in self._near(slot) if near in self._first]
        return min(found, key=itemgetter(0))[1].name if found else ""

    def _look(self) -> dict[int, tuple[int, Entry]]:
        first: dict[int, tuple[int, Entry]] = {}
        for number, peer in enumerate(self._peers):
            if peer is not self._ask.entry:
                for slot in peer.places[PRESENT]:
                    first.setdefault(slot, (number, peer))
                if len(first) >= self._clusters:
                    break
        return first

    def _near(self, slot: int) -> Iterable[int]:
        if self._topology == CLUSTER:
            return (slot,)
        there = np.zeros(self._ask.clusters.size, dtype=np.bool_)
        there[slot] = True
        near: list[int] = np.flatnonzero(reach(self._ask.clusters, self._topology, there)).tolist()
        return near


def first_elsewhere(ask: Ask, term: Term, slot: int) -> str:
    """The name of a placed peer that is not on a cluster."""
    for peer in ask.index.selected(term):
        if peer is not ask.entry and peer.places[HOME] and slot not in peer.places[HOME]:
            return peer.name
    return ""
