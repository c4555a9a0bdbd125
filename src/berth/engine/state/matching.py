"""Which label sets each affinity term selects: the index both directions of a rule use.

Pods with the same namespace and labels share one `LabelSet`; terms with the same selector and namespaces
share one `Term`.  The edges of a newcomer are found by postings (label -> label sets) and anchors (label ->
terms): a term that wants ``app=web`` is only tried on label sets that have it, and the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from berth.engine.state.columns import take_out
from berth.engine.state.identity import IDENTITY_LABELS
from berth.engine.state.options import Options
from berth.engine.state.pod_class import Anchor, LabelSet, OwnedTerm, Term
from berth.kube.defaults import NAMESPACE_NAME_LABEL
from berth.kube.selectors import EXISTS, Requirement, Selector

_ANY_VALUE = None
# A label with more values than this, which no selector looks at, is no reason to tell pods apart.
_MANY_VALUES = 64

_TermKey = tuple[Selector, frozenset[str] | None, Selector | None]
_NO_LABELS: Mapping[str, str] = {}
# Every namespace has this label.
_EXISTS = Requirement(NAMESPACE_NAME_LABEL, EXISTS)


class MatchIndex:
    """All label sets and terms, and the edges between them.

    Attributes:
        hidden: Labels of many values that pods are not told apart by, because no selector asked for them yet.
        mentioned: Those that one did ask for since; the cluster reveals them.
        unsteady: Labels that classes show or leave out, by the time when they were made.
    """

    def __init__(self) -> None:
        self._label_sets: dict[tuple[str, frozenset[tuple[str, str]]], LabelSet] = {}
        self._terms: dict[_TermKey, Term] = {}
        self._postings: dict[str, dict[str, dict[LabelSet, None]]] = {}
        self._anchors: dict[Anchor, dict[Term, None]] = {}
        self._unanchored: dict[Term, None] = {}
        self._namespaces: dict[str, Mapping[str, str]] = {}
        self.hidden: set[str] = set(IDENTITY_LABELS)
        self.mentioned: set[str] = set()
        self.unsteady: set[str] = set()
        self._asked_for: set[str] = set()

    def __len__(self) -> int:
        """How many label sets and terms are kept."""
        return len(self._label_sets) + len(self._terms)

    def mention(self, keys: Iterable[str]) -> None:
        """Some selector looks at these labels, so none of them may stay hidden."""
        new = set(keys) - self._asked_for  # others are hidden no longer, or mentioned already
        if new:
            self._asked_for |= new
            self.mentioned |= self.hidden & new

    def reveal(self) -> set[str]:
        """The labels mentioned since the last time, which are hidden no longer."""
        revealed, self.mentioned = self.mentioned, set()
        self.hidden -= revealed
        self.unsteady |= revealed
        return revealed

    def label_set(self, namespace: str, labels: Mapping[str, str]) -> LabelSet:
        key = (namespace, frozenset(labels.items()))
        found = self._label_sets.get(key)
        if found is None:
            found = self._label_sets[key] = LabelSet(namespace, labels)
            for label, value in labels.items():
                by_value = self._postings.setdefault(label, {})
                by_value.setdefault(value, {})[found] = None
                if len(by_value) > _MANY_VALUES and label not in self._asked_for:
                    self.hidden.add(label)
                    self.unsteady.add(label)
            for term in self._terms_that_may_select(labels):
                self._link(term, found)
        return found

    def term(
        self,
        selector: Selector,
        namespaces: frozenset[str] | None,
        namespace_selector: Selector | None = None,
    ) -> Term:
        key = (selector, namespaces, namespace_selector)
        found = self._terms.get(key)
        if found is None:
            self.mention(requirement.key for requirement in selector.requirements)
            found = self._terms[key] = Term(*key, self._tightest(selector))
            for anchor in found.anchors:
                self._anchors.setdefault(anchor, {})[found] = None
            if not found.anchors and not selector.nothing:
                self._unanchored[found] = None
            for label_set in self._sets_that_may_match(found):
                self._link(found, label_set)
        return found

    def drop_label_set(self, label_set: LabelSet) -> None:
        del self._label_sets[label_set.namespace, frozenset(label_set.labels.items())]
        for label, value in label_set.labels.items():
            take_out(self._postings[label], value, label_set)
        for term in label_set.terms:
            del term.selected[label_set]

    def drop_term(self, term: Term) -> None:
        del self._terms[term.selector, term.namespaces, term.namespace_selector]
        for anchor in term.anchors:
            take_out(self._anchors, anchor, term)
        self._unanchored.pop(term, None)
        for label_set in term.selected:
            del label_set.terms[term]

    def keep_only(self, label_sets: set[LabelSet], terms: set[Term]) -> None:
        """Forget everything else, except terms that some rule watches."""
        for label_set in [s for s in self._label_sets.values() if s not in label_sets]:
            self.drop_label_set(label_set)
        for term in [t for t in self._terms.values() if t not in terms and not t.watchers]:
            self.drop_term(term)

    # --- namespaces ---------------------------------------------------------------

    @property
    def namespaces(self) -> Collection[str]:
        """The names of those that are known."""
        return self._namespaces.keys()

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        return self._namespaces.get(name, _NO_LABELS)

    def set_namespace(self, name: str, labels: Mapping[str, str] | None) -> bool:
        """Take note of a namespace's labels (None: it is gone). True if some term now selects other pods."""
        before = self.namespace_labels(name)
        if labels is None:
            self._namespaces.pop(name, None)
        else:
            self._namespaces[name] = labels
        if before == self.namespace_labels(name):
            return False
        changed = False
        by_namespace = [s for s in self._label_sets.values() if s.namespace == name]
        for term in self._terms.values():
            if term.namespace_selector is None:
                continue
            for label_set in by_namespace:
                was = label_set in term.selected
                if was:
                    del term.selected[label_set]
                    del label_set.terms[term]
                self._link(term, label_set)
                changed |= was != (label_set in term.selected)
        return changed

    # --- edges --------------------------------------------------------------------

    def _link(self, term: Term, label_set: LabelSet) -> None:
        namespace = label_set.namespace
        covered = term.covers(namespace, self.namespace_labels(namespace))
        if covered and term.selector.matches(label_set.labels):
            term.selected[label_set] = None
            label_set.terms[term] = None

    def _terms_that_may_select(self, labels: Mapping[str, str]) -> Iterable[Term]:
        yield from self._unanchored
        for label, value in labels.items():
            yield from self._anchors.get((label, value), ())
            yield from self._anchors.get((label, _ANY_VALUE), ())

    def _sets_that_may_match(self, term: Term) -> Iterable[LabelSet]:
        if term.selector.nothing:
            return
        if not term.anchors:
            yield from self._label_sets.values()
        for label, value in term.anchors:
            by_value = self._postings.get(label, {})
            if value is _ANY_VALUE:
                for sets in by_value.values():
                    yield from sets
            else:
                yield from by_value.get(value, ())

    def _tightest(self, selector: Selector) -> tuple[Anchor, ...]:
        """The anchors among the possible ones that the fewest label sets and terms share by now.

        Any choice is right; this one keeps apart what differs: of ``tier=prod,group=g17`` every term may
        have the first, and only a few the second.
        """
        choices = _anchor_choices(selector)
        if len(choices) == 1:
            return choices[0]
        return min(choices, default=(), key=lambda anchors: (sum(map(self._load, anchors)), anchors))

    def _load(self, anchor: Anchor) -> int:
        label, value = anchor
        sets = self._postings.get(label, {}).get(value, ()) if value is not _ANY_VALUE else ()
        return len(sets) + len(self._anchors.get(anchor, ()))


