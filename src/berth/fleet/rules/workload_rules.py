"""The rules between workloads: affinity and anti-affinity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array
from berth.engine.state.pod_class import Term
from berth.fleet.rules.base import MAX_SCORE, ClusterRule, ClusterVerdict, PlacementQuery
from berth.fleet.state.cluster_affinity import reach
from berth.fleet.state.index import HOME, LEAVING, PRESENT, IndexedWorkload, WorkloadCounts
from berth.fleet.state.terms import AFFINITY_GROUP, ANTI_AFFINITY_GROUP, CLUSTER, WorkloadRule

# --- peers ----------------------------------------------------------------------------------------

INCOMPARABLE = "failed to compare resource versions for ResourceBinding"


def incomparable(query: PlacementQuery) -> ClusterVerdict:
    """Refuses new clusters while copies of a peer cannot be told apart by age."""
    return ClusterVerdict(~query.targets, lambda _: INCOMPARABLE)


def others(query: PlacementQuery, term: Term, kind: int) -> WorkloadCounts:
    """The counts of the workloads that a term selects, without the one that is being placed."""
    counts = query.index.counts(term, kind)
    mine = query.entry.places[kind]
    return counts.without(mine) if mine and query.entry.label_set in term.selected else counts


def preference(
    query: PlacementQuery, rules: Iterable[WorkloadRule], kind: int, *, against: bool = False
) -> Int64Array | None:
    """The weights of the preferences each cluster meets, scaled so that they never outweigh staying put.

    That holds for affinity and anti-affinity together.
    """
    total: Int64Array | None = None
    for rule in rules:
        there = others(query, query.index.term(rule), kind).mask(query.clusters.size)
        near = reach(query.clusters, rule.topology, there)
        met = (~near if against else near).astype(np.int64) * rule.weight
        total = met if total is None else total + met
    if total is None:
        return None
    best = int(total.max(where=query.clusters.exists, initial=0))
    return total * ((MAX_SCORE - 1) // 2) // best if best else total


def peer_near(
    query: PlacementQuery, peers: Iterable[IndexedWorkload], topology: str, clusters: int
) -> Callable[[int], str]:
    """Names a peer in the same domain as a cluster; no binding is its own peer.

    The peers, who are on so many `clusters`, are searched once, when first needed.
    """

    @cache
    def first_on() -> dict[int, tuple[int, str]]:
        first: dict[int, tuple[int, str]] = {}
        for number, peer in enumerate(peers):
            if peer is not query.entry:
                for slot in peer.places[PRESENT]:
                    first.setdefault(slot, (number, peer.name))
                if len(first) >= clusters:
                    break
        return first

    def name(slot: int) -> str:
        near: list[int] = [slot]
        if topology != CLUSTER:
            near = np.flatnonzero(reach(query.clusters, topology, query.clusters.mask(near))).tolist()
        return min((first_on()[other] for other in near if other in first_on()), default=(0, ""))[1]

    return name


def first_elsewhere(query: PlacementQuery, term: Term, slot: int) -> str:
    """The name of a placed peer that is not on a cluster."""
    for peer in query.index.selected(term):
        if peer is not query.entry and peer.places[HOME] and slot not in peer.places[HOME]:
            return peer.name
    return ""


# --- together -------------------------------------------------------------------------------------

TOGETHER = "ResourceBinding with the same affinity group does not target this cluster"


class WorkloadAffinityRule(ClusterRule):
    """Workloads that belong together go to the same clusters (or zones, regions, …).

    A group as Karmada has it wants a cluster where *every* placed member is; a term of the proposal
    wants one where *some* selected workload is.  The first of a group may go anywhere.

    When the clusters of a group fail, Karmada's members wait for each other for ever: those evicted may
    not go where the others are, nor anywhere else.  With `group_failover` a member disregards peers
    that have nowhere left to stay, and one that stayed behind follows those that had to leave.
    """

    name = "WorkloadAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if AFFINITY_GROUP in query.incomparable:
            yield incomparable(query)
        for rule in query.entry.rules.affinity:
            allowed = _allowed(query, rule)
            if allowed is not None:
                stay = query.targets
                if query.options.group_failover:
                    stay = stay & ~_left_behind(query, rule)
                yield _elsewhere(query, rule, ~allowed & ~stay)

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return preference(query, query.entry.rules.preferred_affinity, HOME)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for rule in query.entry.rules.affinity:
            allowed = _allowed(query, rule)
            if allowed is not None:
                broken = _elsewhere(query, rule, query.targets & ~allowed)
                for slot in np.flatnonzero(broken.refused):
                    yield f"{query.clusters.names[slot]}: {broken.why(int(slot))}"


def founding(query: PlacementQuery) -> list[WorkloadRule]:
    """The rules of which this workload would be the first to be placed: another may be so elsewhere.

    A workload that is only on failed clusters founds its group anew.
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
    return reach(query.clusters, rule.topology, there)


