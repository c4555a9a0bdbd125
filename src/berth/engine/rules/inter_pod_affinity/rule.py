"""Inter-pod affinity and anti-affinity, in both directions.

The incoming pod's own terms look at the pods that run; the terms of the pods that run look back:
required anti-affinity is symmetric, preferences count both ways, and a running pod's required
affinity is a preference for its peers.  Everything is a count per topology domain, so placing a
pod costs the same however many run.  See the pod-affinity design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from berth.engine.rules.base import TopologyRule
from berth.engine.rules.inter_pod_affinity import clues, execution, relax
from berth.engine.rules.inter_pod_affinity.counts import AffinityCounts
from berth.engine.rules.inter_pod_affinity.hints import AffinityHints
from berth.engine.rules.inter_pod_affinity.score import AffinityScore, exactly_scaled
from berth.engine.rules.inter_pod_affinity.terms import (
    KEPT_AWAY,
    NO_LABEL,
    NO_PEER,
    PEER,
    no_peer,
    unwanted_peers,
)
from berth.engine.rules.reasons import MOST_PEERS, Cause
from berth.engine.rules.relaxing import Change, Question, level
from berth.engine.rules.vectors import OccupiedDomains, Projection, blocked_where
from berth.engine.rules.verdicts import (
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    RuleVerdict,
    RuleViolation,
    SharedVerdict,
    StepStatus,
)
from berth.engine.state.arrays import BoolArray, IndexArray, Int32Array, Int64Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
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
from berth.engine.state.pod_class import PodClass
from berth.kube.well_known import UNSCHEDULABLE


class InterPodAffinity(TopologyRule):
    name = "InterPodAffinity"
    reasons = (NO_PEER, NO_LABEL, PEER, KEPT_AWAY)
    evicts = True
    relax_rank = 7
    helpers = (PodDeleted, PodAdded, NodeAdded, NodeUpdated, NodeDeleted, NamespaceUpdated)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._counts = AffinityCounts(cluster, pod_class)
        self._score = AffinityScore(self._counts, cluster)
        self._hints = AffinityHints(self._counts, cluster.nodes)
        self._filtering = True
        self._projections: dict[tuple[str, str], Projection] = {}
        self._occupied: dict[str, OccupiedDomains] = {}

    def release(self) -> None:
        self._counts.release()

    @classmethod
    def may_refuse(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        del cluster
        if pod_class.required_affinity or pod_class.required_anti_affinity:
            return True
        return any(
            owner.required_anti_affinity for term in pod_class.label_set.terms for owner in term.owners
        )

    def clues(self, question: Question) -> Iterable[str]:
        return clues.clues(question)

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        return relax.relaxations(question)

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
        keys = counts.anti.keys() | counts.existing.keys() if counts.existing else counts.anti
        found = [vector for key in keys if (vector := self._kept_away(key)) is not None]
        if counts.required:
            first = counts.is_first
            found += [
                self._without_peer(key, counter, first=first) for key, counter in counts.affinity.items()
            ]
        return found

    def _kept_away(self, key: str) -> Int32Array | None:
        """The nodes in whose domain of this topology is somebody whom the pod avoids or who avoids it."""
        occupied = self._occupied.get(key)
        if occupied is None:
            occupied = self._occupied[key] = OccupiedDomains(self.nodes, self.nodes.column(key))
        pair = self._counts.anti.get(key), self._counts.existing.get(key)
        return occupied.of([counter for counter in pair if counter is not None])

    def _without_peer(self, key: str, counter: Counter, *, first: bool) -> Int32Array:
        """The nodes in whose domain nobody is whom the pod wants, or that have no such label."""
        missing = np.zeros(len(counter.counts), dtype=np.bool_) if first else counter.counts <= 0
        missing[0] = True
        return self._project("affinity", key).of(blocked_where(missing))

    def _project(self, purpose: str, key: str) -> Projection:
        found = self._projections.get((purpose, key))
        if found is None:
            found = self._projections[purpose, key] = Projection(self.nodes, self.nodes.column(key))
        return found

    # --- what helps ---------------------------------------------------------------

    def bars(self, slot: int) -> bool:
        return self._hints.bars(slot)

    def helped_by(self, change: ClusterEvent) -> bool:
        return self._hints.helped_by(change)

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
        del slots
        return exactly_scaled(raw, int(raw.min()), int(raw.max()))

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        return self._score.weighted(blocked, weight)

    # --- explain ----------------------------------------------------------------

    def verdict(self, slot: int) -> RuleVerdict | None:
        if self._counts.required and (causes := tuple(self._missing_peers(slot))):
            return RuleVerdict.of(self.name, UNRESOLVABLE, causes)
        causes = tuple(self._conflicts(slot)) or tuple(self._existing_conflicts(slot))
        return RuleVerdict.of(self.name, UNSCHEDULABLE, causes) if causes else None

    def violations(self, slot: int) -> Iterable[RuleViolation]:
        for found in (self._missing_peers(slot), self._conflicts(slot), self._existing_conflicts(slot)):
            for cause in found:
                yield RuleViolation(self.name, cause)

    @classmethod
    def execution_violations(
        cls, cluster: Cluster, pod_class: PodClass, pods: IndexArray
    ) -> Iterable[RuleViolation]:
        return execution.violations(cls.name, cluster, pod_class, pods)

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        if self._counts.required:
            missing = self._misses_peers(slots, gone)
            yield SharedVerdict(slots[missing], UNRESOLVABLE, (NO_PEER.sentence,))
            slots = slots[~missing]
        for counters, reason in (
            (self._counts.anti, PEER.sentence),
            (self._counts.existing, KEPT_AWAY.sentence),
        ):
            objects = np.zeros(len(slots), dtype=np.bool_)
            for key, counter in counters.items():
                # Domain 0, that of nodes without the label, counts nobody.
                objects |= counter.counts[self.nodes.column(key).ids[slots]] > gone.counted(counter)[slots]
            yield SharedVerdict(slots[objects], UNSCHEDULABLE, (reason,))
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
                    yield Cause(
                        KEPT_AWAY,
                        {"key": key, "level": level(key), "domain": value},
                        path,
                        execution=during,
                        of_peer=True,
                        topology=(key, value),
                        peers=tuple(peers),
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

    def _peers(self, classes: list[PodClass], key: str, domain: int) -> list[str]:
        return self.cluster.pods_in_domain(classes, key, domain, limit=MOST_PEERS)
