"""Inter-pod affinity and anti-affinity: the terms of the incoming pod, and those of the pods that run.

Required anti-affinity is symmetric, preferences count both ways, and a running pod's required affinity is a
preference for its peers.  Everything is a count per topology domain, so placing a pod costs the same however
many run.  See the pod-affinity design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import numpy as np

from berth.engine.rules.base import TopologyRule
from berth.engine.rules.changes import level
from berth.engine.rules.inter_pod_affinity import affected, execution, relax
from berth.engine.rules.inter_pod_affinity.score import AffinityScore, exactly_scaled
from berth.engine.rules.inter_pod_affinity.terms import (
    KEPT_AWAY,
    NO_LABEL,
    NO_PEER,
    PEER,
    AffinityCounts,
    no_peer,
    unwanted_peers,
)
from berth.engine.rules.vectors import BlockedDomains, OccupiedDomains
from berth.engine.rules.verdicts import (
    MOST_PEERS,
    PROCEED,
    SKIPPED,
    Cause,
    RuleVerdict,
    SharedVerdict,
    StepStatus,
)
from berth.engine.state.classes import Counter
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
from berth.engine.state.columns import BoolArray, IndexArray, Int32Array, Int64Array, IntArray
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import PODS_ROW


class InterPodAffinity(TopologyRule):
    name = "InterPodAffinity"
    reasons = (NO_PEER, NO_LABEL, PEER, KEPT_AWAY)
    evicts = True
    relax_rank = 7
    helpers = (PodDeleted, PodAdded, NodeAdded, NodeUpdated, NodeDeleted, NamespaceUpdated)
    clues = staticmethod(relax.clues)
    relaxations = staticmethod(relax.relaxations)
    affected_pods = staticmethod(affected.affected_pods)
    conflicts = staticmethod(execution.conflicts)
    firsts_of_groups = staticmethod(execution.firsts_of_groups)
    is_in_the_way = staticmethod(execution.is_in_the_way)
    execution_violations = classmethod(execution.violations)
    peers_kept_away = classmethod(execution.peers_kept_away)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._counts = AffinityCounts(cluster, pod_class)
        self._score = AffinityScore(self._counts, cluster)
        self._filtering = True
        self._peerless: dict[str, BlockedDomains] = {}
        self._occupied: dict[str, OccupiedDomains] = {}

    def release(self) -> None:
        self._counts.release()

    @classmethod
    def may_refuse(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        if pod_class.required_affinity or pod_class.required_anti_affinity:
            return True
        return any(
            owner.required_anti_affinity for term in pod_class.label_set.terms for owner in term.owners
        )

    @property
    def founds(self) -> bool:
        return self._filtering and bool(self._counts.required) and self._counts.is_first

    @classmethod
    def relies_on_peers(cls, pod_class: PodClass) -> bool:
        return bool(pod_class.required_affinity)

    @classmethod
    def seeks(cls, pod_class: PodClass, other: PodClass) -> bool:
        return any(other.label_set in owned.term.selected for owned in pod_class.required_affinity)

    # --- feasible ---------------------------------------------------------------

    @property
    def filters(self) -> bool:  # type: ignore[override]
        if not self._filtering:
            return False
        return bool(
            self._counts.required
            or self._counts.avoided
            or any(c.total for c in self._counts.existing.values())
        )

    @property
    def prefilter(self) -> StepStatus | None:  # type: ignore[override]
        if not self._filtering:
            return None
        return PROCEED if self.filters else SKIPPED

    def stop_filtering(self) -> None:
        self._filtering = False

    def blocked(self) -> Sequence[Int32Array]:
        counts = self._counts
        anti, existing = counts.anti, counts.existing
        found: list[Int32Array] = []
        for key in anti.keys() | existing.keys() if anti and existing else anti or existing:
            vector = self._kept_away(key)
            if vector is not None:
                found.append(vector)
        if counts.required:
            first = counts.is_first
            for key, counter in counts.affinity.items():
                found.append(self._without_peer(key, counter, first=first))
        return found

    def _kept_away(self, key: str) -> Int32Array | None:
        """The nodes in whose domain is a pod that this one avoids, or that avoids this one."""
        occupied = self._occupied.get(key)
        if occupied is None:
            occupied = self._occupied[key] = OccupiedDomains(self.nodes, self.nodes.column(key))
        groups = self._counts.anti, self._counts.existing
        return occupied.of([group[key] for group in groups if key in group])

    def _without_peer(self, key: str, counter: Counter, *, first: bool) -> Int32Array:
        """The nodes in whose domain is no pod that this one wants, and those without the label."""
        peerless = self._peerless.get(key)
        if peerless is None:
            peerless = self._peerless[key] = BlockedDomains(self.nodes, self.nodes.column(key))
        missing = np.zeros(len(counter.counts), dtype=np.bool_) if first else counter.counts <= 0
        missing[0] = True
        return peerless.of(missing)

    def surroundings(self) -> Sequence[IntArray]:
        counts, every = self._counts, self.nodes.every_slot
        groups = (counts.affinity, counts.anti, counts.existing)
        return [
            *(np.full(self.nodes.count, counter.total) for counter in counts.affinity.values()),
            *(g[key].counts[self.nodes.column(key).ids[every]] for g in groups for key in g),
        ]

    # --- what helps ---------------------------------------------------------------

    def bars(self, slot: int) -> bool:
        for key in self._counts.anti.keys() | self._counts.existing.keys():
            domain = self.nodes.column(key).ids.item(slot)
            if domain and not self._unopposed(key, domain):
                return True
        return bool(self._counts.required) and not self._counts.is_first and not self._has_peers(slot)

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
        return bool(touches) and any(counter in touches for counter in self._counts.affinity.values())

    def _helped_by_node(self, change: NodeAdded | NodeUpdated | NodeDeleted) -> bool:
        if isinstance(change, NodeAdded):  # it may have come back with pods that are wanted
            return self.nodes.requested.item(PODS_ROW, change.slot) > 0 and self._has_peers(change.slot)
        if isinstance(change, NodeUpdated):
            return change.labels and self._moved(change)
        return change.old is None or self._without(change.old.metadata.labels or {})

    def _loses(self, pod_class: PodClass, slot: int) -> bool:
        """Whether a pod that left took the last conflict of its domain along, or was the last peer."""
        touches = pod_class.touches
        if not touches:
            return False
        for group in (self._counts.anti, self._counts.existing):
            for key, counter in group.items():
                if counter in touches and self._unopposed(key, self.nodes.column(key).ids.item(slot)):
                    return True
        return any(counter in touches for counter in self._counts.affinity.values()) and self._counts.is_first

    def _has_peers(self, slot: int) -> bool:
        """Whether there is a wanted pod in some domain of the node."""
        for key, counter in self._counts.affinity.items():
            if counter.counts[self.nodes.column(key).ids[slot]] > 0:
                return True
        return False

    def _without(self, labels: Mapping[str, str]) -> bool:
        """The same for all pods of a node that left."""
        for key in self._counts.anti.keys() | self._counts.existing.keys():
            if key in labels and self._unopposed(key, self.nodes.column(key).id_of(labels[key])):
                return True
        return bool(self._counts.required) and self._counts.is_first

    def _unopposed(self, key: str, domain: int) -> bool:
        """Whether there is such a domain, and no pod in it that keeps this one away."""
        groups = (self._counts.anti, self._counts.existing)
        return domain > 0 and not any(key in g and g[key].counts.item(domain) > 0 for g in groups)

    def _moved(self, change: NodeUpdated) -> bool:
        """Whether the node, and so the pods on it, stands in other domains now."""
        before, after = change.old.metadata.labels or {}, self.nodes.labels[change.slot] or {}
        groups = (self._counts.affinity, self._counts.anti, self._counts.existing)
        return any(before.get(key) != after.get(key) for group in groups for key in group)

    # --- score ------------------------------------------------------------------

    @property
    def scores(self) -> bool:  # type: ignore[override]
        return self._score.counts

    @property
    def prescore(self) -> StepStatus:  # type: ignore[override]
        return PROCEED if self._score.counts else SKIPPED

    def raw_scores(self, blocked: Int32Array) -> Int32Array:
        return self._score.raw(blocked)

    def normalized_at(self, raw: Int64Array, slots: IndexArray) -> Int64Array:
        return exactly_scaled(raw, int(raw.min()), int(raw.max()))

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        return self._score.weighted(blocked, weight)

    # --- explain ----------------------------------------------------------------

    def causes(self, slot: int) -> Iterable[Cause]:
        return chain(*self._groups_of_causes(slot))

    def first_causes(self, slot: int) -> Iterable[Cause]:
        return next(filter(None, map(tuple, self._groups_of_causes(slot))), ())

    def _groups_of_causes(self, slot: int) -> Iterable[Iterable[Cause]]:
        """In upstream's order."""
        return self._missing_peers(slot), self._conflicts(slot), self._existing_conflicts(slot)

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        if self._counts.required:
            missing = self._misses_peers(slots, gone)
            yield SharedVerdict.of(slots[missing], NO_PEER)
            slots = slots[~missing]
        for counters, reason in ((self._counts.anti, PEER), (self._counts.existing, KEPT_AWAY)):
            objects = np.zeros(len(slots), dtype=np.bool_)
            for key, counter in counters.items():
                # Domain 0, that of nodes without the label, counts no pods.
                objects |= counter.counts[self.nodes.column(key).ids[slots]] > gone.counted(counter)[slots]
            yield SharedVerdict.of(slots[objects], reason)
            slots = slots[~objects]

    def _misses_peers(self, slots: IndexArray, gone: HypotheticalRemoval) -> BoolArray:
        missing, nobody = np.zeros((2, len(slots)), dtype=np.bool_)
        nobody[:] = all(self.pod_class.label_set in term.selected for term, _ in self._counts.required)
        for key, counter in self._counts.affinity.items():
            leaving = gone.counted(counter)[slots]
            missing |= counter.counts[self.nodes.column(key).ids[slots]] <= leaving
            nobody &= leaving == counter.total
        # Where no peer would be left anywhere, the pod may start the group, if it belongs to it.
        missing &= ~nobody
        for key in self._counts.affinity:
            missing |= self.nodes.column(key).ids[slots] == 0
        return missing

    def _missing_peers(self, slot: int) -> Iterable[Cause]:
        first = self._counts.is_first
        for _, owned in self._counts.required:
            column = self.nodes.column(owned.topology_key)
            domain = column.ids[slot]
            counts = self._counts.affinity[owned.topology_key].counts
            if not domain or (not first and counts[domain] <= 0):
                yield no_peer(self._counts.required, owned, column.values[domain])

    def _conflicts(self, slot: int) -> Iterable[Cause]:
        for term, owned in self._counts.avoided:
            column = self.nodes.column(owned.topology_key)
            counter = self._counts.anti.get(owned.topology_key)
            domain = column.ids[slot]
            if not domain or counter is None or counter.counts[domain] <= 0:
                continue
            classes = [c for c in counter.classes if c.label_set in term.selected]
            if peers := self._peers(classes, owned.topology_key, domain):
                yield unwanted_peers(owned, column.values[domain] or "", peers)

    def _existing_conflicts(self, slot: int) -> Iterable[Cause]:
        for key, counter in self._counts.existing.items():
            column = self.nodes.column(key)
            domain = column.ids[slot]
            if not domain or counter.counts[domain] <= 0:
                continue
            value = column.values[domain] or ""
            for (path, during), owners in self._conflicting_owners(key).items():
                if peers := self._peers(owners, key, domain):
                    values, where = {"key": key, "level": level(key), "domain": value}, (key, value)
                    yield Cause(
                        KEPT_AWAY, values, path, execution=during, of_peer=True, topology=where, peers=peers
                    )

    def _conflicting_owners(self, key: str) -> dict[tuple[str, bool], list[PodClass]]:
        """The classes whose pods do not want this one in their domain, by where they say so."""
        ours = self.pod_class.label_set
        found: dict[tuple[str, bool], list[PodClass]] = {}
        for pod_class in self._counts.existing[key].classes:
            for owned in pod_class.required_anti_affinity:
                if owned.topology_key == key and ours in owned.term.selected:
                    found.setdefault((owned.path, owned.execution), []).append(pod_class)
        return found

    def _peers(self, classes: list[PodClass], key: str, domain: int) -> tuple[str, ...]:
        """Some of the pods of these classes that are in a domain."""
        pods, table = self.cluster.pods_of(classes), self.cluster.pods
        there = pods[self.nodes.column(key).ids[table.node[pods]] == domain]
        return tuple(sorted(filter(None, (table.keys[pod] for pod in there[:MOST_PEERS]))))


# What a kubelet says of a pod that cannot be with the others of its node.
ALONE, UNWANTED_PEERS, UNWANTED = (
    RuleVerdict(InterPodAffinity.name, reason.verdict_code, (reason.sentence,))
    for reason in (NO_PEER, PEER, KEPT_AWAY)
)