def _standing(query: PlacementQuery, term: Term, counts: WorkloadCounts) -> WorkloadCounts:
    """The counts without the clusters that failed or that a member had to leave."""
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
    """Clusters of this workload that other members had to leave, and have since been placed elsewhere."""
    term = query.index.term(rule)
    left = [slot for slot in query.index.counts(term, LEAVING).by_slot if query.targets[slot]]
    if left and rule.everyone:
        allowed = _allowed(query, rule)
        if allowed is not None and (allowed & ~query.failed).any():
            return query.clusters.mask(left)
    return query.clusters.mask(())


def _elsewhere(query: PlacementQuery, rule: WorkloadRule, refused: BoolArray) -> ClusterVerdict:
    if rule.group is None:
        where = f"is on the {_place(rule.topology)}"
        return ClusterVerdict(refused, lambda _: f"no workload that matches {rule.selector} {where}")
    if not query.options.name_peers:
        return ClusterVerdict(refused, lambda _: TOGETHER)
    term = query.index.term(rule)
    return ClusterVerdict(refused, lambda _: TOGETHER, lambda slot: first_elsewhere(query, term, slot))


# --- apart ----------------------------------------------------------------------------------------

APART = "cluster already has workload with the same anti-affinity group"


class WorkloadAntiAffinityRule(ClusterRule):
    """Workloads that must be kept apart never share a cluster (or zone, region, …).

    It holds both ways: a newcomer keeps away from those its own terms select, and from those whose
    terms select it.
    """

    name = "WorkloadAntiAffinity"

    def verdicts(self, query: PlacementQuery) -> Iterable[ClusterVerdict]:
        if ANTI_AFFINITY_GROUP in query.incomparable:
            yield incomparable(query)
        for taken in _taken(query):
            yield taken._replace(refused=taken.refused & ~query.targets)

    def score(self, query: PlacementQuery) -> Int64Array | None:
        return preference(query, query.entry.rules.preferred_anti_affinity, PRESENT, against=True)

    def violated(self, query: PlacementQuery) -> Iterable[str]:
        for taken in _taken(query):
            for slot in np.flatnonzero(taken.refused & query.targets):
                yield f"{query.clusters.names[slot]}: {taken.why(int(slot))}"


def _taken(query: PlacementQuery) -> Iterator[ClusterVerdict]:
    """Clusters whose domain has a peer: by its own anti-affinity first, then by that of the peers."""
    entry = query.entry
    for rule in entry.rules.anti_affinity:
        term = query.index.term(rule)
        counts = others(query, term, PRESENT)
        if counts.by_slot:
            place = _place(rule.topology)
            text = APART if rule.group else f"a workload that matches {rule.selector} is on the {place}"
            yield _occupied(query, text, rule.topology, counts, query.index.selected(term))
    for term, topology, counts in query.index.owners(entry.label_set):
        own = entry.owned.count((term, topology))
        for _ in range(own):
            counts = counts.without(entry.places[PRESENT])  # noqa: PLW2901
        if counts.by_slot:
            text = f"a workload on the {_place(topology)} has anti-affinity to this one"
            yield _occupied(query, text, topology, counts, query.index.owners_of(term, topology))


def _place(topology: str) -> str:
    return "cluster" if topology == CLUSTER else f"cluster's {topology}"


def _occupied(
    query: PlacementQuery, text: str, topology: str, counts: WorkloadCounts, peers: Iterable[IndexedWorkload]
) -> ClusterVerdict:
    """Refuses the clusters near the peers."""
    near = reach(query.clusters, topology, counts.mask(query.clusters.size))
    named = peer_near(query, peers, topology, len(counts.by_slot)) if query.options.name_peers else None
    return ClusterVerdict(near, lambda _: text, named)
