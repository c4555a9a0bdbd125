"""Where the peers of a workload are: the index that every rule between workloads asks.

It has the parts proposal 521 lists, on the engine's match index, which finds which label sets a
term selects and which terms select a label set:

* postings: the label sets of :class:`berth.engine.state.matching.MatchIndex`, and the bindings of each;
* topology by binding: the cluster slots of an `Entry`;
* owners by topology: for each anti-affinity term, where its owners are (`Tally`);
* memoised forbidden sets: for each term asked about, where the workloads it selects are (`Tally`).

Tallies are kept up to date one binding at a time, so that a question costs the clusters where
peers are, whatever the number of bindings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from berth.engine.state.matching import LabelSet, MatchIndex, Term

if TYPE_CHECKING:
    from berth.engine.state.arrays import BoolArray
    from berth.fleet.terms import Rules, WorkloadRule

# Where a workload counts for affinity, where for anti-affinity, and what it is being evicted from.
HOME, PRESENT, LEAVING = 0, 1, 2
Slots = tuple[int, ...]
Places = tuple[Slots, Slots, Slots]
NOWHERE: Places = ((), (), ())


class Tally:
    """How many workloads are on each cluster, and how many are on any."""

    __slots__ = ("counts", "placed")

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self.placed = 0

    def add(self, slots: Iterable[int], change: int = 1) -> None:
        counts = self.counts
        somewhere = 0
        for slot in slots:
            somewhere = 1
            left = counts.get(slot, 0) + change
            if left:
                counts[slot] = left
            else:
                del counts[slot]
        self.placed += change * somewhere

    def without(self, slots: Iterable[int]) -> Tally:
        """The tally if one workload, which is on these clusters, were not counted."""
        rest = Tally()
        rest.counts, rest.placed = dict(self.counts), self.placed
        rest.add(slots, -1)
        return rest

    def mask(self, size: int, *, all_placed: bool = False) -> BoolArray:
        """The clusters where some workload is, or those where every one is that is placed at all."""
        mask = np.zeros(size, dtype=np.bool_)
        slots = [s for s, n in self.counts.items() if n == self.placed] if all_placed else list(self.counts)
        if slots:
            mask[slots] = True
        return mask

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tally) and (self.counts, self.placed) == (other.counts, other.placed)

    __hash__ = None  # type: ignore[assignment]


class Entry:
    """One workload: its binding's key, what it is called by, where it is and what it demands.

    Attributes:
        places: The slots where it counts, by `HOME`, `PRESENT` and `LEAVING`.
        owned: Its anti-affinity terms with their topologies, which protect it from newcomers.
    """

    __slots__ = ("key", "label_set", "owned", "places", "rules", "used")

    def __init__(self, key: tuple[str, str], label_set: LabelSet, rules: Rules) -> None:
        self.key = key
        self.label_set = label_set
        self.rules = rules
        self.places = NOWHERE
        self.owned: tuple[tuple[Term, str], ...] = ()
        self.used: tuple[Term, ...] = ()

    @property
    def leaving(self) -> Slots:
        return self.places[LEAVING]

    @property
    def name(self) -> str:
        return "/".join(filter(None, self.key))


class BindingIndex:
    """All workloads that have a binding, by label set, with tallies of the terms in use.

    Args:
        keys: The only labels indexed; None for all.
    """

    def __init__(self, keys: frozenset[str] | None = None) -> None:
        self._keys = keys
        self._matching = MatchIndex()
        self._entries: dict[tuple[str, str], Entry] = {}
        self._carriers: dict[LabelSet, dict[Entry, None]] = {}
        self._tallies: dict[Term, dict[int, Tally]] = {}
        self._owners: dict[Term, dict[str, Tally]] = {}
        self._users: dict[Term, dict[Entry, None]] = {}
        self._uses: dict[Term, int] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._entries.values())

    def get(self, key: tuple[str, str]) -> Entry | None:
        return self._entries.get(key)

    # --- changes ------------------------------------------------------------------

    def set(
        self,
        key: tuple[str, str],
        labels: Mapping[str, str],
        groups: Mapping[str, str],
        rules: Rules,
        places: Places,
    ) -> Entry:
        """A workload has come or changed."""
        entry = self._entries.get(key)
        known = self._known(labels, groups)
        if entry is not None:
            if entry.label_set.labels == known and entry.rules == rules:
                if entry.places != places:
                    self._place(entry, places)
                return entry
            self.remove(key)
        label_set = self._matching.label_set(key[0], known)
        entry = self._entries[key] = Entry(key, label_set, rules)
        self._carriers.setdefault(label_set, {})[entry] = None
        entry.used = tuple(map(self._use, rules.all))
        # Groups exclude each other both ways already: whoever is selected has the same term.
        entry.owned = tuple(
            (self.term(rule), rule.topology) for rule in rules.anti_affinity if rule.group is None
        )
        for term in entry.used:
            self._users.setdefault(term, {})[entry] = None
        self._place(entry, places)
        return entry

    def remove(self, key: tuple[str, str]) -> Entry | None:
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._place(entry, NOWHERE)
        carriers = self._carriers[entry.label_set]
        del carriers[entry]
        if not carriers:
            del self._carriers[entry.label_set]
            self._matching.drop_label_set(entry.label_set)
        for term in entry.used:
            self._users[term].pop(entry, None)
        for term in entry.used:
            self._release(term)
        return entry

    def _place(self, entry: Entry, places: Places) -> None:
        before, entry.places = entry.places, places
        self.version += 1
        for term in entry.label_set.terms:
            for kind, tally in self._tallies.get(term, {}).items():
                if before[kind] != places[kind]:
                    tally.add(before[kind], -1)
                    tally.add(places[kind])
        if before[PRESENT] != places[PRESENT]:
            for term, topology in entry.owned:
                by_topology = self._owners.setdefault(term, {})
                tally = by_topology.setdefault(topology, Tally())
                tally.add(before[PRESENT], -1)
                tally.add(places[PRESENT])
                if not tally.placed:
                    del by_topology[topology]
                if not by_topology:
                    del self._owners[term]

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace's labels decide which of its workloads some terms select."""
        if self._matching.set_namespace(name, labels):
            self.version += 1
            for term in list(self._tallies):
                if term.namespace_selector is not None:
                    self._tallies[term] = {kind: self._tally(term, kind) for kind in self._tallies[term]}

    # --- questions ----------------------------------------------------------------

    def term(self, rule: WorkloadRule) -> Term:
        return self._matching.term(rule.selector, rule.namespaces, rule.namespace_selector)

    def tally(self, term: Term, kind: int) -> Tally:
        """Where the workloads a term selects are; remembered while some workload owns the term."""
        known = self._tallies.get(term)
        if known is None:
            return self._tally(term, kind)
        if kind not in known:
            known[kind] = self._tally(term, kind)
        return known[kind]

    def owners(self, label_set: LabelSet) -> Iterator[tuple[Term, str, Tally]]:
        """The anti-affinity terms of placed workloads that select this one, and where their owners are."""
        for term in label_set.terms:
            for topology, tally in self._owners.get(term, {}).items():
                yield term, topology, tally

    def selected(self, term: Term) -> Iterator[Entry]:
        """The workloads a term selects."""
        for label_set in term.selected:
            yield from self._carriers.get(label_set, ())

    def owners_of(self, term: Term, topology: str) -> Iterator[Entry]:
        """The workloads whose anti-affinity the term is."""
        return (entry for entry in self._users.get(term, ()) if (term, topology) in entry.owned)

    # --- inside -------------------------------------------------------------------

    def _known(self, labels: Mapping[str, str], groups: Mapping[str, str]) -> dict[str, str]:
        if self._keys is None:
            return {**labels, **groups}
        return {k: v for k, v in labels.items() if k in self._keys} | dict(groups)

    def _use(self, rule: WorkloadRule) -> Term:
        term = self.term(rule)
        self._uses[term] = self._uses.get(term, 0) + 1
        self._tallies.setdefault(term, {})
        return term

    def _release(self, term: Term) -> None:
        self._uses[term] -= 1
        if not self._uses[term]:
            del self._uses[term]
            del self._tallies[term]
            self._users.pop(term, None)
            self._matching.drop_term(term)

    def _tally(self, term: Term, kind: int) -> Tally:
        tally = Tally()
        for entry in self.selected(term):
            tally.add(entry.places[kind])
        return tally
