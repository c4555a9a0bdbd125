"""How the terms of a pod are read, and what they say of a domain."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from weakref import WeakSet

from berth.engine.rules.changes import level
from berth.engine.rules.verdicts import Cause, Reason
from berth.engine.state.classes import Counter
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import NodeAdded, NodeUpdated, PodAdded, PodDeleted
from berth.engine.state.matching import avoided_by, incoming, wanted_by
from berth.engine.state.pod_class import OwnedTerm, PodClass, Term

NO_PEER = Reason(
    "PodAffinityNoPeer",
    "node(s) didn't match pod affinity rules",
    "no {one} matching {selector} in {key}={domain}",
    varies=("domain",),
    waits_for="a pod matching {selector} to be placed",
    events=(PodAdded,),
)
NO_LABEL = Reason(
    "PodAffinityLabelMissing",
    NO_PEER.sentence,
    "the node has no label {key}",
    waits_for="a node with the label {key}",
    events=(NodeAdded, NodeUpdated),
)
PEER = Reason(
    "PodAntiAffinityPeer",
    "node(s) didn't match pod anti-affinity rules",
    "{peers} in {key}={domain} matches {selector}",
    "{peers} in {key}={domain} match {selector}",
    varies=("domain",),
    waits_for="the pods matching {selector} to leave a {level}",
    events=(PodDeleted, NodeAdded),
    resolvable=True,
)
KEPT_AWAY = Reason(
    "PeerAntiAffinity",
    "node(s) didn't satisfy existing pods anti-affinity rules",
    "{peers} in {key}={domain} has anti-affinity to this pod",
    "{peers} in {key}={domain} have anti-affinity to this pod",
    varies=("domain",),
    waits_for="{peers} to leave a {level}",
    events=(PodDeleted, NodeAdded),
    resolvable=True,
)


def no_peer(required: Collection[tuple[Term, OwnedTerm]], owned: OwnedTerm, value: str | None) -> Cause:
    """Why one of the required terms does not hold in a domain, that of nodes without the label if None."""
    key = owned.topology_key
    if value is None:
        return Cause(NO_LABEL, {"key": key}, owned.path, execution=owned.execution, topology=(key, ""))
    values = {
        "one": "pod" if len(required) == 1 else "single pod",
        "selector": " and ".join(dict.fromkeys(str(each.term.selector) for _, each in required)),
        "key": key,
        "level": level(key),
        "domain": value,
    }
    return Cause(NO_PEER, values, owned.path, execution=owned.execution, topology=(key, value))


def unwanted_peers(owned: OwnedTerm, value: str, peers: tuple[str, ...]) -> Cause:
    """The pods of a domain that an anti-affinity term of this one selects."""
    key = owned.topology_key
    values = {"key": key, "level": level(key), "domain": value, "selector": str(owned.term.selector)}
    where = (key, value)
    return Cause(PEER, values, owned.path, execution=owned.execution, topology=where, peers=peers)


# --- who matters to a pod, by domain: pods it wants, avoids or likes, and those that mind it -------


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
        self.required = incoming(cluster.index, pod_class.required_affinity, options)
        self.avoided = incoming(cluster.index, pod_class.required_anti_affinity, options)
        self.preferred = incoming(cluster.index, pod_class.preferred, options)
        self.scored = not options.args.ignore_preferred_terms_of_existing_pods or bool(pod_class.preferred)
        self.affinity: dict[str, Counter] = {}
        self.anti: dict[str, Counter] = {}
        self.existing: dict[str, Counter] = {}
        self.score: dict[str, Counter] = {}
        for _, owned in self.required:
            self._counter(self.affinity, owned)
        self._considered: WeakSet[PodClass] = WeakSet()
        self._watch()

    def _watch(self) -> None:
        """Ask to be told of every class that may matter, starting with those already there."""
        label_set = self._pod_class.label_set
        label_set.watchers[self] = None
        for term, _ in self._own_terms():
            term.watch(self)
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
        return (*self.required, *self.avoided, *self.preferred)

    def _counters(self) -> Iterable[Counter]:
        for group in (self.affinity, self.anti, self.existing, self.score):
            yield from group.values()

    def _counter(self, group: dict[str, Counter], owned: OwnedTerm) -> Counter:
        """The one of a group for the topology of a term."""
        key = owned.topology_key
        found = group.get(key)
        if found is None:
            column = self._cluster.nodes.column(key)
            found = group[key] = Counter(column, column.capacity)
        return found

    def consider(self, pod_class: PodClass) -> None:
        """Weigh a class of running pods in every count it belongs to."""
        if pod_class in self._considered:
            return
        self._considered.add(pod_class)
        theirs, ours = pod_class.label_set, self._pod_class.label_set
        options = self._pod_class.options
        if wanted_by(self.required, theirs):
            for _, owned in self.required:
                self._counter(self.affinity, owned).weigh(pod_class, 1)
        for term, owned in self.avoided:
            if avoided_by(term, theirs, options):
                self._counter(self.anti, owned).weigh(pod_class, 1)
        if ours.namespace not in options.daemon_namespaces:
            for owned in pod_class.required_anti_affinity:
                if ours in owned.term.selected:
                    self._counter(self.existing, owned).weigh(pod_class, 1)
        if self.scored:
            self._weigh_preferences(pod_class)

    def _weigh_preferences(self, pod_class: PodClass) -> None:
        theirs, ours = pod_class.label_set, self._pod_class.label_set
        for term, owned in self.preferred:
            if theirs in term.selected:
                self._counter(self.score, owned).weigh(pod_class, owned.weight)
        hard_weight = self._pod_class.options.args.hard_pod_affinity_weight
        if hard_weight > 0:
            for owned in pod_class.required_affinity:
                if ours in owned.term.selected:
                    self._counter(self.score, owned).weigh(pod_class, hard_weight)
        for owned in pod_class.preferred:
            if ours in owned.term.selected:
                self._counter(self.score, owned).weigh(pod_class, owned.weight)

    @property
    def is_first(self) -> bool:
        """No pod anywhere matches the required terms, but the pod itself does: it may start the group."""
        if any(counter.total for counter in self.affinity.values()):
            return False
        return all(self._pod_class.label_set in term.selected for term, _ in self.required)
