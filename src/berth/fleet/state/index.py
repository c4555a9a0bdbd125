"""Where the peers of a workload are: the index that every rule between workloads asks.

It has the parts proposal 521 lists, on the engine's match index, which finds which label sets a
term selects and which terms select a label set:

* postings: the label sets of :class:`berth.engine.state.matching.MatchIndex`, and the bindings of each;
* topology by binding: the cluster slots of an `IndexedWorkload`;
* owners by topology: for each anti-affinity term, where its owners are (`WorkloadCounts`);
* memoised forbidden sets: for each term asked about, where the workloads it selects are (`WorkloadCounts`).

Counts are kept up to date one binding at a time, so that a question costs the clusters where
peers are, whatever the number of bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from berth.engine.state.columns import BoolArray, take_out
from berth.engine.state.matching import MatchIndex
from berth.engine.state.pod_class import LabelSet, Term
from berth.fleet.state.terms import AFFINITY_GROUP, ANTI_AFFINITY_GROUP, WorkloadRule, WorkloadRules
from berth.kube.objects import Key

# Where a workload counts for affinity, where for anti-affinity, and what it is being evicted from.
HOME, PRESENT, LEAVING = 0, 1, 2
ClusterSlots = tuple[int, ...]
BindingPlaces = tuple[ClusterSlots, ClusterSlots, ClusterSlots]
NOWHERE: BindingPlaces = ((), (), ())
# The labels that stand for groups are indexed in any case.
GROUPS = frozenset((AFFINITY_GROUP, ANTI_AFFINITY_GROUP))


def spelled(key: Key) -> str:
    return "/".join(filter(None, key))


@dataclass(slots=True)
class WorkloadCounts:
    """How many workloads are on each cluster, and how many are on any."""

    by_slot: dict[int, int] = field(default_factory=dict)
    placed: int = 0

    def add(self, slots: Iterable[int], change: int = 1) -> None:
        by_slot = self.by_slot
        somewhere = 0
        for slot in slots:
            somewhere = 1
            left = by_slot.get(slot, 0) + change
            if left:
                by_slot[slot] = left
            else:
                del by_slot[slot]
        self.placed += change * somewhere

    def without(self, slots: Iterable[int]) -> WorkloadCounts:
        """The counts if one workload, which is on these clusters, were not counted."""
        rest = WorkloadCounts(dict(self.by_slot), self.placed)
        rest.add(slots, -1)
        return rest

    def mask(self, size: int, *, all_placed: bool = False) -> BoolArray:
        """The clusters where some workload is, or those where every one is that is placed at all."""
        mask = np.zeros(size, dtype=np.bool_)
        slots = [s for s, n in self.by_slot.items() if n == self.placed] if all_placed else list(self.by_slot)
        mask[slots] = True
        return mask


@dataclass(slots=True, eq=False)
class IndexedWorkload:
    """One workload: its binding's key, what it is called by, where it is and what it demands.

    Attributes:
        labels: All that it has, groups among them; `label_set` has those that are indexed.
        places: The slots where it counts, by `HOME`, `PRESENT` and `LEAVING`.
        owned: Its anti-affinity terms with their topologies, which protect it from newcomers.
        used: The terms of all its rules.
    """

    key: Key
    labels: Mapping[str, str]
    label_set: LabelSet
    rules: WorkloadRules
    places: BindingPlaces = NOWHERE
    owned: tuple[tuple[Term, str], ...] = ()
    used: tuple[Term, ...] = ()

    @property
    def leaving(self) -> ClusterSlots:
        return self.places[LEAVING]

    @property
    def name(self) -> str:
        return spelled(self.key)


class BindingIndex:
    """All workloads that have a binding, by label set, with counts of the terms in use.

    Args:
        keys: The only labels indexed, besides those that rules ask for; None for all.

    Attributes:
        relabelled: How often a rule asked for a label that was not indexed, so that label sets changed.
    """

    def __init__(self, keys: frozenset[str] | None = None) -> None:
        self._keys = keys
        self.relabelled = 0
        self._matching = MatchIndex()
        self._entries: dict[Key, IndexedWorkload] = {}
        self._carriers: dict[LabelSet, dict[IndexedWorkload, None]] = {}
        self._counts: dict[Term, dict[int, WorkloadCounts]] = {}
        self._owners: dict[Term, dict[str, WorkloadCounts]] = {}
        self._users: dict[Term, dict[IndexedWorkload, None]] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[IndexedWorkload]:
        return iter(self._entries.values())

    @property
    def remembered(self) -> int:
        """How many label sets and terms are kept for the workloads."""
        return len(self._matching)

    def get(self, key: Key) -> IndexedWorkload | None:
        return self._entries.get(key)

    # --- changes ------------------------------------------------------------------

    def set(
        self,
        key: Key,
        labels: Mapping[str, str],
        groups: Mapping[str, str],
        rules: WorkloadRules,
        places: BindingPlaces,
    ) -> IndexedWorkload:
        """A workload has come or changed."""
        self._index_labels_of(rules)
        entry = self._entries.get(key)
        all_labels = {**labels, **groups}
        known = self._known(all_labels)
        if entry is not None:
            if entry.label_set.labels == known and entry.rules == rules:
                entry.labels = all_labels
                if entry.places != places:
                    self._place(entry, places)
                return entry
            self.remove(key)
        label_set = self._matching.label_set(key[0], known)
        entry = self._entries[key] = IndexedWorkload(key, all_labels, label_set, rules)
        self._carriers.setdefault(label_set, {})[entry] = None
        entry.used = tuple(map(self.term, rules.all))
        # Groups exclude each other both ways already: whoever is selected has the same term.
        entry.owned = tuple(
            (self.term(rule), rule.topology) for rule in rules.anti_affinity if rule.group is None
        )
        for term in entry.used:
            self._users.setdefault(term, {})[entry] = None
            self._counts.setdefault(term, {})
        self._place(entry, places)
        return entry

    def remove(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        self._place(entry, NOWHERE)
        self._unlabel(entry)
        for term in dict.fromkeys(entry.used):
            take_out(self._users, term, entry)
            if term not in self._users:
                del self._counts[term]
                self._matching.drop_term(term)

    def _place(self, entry: IndexedWorkload, places: BindingPlaces) -> None:
        before, entry.places = entry.places, places
        self.version += 1
        for term in entry.label_set.terms:
            for kind, counts in self._counts.get(term, {}).items():
                if before[kind] != places[kind]:
                    counts.add(before[kind], -1)
                    counts.add(places[kind])
        if before[PRESENT] != places[PRESENT]:
            for term, topology in entry.owned:
                by_topology = self._owners.setdefault(term, {})
                counts = by_topology.setdefault(topology, WorkloadCounts())
                counts.add(before[PRESENT], -1)
                counts.add(places[PRESENT])
                if not counts.placed:
                    del by_topology[topology]
                if not by_topology:
                    del self._owners[term]

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace's labels decide which of its workloads some terms select."""
        if self._matching.set_namespace(name, labels):
            self.version += 1
            for term in list(self._counts):
                if term.namespace_selector is not None:
                    self._counts[term] = {kind: self._count(term, kind) for kind in self._counts[term]}

    # --- questions ----------------------------------------------------------------

    def term(self, rule: WorkloadRule) -> Term:
        return self._matching.term(rule.selector, rule.namespaces, rule.namespace_selector)

    def counts(self, term: Term, kind: int) -> WorkloadCounts:
        """Where the workloads a term selects are; remembered while some workload owns the term."""
        known = self._counts.get(term)
        if known is None:
            return self._count(term, kind)
        if kind not in known:
            known[kind] = self._count(term, kind)
        return known[kind]

    def owners(self, label_set: LabelSet) -> Iterator[tuple[Term, str, WorkloadCounts]]:
        """The anti-affinity terms of placed workloads that select this one, and where their owners are."""
        for term in label_set.terms:
            for topology, counts in self._owners.get(term, {}).items():
                yield term, topology, counts

    def may_be_kept_off(self, namespace: str) -> bool:
        """Whether a placed workload keeps off some of a namespace, whatever their labels."""
        return any(
            term.namespaces is None or namespace in term.namespaces or term.namespace_selector is not None
            for term in self._owners
        )

    def selected(self, term: Term) -> Iterator[IndexedWorkload]:
        """The workloads a term selects."""
        for label_set in term.selected:
            yield from self._carriers.get(label_set, ())

    def owners_of(self, term: Term, topology: str) -> Iterator[IndexedWorkload]:
        """The workloads whose anti-affinity the term is."""
        return (entry for entry in self._users.get(term, ()) if (term, topology) in entry.owned)

    # --- inside -------------------------------------------------------------------

    def _known(self, labels: Mapping[str, str]) -> dict[str, str]:
        if self._keys is None:
            return dict(labels)
        return {key: value for key, value in labels.items() if key in self._keys or key in GROUPS}

    def _index_labels_of(self, rules: WorkloadRules) -> None:
        """A rule about a label that is not indexed yet would select nobody by it: index the label."""
        if self._keys is None:
            return
        asked = {requirement.key for rule in rules.all for requirement in rule.selector.requirements}
        if asked <= self._keys | GROUPS:
            return
        self._keys |= asked
        self.relabelled += 1
        for entry in self:
            places = entry.places
            self._place(entry, NOWHERE)
            self._unlabel(entry)
            entry.label_set = self._matching.label_set(entry.key[0], self._known(entry.labels))
            self._carriers.setdefault(entry.label_set, {})[entry] = None
            self._place(entry, places)

    def _unlabel(self, entry: IndexedWorkload) -> None:
        take_out(self._carriers, entry.label_set, entry)
        if entry.label_set not in self._carriers:
            self._matching.drop_label_set(entry.label_set)

    def _count(self, term: Term, kind: int) -> WorkloadCounts:
        counts = WorkloadCounts()
        for entry in self.selected(term):
            counts.add(entry.places[kind])
        return counts

    def validate(self) -> None:
        """Check every count against one made anew, and that nothing is kept which no workload uses."""
        terms = {term for entry in self for term in entry.used}
        label_sets = {entry.label_set for entry in self}
        owned = {pair for entry in self if entry.places[PRESENT] for pair in entry.owned}
        kept = (self._users.keys(), self._counts.keys())
        if any(part != terms for part in kept) or self._carriers.keys() != label_sets:
            raise AssertionError("terms or label sets are kept that no workload uses")
        if {(term, topology) for term, by in self._owners.items() for topology in by} != owned:
            raise AssertionError("owners are kept that are not placed")
        for term, known in self._counts.items():
            if any(counts != self._count(term, kind) for kind, counts in known.items()):
                raise AssertionError(f"workloads of {term.selector} are miscounted")
