"""What the rules between workloads share: counting peers without oneself, and naming one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.index import HOME, PRESENT, Entry, Tally
from berth.fleet.rules.base import MAX_SCORE, Ask, Objection
from berth.fleet.topology import reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.engine.arrays import Int64Array
    from berth.engine.matching import Term
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
    """The weights of the preferences each cluster meets, scaled so that they never outweigh staying put."""
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
    return total * (MAX_SCORE - 1) // best if best else total


def first_near(ask: Ask, peers: Iterable[Entry], topology: str, slot: int) -> str:
    """The name of a peer that is near a cluster, in brackets."""
    for peer in peers:
        if peer is not ask.entry and peer.places[PRESENT]:
            there = np.zeros(ask.clusters.size, dtype=np.bool_)
            there[list(peer.places[PRESENT])] = True
            if reach(ask.clusters, topology, there)[slot]:
                return f" ({peer.name})"
    return ""


def first_elsewhere(ask: Ask, term: Term, slot: int) -> str:
    """The name of a placed peer that is not on a cluster, in brackets."""
    for peer in ask.index.selected(term):
        if peer is not ask.entry and peer.places[HOME] and slot not in peer.places[HOME]:
            return f" ({peer.name})"
    return ""