def _anchor_choices(selector: Selector) -> list[tuple[Anchor, ...]]:
    """Each a set of labels of which a matching object has at least one: an In's values, else an Exists' key.

    Empty if the selector can match an object without labels.
    """
    if selector.nothing:
        return []
    required = [r for r in selector.requirements if r.operator == "In"]
    if required:
        return [tuple((r.key, value) for value in sorted(r.values)) for r in required]
    existing = sorted(r.key for r in selector.requirements if r.operator == "Exists")
    return [((existing[0], _ANY_VALUE),)] if existing else []


# --- how the terms of a pod are read that is judged itself ----------------------------------------


def reads_everywhere(owned: OwnedTerm, options: Options) -> bool:
    """Whether upstream lets a term of the pod it judges cover all namespaces; see `KubernetesVersion`."""
    if options.exact_namespace_selectors or options.version.exact_namespace_selectors:
        return False
    selector = owned.term.namespace_selector
    return selector is not None and selector.matches({})


def as_incoming(index: MatchIndex, owned: OwnedTerm, options: Options) -> Term:
    """A term as upstream reads it for the pod it judges."""
    if reads_everywhere(owned, options):
        return index.term(owned.term.selector, None)
    selector = owned.term.namespace_selector
    if not options.version.exact_namespace_selectors or selector is None or not selector.requirements:
        return owned.term
    if not selector.matches({}):
        return owned.term
    # The selector is looked up among the namespaces there are; what the pods of others are in, is in none.
    return index.term(owned.term.selector, owned.term.namespaces, selector.also((_EXISTS,)))


def incoming(index: MatchIndex, terms: Iterable[OwnedTerm], options: Options) -> list[tuple[Term, OwnedTerm]]:
    """Terms as they are read, and as the pod carries them."""
    return [(as_incoming(index, owned, options), owned) for owned in terms]


def wanted_by(required: Collection[tuple[Term, OwnedTerm]], theirs: LabelSet) -> bool:
    """Whether such pods are peers: one pod must match all terms."""
    return bool(required) and all(theirs in term.selected for term, _ in required)


def avoided_by(term: Term, theirs: LabelSet, options: Options) -> bool:
    return theirs in term.selected and theirs.namespace not in options.daemon_namespaces
