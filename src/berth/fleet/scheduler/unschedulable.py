"""Bindings that fit nowhere, and which changes may help them."""

from __future__ import annotations

from collections.abc import Iterator

from berth.engine.state.pod_class import LabelSet, Term
from berth.fleet.state.index import BindingIndex, IndexedWorkload
from berth.kube.objects import Key
from berth.machines.indexes import take


class UnschedulableBindings:
    """Who waits, by the terms that may stand in the way and by the label set others' terms may select."""

    def __init__(self, index: BindingIndex) -> None:
        self._index, self._relabelled = index, index.relabelled
        self._entries: dict[Key, IndexedWorkload] = {}
        self._by_term: dict[Term, dict[Key, None]] = {}
        self._by_labels: dict[LabelSet, dict[Key, None]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[Key]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, key: Key, entry: IndexedWorkload) -> None:
        self.remove(key)
        self._keep_up()
        self._entries[key] = entry
        for term in entry.used:
            self._by_term.setdefault(term, {})[key] = None
        self._by_labels.setdefault(entry.label_set, {})[key] = None

    def remove(self, key: Key) -> None:
        """It was placed, or is gone."""
        self._keep_up()
        entry = self._entries.pop(key, None)
        if entry is None:
            return
        for term in entry.used:
            take(self._by_term, term, key)
        take(self._by_labels, entry.label_set, key)

    def concerned(self, entry: IndexedWorkload) -> Iterator[Key]:
        """Those that may fit when a workload comes, moves or goes: it or they have a term about the other."""
        if not self._entries:
            return
        self._keep_up()
        for term in entry.label_set.terms:
            yield from self._by_term.get(term, ())
        for term, _ in entry.owned:
            for label_set in term.selected:
                yield from self._by_labels.get(label_set, ())

    def _keep_up(self) -> None:
        """The label sets of those who wait are others since more labels are indexed."""
        if self._relabelled != self._index.relabelled:
            self._relabelled = self._index.relabelled
            self._by_labels.clear()
            for key, entry in self._entries.items():
                self._by_labels.setdefault(entry.label_set, {})[key] = None
