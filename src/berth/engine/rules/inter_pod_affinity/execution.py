"""The terms of inter-pod affinity, asked about pods that run.

What a term selects, who is spared and when a pod may be the first of its group is as for pods to be placed.
All pods of a class are judged together, each as if it were not counted itself.  Who has to go is a matter of
the execution-time terms alone; how pods stand that are to be apart is told of every term.

- Affinity wants some *other* pod in the domain that matches all execution-time affinity terms.  A pod
  that is a peer of its own group may be alone as long as no other peer runs anywhere.  Where the node
  has lost the topology's label the rule is broken.
- Anti-affinity is broken by every other pod of the domain that matches.  It is the violation of the pod
  that has the rule; the pods it must not be with are its peers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from heapq import nsmallest
from itertools import chain

import numpy as np

from berth.engine.rules.base import Rule
from berth.engine.rules.inter_pod_affinity.terms import no_peer, unwanted_peers
from berth.engine.rules.verdicts import (
    AFFINITY,
    ANTI_AFFINITY,
    MOST_PEERS,
    FirstOfGroup,
    OwnViolations,
    PeerConflict,
    PeersKeptAway,
    RuleViolation,
)
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray, LabelColumn
from berth.engine.state.matching import as_incoming, avoided_by, incoming, reads_everywhere, wanted_by
from berth.engine.state.options import Options
from berth.engine.state.pod_class import LabelSet, OwnedTerm, PodClass, Term
from berth.engine.state.tables import NOWHERE


@dataclass(frozen=True, slots=True, eq=False)
class TermStanding:
    """How one term stands with the pods that were asked about, one entry a pod.

    Attributes:
        domain: Each pod's domain in the topology, 0 if its node has no such label.
        broken: Whether the term does not hold.
        peers: The pods that the rule is about, wherever they run.
    """

    owned: OwnedTerm
    column: LabelColumn
    domain: IndexArray
    broken: BoolArray
    peers: IndexArray


def violations(
    rule: type[Rule], cluster: Cluster, pod_class: PodClass, pods: IndexArray
) -> Iterator[RuleViolation]:
    """The terms that do not hold for these pods, all of one class; they are found by `rule`."""
    if not pod_class.execution_terms:
        return
    terms = ExecutionAffinity(cluster, pod_class)
    for standing in terms.affinity(pods):
        for i in np.flatnonzero(standing.broken).tolist():
            cause = no_peer(terms.wanted, standing.owned, standing.column.values[standing.domain.item(i)])
            yield RuleViolation.of_pod(rule.name, cause, cluster, pods.item(i), AFFINITY)
    for standing in terms.anti_affinity(pods):
        yield from _conflicts(rule.name, cluster, pods, standing)


def _conflicts(
    rule: str, cluster: Cluster, pods: IndexArray, standing: TermStanding
) -> Iterator[RuleViolation]:
    first = _first_peers(cluster, standing)
    for i in np.flatnonzero(standing.broken).tolist():
        pod, domain = pods.item(i), standing.domain.item(i)
        own = cluster.pods.keys[pod] or ""
        peers = tuple(peer for peer in first[domain] if peer != own)[:MOST_PEERS]
        cause = unwanted_peers(standing.owned, standing.column.values[domain] or "", peers)
        yield RuleViolation.of_pod(rule, cause, cluster, pod, ANTI_AFFINITY)


def _first_peers(cluster: Cluster, standing: TermStanding) -> dict[int, list[str]]:
    """The first few peers in each domain where a term is broken: one more than are named."""
    domains, keys = standing.column.ids[cluster.pods.node[standing.peers]], cluster.pods.keys
    order = np.argsort(domains, kind="stable")
    peers, broken = standing.peers[order], np.unique(standing.domain[standing.broken])
    begins, ends = np.searchsorted(domains[order], (broken, broken + 1)).tolist()
    return {
        domain: nsmallest(MOST_PEERS + 1, (keys[peer] or "" for peer in peers[begin:end].tolist()))
        for domain, begin, end in zip(broken.tolist(), begins, ends, strict=True)
    }


# --- how they stand ---------------------------------------------------------------------------------


def peers_kept_away(rule: type[Rule], cluster: Cluster, pods: IndexArray) -> Iterator[PeersKeptAway]:
    """Every term by which pods keep others out of their domains; see `TopologyRule.peers_kept_away`."""
    nodes, carriers = cluster.nodes, dict[Hashable, tuple[OwnedTerm, Options, list[int]]]()
    for pod in pods.tolist():
        pod_class = cluster.class_at(pod)
        away = (owned for owned in pod_class.preferred if owned.weight < 0)
        for owned in (*pod_class.required_anti_affinity, *away):
            key = (owned.term, owned.topology_key, owned.path, pod_class.profile)
            carriers.setdefault(key, (owned, pod_class.options, []))[2].append(pod)
    slots = np.flatnonzero(nodes.alive[: nodes.count])
    for owned, options, members in carriers.values():
        column, those = nodes.column(owned.topology_key), np.array(members, dtype=np.intp)
        peers = _avoided(cluster, as_incoming(cluster.index, owned, options), owned, options)
        domain, counts = _count(cluster, owned.topology_key, those, peers)
        broken = domain[counts[domain] > ((domain > 0) & np.isin(those, peers))]
        there, bare = np.unique(column.ids[slots]).tolist(), slots[column.ids[slots] == 0]
        yield PeersKeptAway(
            path=owned.path,
            topology_key=owned.topology_key,
            selector=str(owned.term.selector),
            hard=owned.execution or not (owned.weight or rule.name in options.idle),
            counts={name: counts.item(i) for i in there if (name := column.values[i]) is not None},
            broken={column.values[i] or "" for i in np.unique(broken).tolist()},
            left_out=partial(dict, {f"no label {owned.topology_key}": bare} if len(bare) else {}),
        )


# --- who has to go ----------------------------------------------------------------------------------


def conflicts(cluster: Cluster, own: OwnViolations) -> Iterator[PeerConflict]:
    """The anti-affinity terms that are broken; see `Rule.conflicts`."""
    for rules, pods in _breaking(cluster, own, ANTI_AFFINITY):
        for standing in rules.anti_affinity(np.array(pods, dtype=np.intp)):
            there = standing.column.ids[cluster.pods.node[standing.peers]]
            for domain, violations in _by_domain(own, pods, standing).items():
                peers = standing.peers[there == domain].tolist()
                yield PeerConflict(list(violations.values()), set(violations), set(peers))


def _by_domain(
    own: OwnViolations, pods: Sequence[int], standing: TermStanding
) -> dict[int, dict[int, RuleViolation]]:
    """Domain -> the pods that break the term there, and their violations."""
    found: dict[int, dict[int, RuleViolation]] = defaultdict(dict)
    for pod, domain, broken in zip(pods, standing.domain.tolist(), standing.broken.tolist(), strict=True):
        violation = next((b for b in own[pod] if b.path == standing.owned.path), None)
        if broken and violation is not None:
            found[domain][pod] = violation
    return found


def firsts_of_groups(cluster: Cluster, own: OwnViolations) -> Iterator[FirstOfGroup]:
    """Those of the pods that may be the first of their group; see `Rule.firsts_of_groups`."""
    node = cluster.pods.node
    for rules, pods in _breaking(cluster, own, AFFINITY):
        if not rules.starts_group:
            continue
        standings = list(rules.affinity(np.array(pods, dtype=np.intp)))
        # Peers on nodes without the label count for nothing.
        peers = {
            peer
            for standing in standings
            for peer in standing.peers[standing.column.ids[node[standing.peers]] > 0].tolist()
        }
        for i, pod in enumerate(pods):
            if all(standing.domain[i] for standing in standings):
                broken = [violation for violation in own[pod] if violation.kind == AFFINITY]
                yield FirstOfGroup(pod, peers - {pod}, broken)


def _breaking(
    cluster: Cluster, own: OwnViolations, kind: str
) -> Iterator[tuple[ExecutionAffinity, list[int]]]:
    """The pods that break rules of a kind, a class at a time."""
    by_class: dict[PodClass, list[int]] = defaultdict(list)
    for pod, violations in own.items():
        if any(violation.kind == kind for violation in violations):
            by_class[cluster.class_at(pod)].append(pod)
    for pod_class, pods in by_class.items():
        yield ExecutionAffinity(cluster, pod_class), pods


def is_in_the_way(cluster: Cluster, violation: RuleViolation, pod: str) -> bool:
    """Whether a pod is one of those that a violation of anti-affinity is about; see `Rule.is_in_the_way`."""
    owner, other = cluster.find_pod(violation.pod), cluster.pods.index.get(pod)
    if not violation.has_unwanted_peers or owner is None or other is None or violation.pod == pod:
        return False
    asked = np.array([cluster.pods.index[violation.pod]], dtype=np.intp)
    if NOWHERE in (cluster.pods.node[other], cluster.pods.node[asked[0]]):
        return False
    return any(
        standing.owned.path == violation.path
        and bool(standing.broken[0])
        and standing.column.ids[cluster.pods.node[other]] == standing.domain[0]
        and bool((standing.peers == other).any())
        for standing in ExecutionAffinity(cluster, owner[0]).anti_affinity(asked)
    )


# --- the terms --------------------------------------------------------------------------------------


def owners(cluster: Cluster, theirs: LabelSet) -> Iterator[ExecutionAffinity]:
    """The rules of running pods that may be about pods with these labels."""
    indexed = (pod_class for term in theirs.terms for pod_class in term.owners)
    # A term that is read as if it covered every namespace is not indexed as such.
    unindexed = (
        pod_class
        for pod_class in cluster.classes.with_execution_rules
        for owned in pod_class.execution_terms
        if reads_everywhere(owned, pod_class.options)
    )
    for pod_class in dict.fromkeys(chain(indexed, unindexed)):
        if pod_class.running and pod_class.execution_terms:
            yield ExecutionAffinity(cluster, pod_class)


class ExecutionAffinity:
    """The execution-time terms of one class, as the rule reads them and as the pod carries them."""

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self.cluster = cluster
        self.pod_class = pod_class
        self.wanted, self.avoided = (
            incoming(cluster.index, (owned for owned in terms if owned.execution), pod_class.options)
            for terms in (pod_class.required_affinity, pod_class.required_anti_affinity)
        )

    @property
    def starts_group(self) -> bool:
        """Whether such a pod may be alone, because it would be a peer itself."""
        return wanted_by(self.wanted, self.pod_class.label_set)

    def wants(self, theirs: LabelSet) -> bool:
        return wanted_by(self.wanted, theirs)

    def keys_about(self, theirs: LabelSet) -> Iterator[str]:
        """The topologies in which the coming or going of such pods can matter."""
        if self.wants(theirs):
            yield from (owned.topology_key for _, owned in self.wanted)
        for term, owned in self.avoided:
            if avoided_by(term, theirs, self.pod_class.options):
                yield owned.topology_key

    def affinity(self, pods: IndexArray) -> Iterator[TermStanding]:
        """Every affinity term: it is broken where no other pod of the domain matches all of them."""
        if not self.wanted:
            return
        shortest = min((term for term, _ in self.wanted), key=lambda term: len(term.selected))
        peers = _pods(self.cluster, (theirs for theirs in shortest.selected if self.wants(theirs)))
        itself = self.starts_group
        alone = np.full(len(pods), itself)
        others: dict[str, BoolArray] = {}
        for key in dict.fromkeys(owned.topology_key for _, owned in self.wanted):
            domain, counts = _count(self.cluster, key, pods, peers)
            # On a node without the label the pod was not counted.
            counted = (domain > 0) & itself
            others[key] = counts[domain] > counted
            alone &= counts.sum() == counted
        for _, owned in self.wanted:
            column = self.cluster.nodes.column(owned.topology_key)
            domain = column.ids[self.cluster.pods.node[pods]]
            broken = (domain == 0) | ~(others[owned.topology_key] | alone)
            yield TermStanding(owned, column, domain, broken, peers)

    def anti_affinity(self, pods: IndexArray) -> Iterator[TermStanding]:
        """Every anti-affinity term: it is broken where another pod of the domain matches it."""
        options = self.pod_class.options
        for term, owned in self.avoided:
            peers = _avoided(self.cluster, term, owned, options)
            itself = avoided_by(term, self.pod_class.label_set, options)
            domain, counts = _count(self.cluster, owned.topology_key, pods, peers)
            broken = counts[domain] > ((domain > 0) & itself)
            yield TermStanding(owned, self.cluster.nodes.column(owned.topology_key), domain, broken, peers)


def _avoided(cluster: Cluster, term: Term, owned: OwnedTerm, options: Options) -> IndexArray:
    """The pods that an anti-affinity term is about; preferences spare nobody."""
    selected = (theirs for theirs in term.selected if owned.weight or avoided_by(term, theirs, options))
    return _pods(cluster, selected)


def _pods(cluster: Cluster, selected: Iterator[LabelSet]) -> IndexArray:
    return cluster.pods_of([c for label_set in selected for c in label_set.classes if c.running])


def _count(cluster: Cluster, key: str, pods: IndexArray, peers: IndexArray) -> tuple[IndexArray, IndexArray]:
    """The domain of each of the pods, and how many peers run in each domain there is."""
    column, node = cluster.nodes.column(key), cluster.pods.node
    counts = np.bincount(column.ids[node[peers]], minlength=len(column.values))
    counts[0] = 0
    return column.ids[node[pods]], counts
