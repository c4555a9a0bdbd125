"""Who matters to a pod, counted by domain: pods it wants, avoids or likes, and those that mind it."""

from __future__ import annotations

from collections.abc import Iterable
from weakref import WeakSet

from berth.engine.rules.inter_pod_affinity.terms import as_incoming, avoided_by, wanted_by
from berth.engine.state.cluster import Cluster
from berth.engine.state.counts import Counter
from berth.engine.state.pod_class import OwnedTerm, PodClass, Term

_Counters = dict[str, Counter]


class AffinityCounts:
    """The terms of one class and their counts, kept up to date as classes of pods come.

    Attributes:
        required, avoided, preferred: Its own terms, as they are read and as the pod carries them.
        affinity: By topology key, the pods that match all required terms.
        anti: The pods that some term of its anti-affinity matches.
        existing: The pods whose required anti-affinity is about this class.
        score: What preferences weigh, its own and those of running pods.
    """

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self._cluster, self._pod_class = cluster, pod_class
        options = pod_class.options
        self.required = self._incoming(pod_class.required_affinity)
        self.avoided = self._incoming(pod_class.required_anti_affinity)
        self.preferred = self._incoming(pod_class.preferred)
        self.scored = not options.ignore_preferred_terms_of_existing_pods or bool(pod_class.preferred)
        self.affinity: _Counters = {}
        self.anti: _Counters = {}
        self.existing: _Counters = {}
        self.score: _Counters = {}
        for _, owned in self.required:
            self._counter(self.affinity, owned.topology_key)
        self._considered: WeakSet[PodClass] = WeakSet()
        self._watch()

    def _incoming(self, owned: Iterable[OwnedTerm]) -> list[tuple[Term, OwnedTerm]]:
        return [(as_incoming(self._cluster.index, o, self._pod_class.options), o) for o in owned]

    def _watch(self) -> None:
        """Ask to be told of every class that may matter, starting with those already there."""
        label_set = self._pod_class.label_set
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
            self._cluster.recount(counter)

    def release(self) -> None:
        self._pod_class.label_set.watchers.pop(self, None)
        for term, _ in self._own_terms():
            term.watchers.pop(self, None)
        for counter in self._counters():
            counter.release()

    def _own_terms(self) -> Iterable[tuple[Term, OwnedTerm]]:
        yield from self.required
        yield from self.avoided
        yield from self.preferred

    def _counters(self) -> Iterable[Counter]:
        for group in (self.affinity, self.anti, self.existing, self.score):
            yield from group.values()

    def _counter(self, group: _Counters, key: str) -> Counter:
        counter = group.get(key)
        if counter is None:
            column = self._cluster.nodes.column(key)
            counter = group[key] = Counter(column, column.capacity)
        return counter

    def consider(self, pod_class: PodClass) -> None:
        """Weigh a class of running pods in every count it belongs to."""
        if pod_class in self._considered:
            return
        self._considered.add(pod_class)
        theirs, ours = pod_class.label_set, self._pod_class.label_set
        options = self._pod_class.options
        if wanted_by(self.required, theirs):
            for _, owned in self.required:
                self._counter(self.affinity, owned.topology_key).weigh(pod_class, 1)
        for term, owned in self.avoided:
            if avoided_by(term, theirs, options):
                self._counter(self.anti, owned.topology_key).weigh(pod_class, 1)
        if ours.namespace not in options.daemon_namespaces:
            for owned in pod_class.required_anti_affinity:
                if ours in owned.term.selected:
                    self._counter(self.existing, owned.topology_key).weigh(pod_class, 1)
        if self.scored:
            self._weigh_preferences(pod_class)

    def _weigh_preferences(self, pod_class: PodClass) -> None:
        theirs, ours = pod_class.label_set, self._pod_class.label_set
        for term, owned in self.preferred:
            if theirs in term.selected:
                self._counter(self.score, owned.topology_key).weigh(pod_class, owned.weight)
        hard_weight = self._pod_class.options.hard_pod_affinity_weight
        if hard_weight > 0:
            for owned in pod_class.required_affinity:
                if ours in owned.term.selected:
                    self._counter(self.score, owned.topology_key).weigh(pod_class, hard_weight)
        for owned in pod_class.preferred:
            if ours in owned.term.selected:
                self._counter(self.score, owned.topology_key).weigh(pod_class, owned.weight)

    @property
    def is_first(self) -> bool:
        """No pod anywhere matches the required terms, but the pod itself does: it may start the group."""
        if any(counter.total for counter in self.affinity.values()):
            return False
        return all(self._pod_class.label_set in term.selected for term, _ in self.required)
