"""Workloads that belong together go to the same clusters (or zones, regions, …).

A group as Karmada has it wants a cluster where *every* placed member is; a term of the proposal
wants one where *some* selected workload is.  The first of a group may go anywhere.

When the clusters of a group fail, Karmada's members wait for each other for ever: those evicted may
not go where the others are, nor anywhere else.  With `group_failover` a member disregards peers
that have nowhere left to stay, and one that stayed behind follows those that had to leave.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array
from berth.engine.state.pod_class import Term
from berth.fleet.rules.base import ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.rules.peers import first_elsewhere, incomparable, others, preference
from berth.fleet.state.index import HOME, LEAVING, WorkloadCounts
from berth.fleet.state.terms import AFFINITY_GROUP, CLUSTER, WorkloadRule
from berth.fleet.state.topology import reach

GROUP_REASON = "ResourceBinding with the same affinity group does not target this cluster"


class WorkloadAffinityRule(ClusterRule):
    name = "WorkloadAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if AFFINITY_GROUP in query.incomparable:
            yield incomparable(query)
        for rule in query.entry.rules.affinity:
            allowed = _allowed(query, rule)
            if allowed is not None:
                stay = (
                    query.targets & ~_left_behind(query, rule)
                    if query.options.group_failover
                    else query.targets
                )
                yield _verdict(query, rule, ~allowed & ~stay)

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return preference(query, query.entry.rules.preferred_affinity, HOME)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for rule in query.entry.rules.affinity:
            allowed = _allowed(query, rule)
            if allowed is not None:
                broken = _verdict(query, rule, query.targets & ~allowed)
                for slot in np.flatnonzero(broken.rejected):
                    yield f"{query.clusters.names[slot]}: {broken.why(int(slot))}"


def founding(query: PlacementQuery) -> list[WorkloadRule]:
    """The rules of which this workload would be the first to be placed: another may be so elsewhere.

    Who is only on clusters that failed founds its group anew.
    """
    rules = query.entry.rules.affinity
    if not rules:
        return []
    stays = query.targets & ~query.failed if query.options.group_failover else query.targets
    return [] if stays.any() else [rule for rule in rules if _allowed(query, rule) is None]


def _allowed(query: PlacementQuery, rule: WorkloadRule) -> BoolArray | None:
    """The clusters the rule allows; None for all of them, because no peer has been placed."""
    term = query.index.term(rule)
    counts = others(query, term, HOME)
    if query.options.group_failover and counts.by_slot:
        counts = _standing(query, term, counts)
    if not counts.placed and (rule.everyone or query.entry.label_set in term.selected):
        return None
    there = counts.mask(query.clusters.size, all_placed=rule.everyone)
    return there if rule.topology == CLUSTER else reach(query.clusters, rule.topology, there)


def _standing(query: PlacementQuery, term: Term, counts: WorkloadCounts) -> WorkloadCounts:
    """The counts without what has failed: clusters that a member had to leave, and who is on no other."""
    failed = query.failed
    lost = {slot for slot in counts.by_slot if failed[slot]}
    lost.update(slot for slot in query.index.counts(term, LEAVING).by_slot if slot in counts.by_slot)
    if not lost:
        return counts
    standing = WorkloadCounts()
    for peer in query.index.selected(term):
        if peer is not query.entry:
            standing.add(slot for slot in peer.places[HOME] if slot not in lost)
    return standing


def _left_behind(query: PlacementQuery, rule: WorkloadRule) -> BoolArray:
    """Clusters this workload is on, but members that had to leave them found another place since."""
    term = query.index.term(rule)
    left = [slot for slot in query.index.counts(term, LEAVING).by_slot if query.targets[slot]]
    if left and rule.everyone:
        allowed = _allowed(query, rule)
        if allowed is not None and (allowed & ~query.failed).any():
            return query.clusters.mask(left)
    return query.clusters.mask(())


def _verdict(query: PlacementQuery, rule: WorkloadRule, rejected: BoolArray) -> ClusterVerdict:
    if rule.group is None:
        place = "cluster" if rule.topology == CLUSTER else f"cluster's {rule.topology}"
        return ClusterVerdict(
            rejected, lambda _: f"no workload that matches {rule.selector} is on the {place}"
        )
    if not query.options.name_peers:
        return ClusterVerdict(rejected, lambda _: GROUP_REASON)
    term = query.index.term(rule)
    return ClusterVerdict(rejected, lambda _: GROUP_REASON, lambda slot: first_elsewhere(query, term, slot))
