"""Workloads that belong together go to the same clusters (or zones, regions, …).

A group as Karmada has it wants a cluster where *every* placed member is; a term of the proposal
wants one where *some* selected workload is.  The first of a group may go anywhere.

When the clusters of a group fail, Karmada's members wait for each other for ever: those evicted may
not go where the others are, nor anywhere else.  With `group_failover` a member disregards peers
that have nowhere left to stay, and one that stayed behind follows those that had to leave.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from berth.fleet.index import HOME, LEAVING, Tally
from berth.fleet.rules.base import Ask, ClusterRule, Objection
from berth.fleet.rules.peers import first_elsewhere, incomparable, others, preference
from berth.fleet.terms import AFFINITY_GROUP, CLUSTER
from berth.fleet.topology import reach

if TYPE_CHECKING:
    from collections.abc import Iterable

    from berth.engine.state.arrays import BoolArray, Int64Array
    from berth.engine.state.matching import Term
    from berth.fleet.terms import WorkloadRule

GROUP_REASON = "ResourceBinding with the same affinity group does not target this cluster"


class WorkloadAffinity(ClusterRule):
    name = "WorkloadAffinity"

    def objections(self, ask: Ask) -> Iterable[Objection]:
        if AFFINITY_GROUP in ask.incomparable:
            yield incomparable(ask)
        for rule in ask.entry.rules.affinity:
            allowed = _allowed(ask, rule)
            if allowed is not None:
                stay = ask.targets & ~_left_behind(ask, rule) if ask.options.group_failover else ask.targets
                yield _objection(ask, rule, ~allowed & ~stay)

    def score(self, ask: Ask) -> Int64Array | None:
        return preference(ask, ask.entry.rules.preferred_affinity, HOME)

    def violated(self, ask: Ask) -> Iterable[str]:
        for rule in ask.entry.rules.affinity:
            allowed = _allowed(ask, rule)
            if allowed is not None:
                broken = _objection(ask, rule, ask.targets & ~allowed)
                for slot in np.flatnonzero(broken.rejected):
                    yield f"{ask.clusters.names[slot]}: {broken.why(int(slot))}"


def founding(ask: Ask) -> list[WorkloadRule]:
    """The rules of which this workload would be the first to be placed: another may be so elsewhere.

    Who is only on clusters that failed founds its group anew.
    """
    rules = ask.entry.rules.affinity
    if not rules:
        return []
    stays = ask.targets & ~ask.failed if ask.options.group_failover else ask.targets
    return [] if stays.any() else [rule for rule in rules if _allowed(ask, rule) is None]


def _allowed(ask: Ask, rule: WorkloadRule) -> BoolArray | None:
    """The clusters the rule allows; None for all of them, because no peer has been placed."""
    term = ask.index.term(rule)
    tally = others(ask, term, HOME)
    if ask.options.group_failover and tally.counts:
        tally = _standing(ask, term, tally)
    if not tally.placed and (rule.everyone or ask.entry.label_set in term.selected):
        return None
    there = tally.mask(ask.clusters.size, all_placed=rule.everyone)
    return there if rule.topology == CLUSTER else reach(ask.clusters, rule.topology, there)


def _standing(ask: Ask, term: Term, tally: Tally) -> Tally:
    """The tally without what has failed: clusters that a member had to leave, and who is on no other."""
    failed = ask.failed
    lost = {slot for slot in tally.counts if failed[slot]}
    lost.update(slot for slot in ask.index.tally(term, LEAVING).counts if slot in tally.counts)
    if not lost:
        return tally
    standing = Tally()
    for peer in ask.index.selected(term):
        if peer is not ask.entry:
            standing.add(slot for slot in peer.places[HOME] if slot not in lost)
    return standing


def _left_behind(ask: Ask, rule: WorkloadRule) -> BoolArray:
    """Clusters this workload is on, but members that had to leave them found another place since."""
    behind = np.zeros(ask.clusters.size, dtype=np.bool_)
    term = ask.index.term(rule)
    left = [slot for slot in ask.index.tally(term, LEAVING).counts if ask.targets[slot]]
    if left and rule.everyone:
        allowed = _allowed(ask, rule)
        if allowed is not None and (allowed & ~ask.failed).any():
            behind[left] = True
    return behind


def _objection(ask: Ask, rule: WorkloadRule, rejected: BoolArray) -> Objection:
    if rule.group is None:
        place = "cluster" if rule.topology == CLUSTER else f"cluster's {rule.topology}"
        return Objection(rejected, lambda _: f"no workload that matches {rule.selector} is on the {place}")
    if not ask.options.name_peers:
        return Objection(rejected, lambda _: GROUP_REASON)
    term = ask.index.term(rule)
    return Objection(rejected, lambda _: GROUP_REASON, lambda slot: first_elsewhere(ask, term, slot))
