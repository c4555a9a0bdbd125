"""Inter-pod affinity and anti-affinity, in both directions.

The incoming pod's own terms look at the pods that run; the terms of the pods that run look back:
required anti-affinity is symmetric, preferences count both ways, and a running pod's required
affinity is a preference for its peers.  Everything is a count per topology domain, so placing a
pod costs the same however many run.  See the pod-affinity design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from weakref import WeakSet

import numpy as np

from berth.engine.rules.base import MAX_SCORE, TopologyRule
from berth.engine.rules.inter_pod_affinity import execution, relax
from berth.engine.rules.inter_pod_affinity.terms import (
    PEERS_SHOWN,
    REASON_AFFINITY,
    REASON_ANTI_AFFINITY,
    REASON_EXISTING,
    as_incoming,
    avoided_by,
    name_pods,
    no_peer,
    wanted_by,
)
from berth.engine.rules.relaxing import Change, Question
from berth.engine.rules.vectors import (
    FeasibleDomains,
    Projection,
    blocked_where,
    spread_over_nodes,
    summed,
)
from berth.engine.rules.verdicts import (
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    RuleVerdict,
    RuleViolation,
    SharedVerdict,
    Status,
)
from berth.engine.state.arrays import BoolArray, IndexArray, Int32Array, Int64Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    OF_NODES,
    OF_PODS,
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
)
from berth.engine.state.counts import Counter
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.nodes import PODS_ROW
from berth.engine.state.pod_class import OwnedTerm, PodClass, Term
from berth.kube.well_known import UNSCHEDULABLE

# Up to so many different scores, looking the result up is faster than computing it for every node.
_LOOKED_UP = 4096
_Counters = dict[str, Counter]


class InterPodAffinity(TopologyRule):
    name = "InterPodAffinity"
    evicts = True
    relax_rank = 7
    helpers = (PodDeleted, PodAdded, NodeAdded, NodeUpdated, NodeDeleted, NamespaceUpdated)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        options = pod_class.options
        self._required = self._incoming(pod_class.required_affinity)
        self._anti = self._incoming(pod_class.required_anti_affinity)
        self._preferred = self._incoming(pod_class.preferred)
        self._filtering = True
        self._scored = not options.ignore_preferred_terms_of_existing_pods or bool(pod_class.preferred)
        self._affinity_counts: _Counters = {}
        self._anti_counts: _Counters = {}
        self._existing_counts: _Counters = {}
        self._score_counts: _Counters = {}
        for _, owned in self._required:
            self._counter(self._affinity_counts, owned.topology_key)
        self._projections: dict[tuple[str, str], Projection] = {}
        self._feasible_domains: dict[str, FeasibleDomains] = {}
        self._considered: WeakSet[PodClass] = WeakSet()
        self._watch()

    @classmethod
    def may_refuse(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        del cluster
        if pod_class.required_affinity or pod_class.required_anti_affinity:
            return True
        return any(
            owner.required_anti_affinity for term in pod_class.label_set.terms for owner in term.owners
        )

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        return relax.relaxations(question)

    @classmethod
    def wanted_labels(cls, question: Question) -> Iterable[tuple[str, str]]:
        return relax.wanted_labels(question)

    def _incoming(self, owned: Iterable[OwnedTerm]) -> list[tuple[Term, OwnedTerm]]:
        return [(as_incoming(self.cluster.index, o, self.pod_class.options), o) for o in owned]

    @classmethod
    def relies_on_peers(cls, pod_class: PodClass) -> bool:
        return bool(pod_class.required_affinity)

    @classmethod
    def seeks(cls, pod_class: PodClass, other: PodClass) -> bool:
        return any(other.label_set in owned.term.selected for owned in pod_class.required_affinity)

    # --- counting ---------------------------------------------------------------

    def _watch(self) -> None:
        """Ask to be told of every class that may matter, starting with those already there."""
        label_set = self.pod_class.label_set
        label_set.watchers[self] = None
        for term, _ in self._own_terms():
            term.watchers[self] = None
            for selected in term.selected:
                for pod_class in selected.classes:
                    self.consider(pod_class)
        for term in label_set.terms:
            for pod_class in term.owners:
                self.consider(pod_class)
        for counter in self._counters():
            self.cluster.recount(counter)

    def release(self) -> None:
        self.pod_class.label_set.watchers.pop(self, None)
        for term, _ in self._own_terms():
            term.watchers.pop(self, None)
        for counter in self._counters():
            counter.release()

    def _own_terms(self) -> Iterable[tuple[Term, OwnedTerm]]:
        yield from self._required
        yield from self._anti
        yield from self._preferred

    def _counters(self) -> Iterable[Counter]:
        for group in (self._affinity_counts, self._anti_counts, self._existing_counts, self._score_counts):
            yield from group.values()

    def _counter(self, group: _Counters, key: str) -> Counter:
        counter = group.get(key)
        if counter is None:
            column = self.nodes.column(key)
            counter = group[key] = Counter(column, column.capacity)
        return counter

    def consider(self, pod_class: PodClass) -> None:
        """Weigh a class of running pods in every count it belongs to."""
        if pod_class in self._considered:
            return
        self._considered.add(pod_class)
        theirs, ours = pod_class.label_set, self.pod_class.label_set
        options = self.pod_class.options
        if wanted_by(self._required, theirs):
            for _, owned in self._required:
                self._counter(self._affinity_counts, owned.topology_key).weigh(pod_class, 1)
        for term, owned in self._anti:
            if avoided_by(term, theirs, options):
                self._counter(self._anti_counts, owned.topology_key).weigh(pod_class, 1)
        if ours.namespace not in options.daemon_namespaces:
            for owned in pod_class.required_anti_affinity:
                if ours in owned.term.selected:
                    self._counter(self._existing_counts, owned.topology_key).weigh(pod_class, 1)
        if self._scored:
            self._weigh_preferences(pod_class)

    def _weigh_preferences(self, pod_class: PodClass) -> None:
        theirs, ours = pod_class.label_set, self.pod_class.label_set
        for term, owned in self._preferred:
            if theirs in term.selected:
                self._counter(self._score_counts, owned.topology_key).weigh(pod_class, owned.weight)
        hard_weight = self.pod_class.options.hard_pod_affinity_weight
        if hard_weight > 0:
            for owned in pod_class.required_affinity:
                if ours in owned.term.selected:
                    self._counter(self._score_counts, owned.topology_key).weigh(pod_class, hard_weight)
        for owned in pod_class.preferred:
            if ours in owned.term.selected:
                self._counter(self._score_counts, owned.topology_key).weigh(pod_class, owned.weight)

    # --- feasible ---------------------------------------------------------------

    @property
    def filters(self) -> bool:  # type: ignore[override]
        if not self._filtering:
            return False
        return bool(self._required or self._anti or any(c.total for c in self._existing_counts.values()))

    @property
    def prefilter(self) -> Status | None:  # type: ignore[override]
        if not self._filtering:
            return None
        return PROCEED if self.filters else SKIPPED

    def stop_filtering(self) -> None:
        self._filtering = False

    @property
    def is_first(self) -> bool:
        """No pod anywhere matches the required terms, but the pod itself does: it may start the group."""
        if any(counter.total for counter in self._affinity_counts.values()):
            return False
        return all(self.pod_class.label_set in term.selected for term, _ in self._required)

    def block(self, out: Int32Array) -> None:
        for key in self._anti_counts.keys() | self._existing_counts.keys():
            pair = [c for c in (self._anti_counts.get(key), self._existing_counts.get(key)) if c and c.total]
            if pair:
                out |= self._project("anti", key).of(blocked_where(summed(pair) > 0))
        if self._required:
            first = self.is_first
            for key, counter in self._affinity_counts.items():
                missing = np.zeros(len(counter.counts), dtype=np.bool_) if first else counter.counts <= 0
                missing[0] = True
                out |= self._project("affinity", key).of(blocked_where(missing))

    def _project(self, purpose: str, key: str) -> Projection:
        found = self._projections.get((purpose, key))
        if found is None:
            found = self._projections[purpose, key] = Projection(self.nodes, self.nodes.column(key))
        return found

    # --- what helps ---------------------------------------------------------------

    def bars(self, slot: int) -> bool:
        for key in self._anti_counts.keys() | self._existing_counts.keys():
            domain = self.nodes.column(key).ids.item(slot)
            if domain and not self._unopposed(key, domain):
                return True
        return bool(self._required) and not self.is_first and not self._has_peers(slot)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, OF_PODS):
            return not change.pod_class.is_known or self._helped_by_pod(change)
        if isinstance(change, OF_NODES):
            return self._helped_by_node(change)
        return isinstance(change, NamespaceUpdated)

    def _helped_by_pod(self, change: PodDeleted | PodAdded) -> bool:
        if isinstance(change, PodDeleted):
            return self._loses(change.pod_class, change.slot)
        touches = change.pod_class.touches
        return bool(touches) and any(counter in touches for counter in self._affinity_counts.values())

    def _helped_by_node(self, change: NodeAdded | NodeUpdated | NodeDeleted) -> bool:
        if isinstance(change, NodeAdded):  # it may have come back with pods that are wanted
            return self.nodes.requested.item(PODS_ROW, change.slot) > 0 and self._has_peers(change.slot)
        if isinstance(change, NodeUpdated):
            return change.labels and self._moved(change)
        return change.old is None or self._without(change.old.metadata.labels or {})

    def _loses(self, pod_class: PodClass, slot: int) -> bool:
        """Whether a pod that left took the last objection to its domain along, or was the last peer."""
        touches = pod_class.touches
        if not touches:
            return False
        for group in (self._anti_counts, self._existing_counts):
            for key, counter in group.items():
                if counter in touches and self._unopposed(key, self.nodes.column(key).ids.item(slot)):
                    return True
        return any(counter in touches for counter in self._affinity_counts.values()) and self.is_first

    def _has_peers(self, slot: int) -> bool:
        """Whether there is a wanted pod in some domain of the node."""
        for key, counter in self._affinity_counts.items():
            if counter.counts[self.nodes.column(key).ids[slot]] > 0:
                return True
        return False

    def _without(self, labels: Mapping[str, str]) -> bool:
        """The same for all pods of a node that left."""
        for key in self._anti_counts.keys() | self._existing_counts.keys():
            if key in labels and self._unopposed(key, self.nodes.column(key).id_of(labels[key])):
                return True
        return bool(self._required) and self.is_first

    def _unopposed(self, key: str, domain: int) -> bool:
        """Whether there is such a domain, and no pod in it that keeps this one away."""
        groups = (self._anti_counts, self._existing_counts)
        return domain > 0 and not any(key in g and g[key].counts.item(domain) > 0 for g in groups)

    def _moved(self, change: NodeUpdated) -> bool:
        """Whether the node, and so the pods on it, stands in other domains now."""
        before, after = change.old.metadata.labels or {}, self.nodes.labels[change.slot] or {}
        groups = (self._affinity_counts, self._anti_counts, self._existing_counts)
        return any(before.get(key) != after.get(key) for group in groups for key in group)

    # --- score ------------------------------------------------------------------

    @property
    def scores(self) -> bool:  # type: ignore[override]
        return self._scored and any(self._contributes(c) for c in self._score_counts.values())

    @property
    def prescore(self) -> Status:  # type: ignore[override]
        return PROCEED if self.scores else SKIPPED

    def _contributes(self, counter: Counter) -> bool:
        """Whether any pod counts at all; weights may still cancel out."""
        return bool(counter.total) or self.cluster.any_pod(counter.classes, counter.column)

    def raw_scores(self, blocked: Int32Array) -> Int32Array:
        total: Int32Array | None = None
        for counter in self._score_counts.values():
            scores = spread_over_nodes(counter.counts, counter.column, len(blocked))
            total = scores if total is None else total + scores
        return np.zeros(len(blocked), dtype=np.int32) if total is None else total

    def normalized_at(self, raw: Int64Array, slots: IndexArray) -> Int64Array:
        del slots
        low, high = int(raw.min()), int(raw.max())
        return _exactly_scaled(raw, low, high)

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        counters = self._score_counts
        if not counters:
            return None
        if len(counters) == 1:
            ((key, counter),) = counters.items()
            if counter.column is not None and not counter.column.identity:
                return self._weighted_by_domain(key, counter, blocked, weight)
        raw = self.raw_scores(blocked)
        low, high = int((raw + blocked).min()), int((raw - blocked).max())
        return None if high <= low else _scaled(raw, low, high, weight)

    def _weighted_by_domain(
        self, key: str, counter: Counter, blocked: Int32Array, weight: int
    ) -> Int32Array | None:
        """The common case of one topology: score its domains, then look the nodes' up."""
        present = counter.counts[self._domains(key).of(blocked)]
        if not len(present):
            return None
        low, high = int(present.min()), int(present.max())
        if high <= low:
            return None
        return self._project("score", key).of(_scaled(counter.counts, low, high, weight))

    def _domains(self, key: str) -> FeasibleDomains:
        found = self._feasible_domains.get(key)
        if found is None:
            found = self._feasible_domains[key] = FeasibleDomains(self.nodes, self.nodes.column(key))
        return found

    # --- explain ----------------------------------------------------------------

    def verdict(self, slot: int) -> RuleVerdict | None:
        if self._required and (causes := tuple(cause for _, cause in self._missing_peers(slot))):
            return RuleVerdict(self.name, UNRESOLVABLE, (REASON_AFFINITY,), causes)
        if causes := tuple(cause for _, cause in self._conflicts(slot)):
            return RuleVerdict(self.name, UNSCHEDULABLE, (REASON_ANTI_AFFINITY,), causes)
        if causes := tuple(self._objections(slot)):
            return RuleVerdict(self.name, UNSCHEDULABLE, (REASON_EXISTING,), causes)
        return None

    def violations(self, slot: int) -> Iterable[RuleViolation]:
        for found, reason in (
            (self._missing_peers(slot), REASON_AFFINITY),
            (self._conflicts(slot), REASON_ANTI_AFFINITY),
        ):
            for owned, cause in found:
                yield RuleViolation(self.name, reason, cause, owned.path, owned.execution)
        for key in self._existing_counts:
            for (path, required), owners in self._objectors(key).items():
                if objection := self._objection(slot, key, owners):
                    yield RuleViolation(self.name, REASON_EXISTING, objection, path, required, of_peer=True)

    @classmethod
    def execution_violations(
        cls, cluster: Cluster, pod_class: PodClass, pods: IndexArray
    ) -> Iterable[RuleViolation]:
        return execution.violations(cls.name, cluster, pod_class, pods)

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        if self._required:
            missing = self._misses_peers(slots, gone)
            yield SharedVerdict(slots[missing], UNRESOLVABLE, (REASON_AFFINITY,))
            slots = slots[~missing]
        for counters, reason in (
            (self._anti_counts, REASON_ANTI_AFFINITY),
            (self._existing_counts, REASON_EXISTING),
        ):
            objects = np.zeros(len(slots), dtype=np.bool_)
            for key, counter in counters.items():
                # Domain 0, that of nodes without the label, counts nobody.
                objects |= counter.counts[self.nodes.column(key).ids[slots]] > gone.counted(counter)[slots]
            yield SharedVerdict(slots[objects], UNSCHEDULABLE, (reason,))
            slots = slots[~objects]

    def _misses_peers(self, slots: IndexArray, gone: HypotheticalRemoval) -> BoolArray:
        missing, nobody = np.zeros((2, len(slots)), dtype=np.bool_)
        nobody[:] = all(self.pod_class.label_set in term.selected for term, _ in self._required)
        for key, counter in self._affinity_counts.items():
            leaving = gone.counted(counter)[slots]
            missing |= counter.counts[self.nodes.column(key).ids[slots]] <= leaving
            nobody &= leaving == counter.total
        # Where no peer would be left anywhere, the pod may start the group, if it belongs to it.
        missing &= ~nobody
        for key in self._affinity_counts:
            missing |= self.nodes.column(key).ids[slots] == 0
        return missing

    def _missing_peers(self, slot: int) -> Iterable[tuple[OwnedTerm, str]]:
        first = self.is_first
        for _, owned in self._required:
            column = self.nodes.column(owned.topology_key)
            domain = column.ids[slot]
            counts = self._affinity_counts[owned.topology_key].counts
            if not domain or (not first and counts[domain] <= 0):
                yield owned, no_peer(self._required, owned.topology_key, column.values[domain])

    def _conflicts(self, slot: int) -> Iterable[tuple[OwnedTerm, str]]:
        for term, owned in self._anti:
            column = self.nodes.column(owned.topology_key)
            counter = self._anti_counts.get(owned.topology_key)
            domain = column.ids[slot]
            if not domain or counter is None or counter.counts[domain] <= 0:
                continue
            classes = [c for c in counter.classes if c.label_set in term.selected]
            if peers := self._name_peers(classes, owned.topology_key, domain):
                where = f"{owned.topology_key}={column.values[domain]}"
                yield owned, f"{peers} in {where} matches {owned.term.selector}"

    def _objections(self, slot: int) -> Iterable[str]:
        for key in self._existing_counts:
            owners = {owner: None for found in self._objectors(key).values() for owner in found}
            if cause := self._objection(slot, key, list(owners)):
                yield cause

    def _objectors(self, key: str) -> dict[tuple[str, bool], list[PodClass]]:
        """The classes whose pods do not want this one in their domain, by where they say so."""
        ours = self.pod_class.label_set
        found: dict[tuple[str, bool], list[PodClass]] = {}
        for pod_class in self._existing_counts[key].classes:
            for owned in pod_class.required_anti_affinity:
                if owned.topology_key == key and ours in owned.term.selected:
                    found.setdefault((owned.path, owned.execution), []).append(pod_class)
        return found

    def _objection(self, slot: int, key: str, owners: list[PodClass]) -> str | None:
        column = self.nodes.column(key)
        domain = column.ids[slot]
        if not domain or self._existing_counts[key].counts[domain] <= 0:
            return None
        peers = self._name_peers(owners, key, domain)
        return f"{peers} in {key}={column.values[domain]} has anti-affinity to this pod" if peers else None

    def _name_peers(self, classes: list[PodClass], key: str, domain: int) -> str:
        return name_pods(self.cluster.pods_in_domain(classes, key, domain, limit=PEERS_SHOWN + 1))


def _scaled(raw: Int32Array, low: int, high: int, weight: int) -> Int32Array:
    """`weight` times the normalized scores; entries outside of `low` to `high` belong to refused nodes."""
    if high - low < min(_LOOKED_UP, len(raw)):
        steps = np.arange(low, high + 1, dtype=np.int64)
        table = (weight * _exactly_scaled(steps, low, high)).astype(np.int32)
        return table.take(raw - np.int32(low), mode="clip")
    inside = np.clip(raw, low, high).astype(np.int64)
    return (weight * _exactly_scaled(inside, low, high)).astype(np.int32)


def _exactly_scaled(raw: Int64Array, low: int, high: int) -> Int64Array:
    """0 for the lowest to 100 for the highest score, in upstream's floating-point arithmetic."""
    if high <= low:
        return np.zeros_like(raw)
    return (MAX_SCORE * ((raw - low).astype(np.float64) / (high - low))).astype(np.int64)
