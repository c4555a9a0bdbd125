"""Spread constraints with the counts they are judged by."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import ClassVar

import numpy as np

from berth.engine.rules.vectors import BlockedDomains, FeasibleDomains, Projection
from berth.engine.rules.verdicts import ConstraintCounts
from berth.engine.state.classes import Counter
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import NodeAdded, NodeDeleted, NodeUpdated, PodAdded, PodDeleted
from berth.engine.state.columns import (
    BoolArray,
    FloatArray,
    IndexArray,
    Int32Array,
    Int64Array,
    LabelColumn,
    Slots,
    grown,
)
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass, Term
from berth.engine.state.spread_constraints import Constraint
from berth.engine.state.tables import PODS_ROW
from berth.kube.objects import Node
from berth.kube.well_known import DO_NOT_SCHEDULE, HOSTNAME, SCHEDULE_ANYWAY

LEFT_OUT_BY_AFFINITY = (
    "the pod's nodeSelector or node affinity does not allow them (nodeAffinityPolicy: Honor)"
)
LEFT_OUT_BY_TAINTS = "the pod does not tolerate their taints (nodeTaintsPolicy: Honor)"
# No real count comes near it; the emptiest domain is looked for among those a node stands in.
_ABSENT = np.int32(1 << 30)


class EligibleNodes:
    """The nodes whose pods count for a constraint, at one version of the nodes; many classes have the same.

    Attributes:
        eligible: By slot.
        by_domain: How many there are in each domain.
        absent: What to add to a domain's count for it not to be the lowest, where there are none.
        domains: In how many domains there are some.
    """

    def __init__(self, cluster: Cluster, eligible: BoolArray, column: LabelColumn) -> None:
        self.version = cluster.nodes.version
        self.eligible: BoolArray = np.zeros(cluster.nodes.capacity, dtype=np.bool_)
        self.eligible[: cluster.nodes.count] = eligible
        domains = column.ids[: cluster.nodes.count][eligible]
        self.by_domain: Int32Array = np.bincount(domains, minlength=column.capacity).astype(np.int32)
        self.absent: Int32Array = np.where(self.by_domain > 0, np.int32(0), _ABSENT)
        self.domains = int(np.count_nonzero(self.by_domain))


class CountedConstraint:
    """One constraint with its counts; `action` is its `whenUnsatisfiable`."""

    action: ClassVar[str]

    def __init__(self, cluster: Cluster, pod_class: PodClass, constraint: Constraint, keys: set[str]) -> None:
        self.constraint = constraint
        self.column: LabelColumn = cluster.nodes.column(constraint.topology_key)
        self._cluster, self._pod_class, self._keys = cluster, pod_class, tuple(sorted(keys))
        self.term: Term = cluster.index.term(constraint.selector, frozenset((pod_class.namespace,)))
        self.matches_self = constraint.selector.matches(pod_class.labels)
        self._found_eligible = self._eligible_nodes()
        self.eligible: BoolArray = self._found_eligible.eligible.copy()
        self.counter = Counter(self.column, self.column.capacity, eligible=self.eligible, living_only=True)

    def _eligible_nodes(self) -> EligibleNodes:
        """The nodes that count now, computed once for all classes with the same demands on nodes."""
        constraint, cluster = self.constraint, self._cluster
        policies = constraint.honor_affinity, constraint.honor_taints
        key = (constraint.topology_key, self.column.capacity, self._keys, policies, self._pod_class.node_key)
        found = cluster.plans.shared.get(key)
        if not isinstance(found, EligibleNodes) or found.version != cluster.nodes.version:
            eligible = self.eligibility(cluster.nodes.every_slot)
            found = cluster.plans.shared[key] = EligibleNodes(cluster, eligible, self.column)
        return found

    def eligibility(self, slots: Slots) -> BoolArray:
        """Whether the pods of these nodes count, by their labels and the constraint's inclusion policies."""
        eligible = self._cluster.nodes.alive[slots].copy()
        for _, counts in self._conditions():
            eligible &= counts(slots)
        return eligible

    def left_out(self) -> dict[str, IndexArray]:
        """Nodes whose pods do not count, by the first of the reasons why."""
        nodes = self._cluster.nodes
        rest = np.flatnonzero(nodes.alive[: nodes.count] & ~self.eligible[: nodes.count])
        found: dict[str, IndexArray] = {}
        for why, counts in self._conditions():
            kept = counts(rest)
            if not kept.all():
                found[why] = rest[~kept]
                rest = rest[kept]
        return found

    def _conditions(self) -> Iterator[tuple[str, Callable[[Slots], BoolArray]]]:
        """Why the pods of a node may not count, and which nodes' pods do as far as that goes."""
        nodes, own = self._cluster.nodes, self.constraint.topology_key
        for key in sorted(self._keys, key=lambda key: key != own):
            needed = "" if key == own else ", which another constraint of the pod needs"
            yield f"no label {key}{needed}", partial(self._have_label, key)
        if self.constraint.honor_affinity:
            yield LEFT_OUT_BY_AFFINITY, partial(self._pod_class.selects, nodes)
        if self.constraint.honor_taints:
            yield LEFT_OUT_BY_TAINTS, partial(nodes.tolerated, self._pod_class.spec.tolerations)

    def _have_label(self, key: str, slots: Slots) -> BoolArray:
        return self._cluster.nodes.column(key).ids[slots] > 0

    def counted(self, rule: str) -> ConstraintCounts:
        """How even the pods are that it counts; it is a constraint of `rule`."""
        constraint, counts = self.constraint, self.by_domain()
        enough = len(counts) >= constraint.min_domains
        return ConstraintCounts(
            rule=rule,
            constraint=constraint,
            path=constraint.path,
            topology_key=constraint.topology_key,
            selector=str(constraint.selector),
            when_unsatisfiable=self.action,
            hard=self.action == DO_NOT_SCHEDULE,
            max_skew=constraint.max_skew,
            counts=counts,
            minimum=min(counts.values(), default=0) if enough else 0,
            counts_own=self.matches_self,
            left_out=self.left_out,
        )

    def by_domain(self) -> dict[str, int]:
        """Domain -> count, for domains with an eligible node, in order of their names."""
        column, counts = self.column, self.counter.counts
        slots = np.flatnonzero(self.eligible)
        found = column.ids[slots]
        per_node = self.counter.column is None
        by_domain = np.bincount(found, weights=counts[1:][slots]) if per_node else counts
        names = {domain: column.values[domain] for domain in np.unique(found).tolist()}
        totals = {name: int(by_domain[domain]) for domain, name in names.items() if name is not None}
        return dict(sorted(totals.items()))

    def consider(self, pod_class: PodClass) -> None:
        # An empty selector counts no pod at all, although it matches every one.
        if not self.constraint.selector.everything and pod_class.label_set in self.term.selected:
            self.counter.weigh(pod_class, 1)

    def node_leaves(self, slot: int) -> None:
        self.eligible[slot] = False

    def node_joins(self, slot: int) -> None:
        self.eligible[slot] = self.eligibility(np.array([slot], dtype=np.intp))[0]

    def release(self) -> None:
        self.counter.release()


class HardConstraint(CountedConstraint):
    """A constraint that refuses nodes, with the domains that count for its minimum."""

    action = DO_NOT_SCHEDULE

    def __init__(self, cluster: Cluster, pod_class: PodClass, constraint: Constraint, keys: set[str]) -> None:
        super().__init__(cluster, pod_class, constraint, keys)
        self.nodes_in: Int32Array = self._found_eligible.by_domain.copy()
        self._absent: Int32Array = self._found_eligible.absent.copy()
        self.domains = self._found_eligible.domains
        self._full = BlockedDomains(cluster.nodes, self.column)
        self.column.dependents[self] = None

    def grow(self, size: int) -> None:
        self.nodes_in = grown(self.nodes_in, size)
        absent = np.full(size, _ABSENT, dtype=np.int32)
        absent[: len(self._absent)] = self._absent
        self._absent = absent

    def release(self) -> None:
        super().release()
        self.column.dependents.pop(self, None)

    def node_leaves(self, slot: int) -> None:
        if self.eligible[slot]:
            domain = self.column.ids[slot]
            self.nodes_in[domain] -= 1
            if not self.nodes_in[domain]:
                self._absent[domain] = _ABSENT
                self.domains -= 1
        super().node_leaves(slot)

    def node_joins(self, slot: int) -> None:
        super().node_joins(slot)
        if self.eligible[slot]:
            domain = self.column.ids[slot]
            self.nodes_in[domain] += 1
            if self.nodes_in[domain] == 1:
                self._absent[domain] = 0
                self.domains += 1

    @property
    def minimum(self) -> int:
        """Matching pods in the emptiest domain, 0 while there are fewer domains than `minDomains`."""
        if self.domains < self.constraint.min_domains or not self.domains:
            return 0
        return int(np.minimum.reduce(self.counter.counts + self._absent))

    @property
    def most_allowed(self) -> int:
        """The highest count a domain may have before the pod comes."""
        return self.constraint.max_skew + self.minimum - self.matches_self

    def exceeded(self, slots: IndexArray, gone: HypotheticalRemoval) -> BoolArray:
        """Whether nodes are refused for their domain's count, each without its own pods in `gone`."""
        # A domain that becomes the emptiest by losing pods is not too full by either minimum.
        counts = self.counter.counts[self.column.ids[slots]] - gone.counted(self.counter)[slots]
        return counts > self.most_allowed

    def excess(self) -> Int64Array:
        """By how many pods the domain of each node is above what is allowed, below if negative."""
        counts = self.counter.counts.astype(np.int64) - self.most_allowed
        return counts[self.column.ids[: self._cluster.nodes.count]]

    # --- what helps -----------------------------------------------------------------

    def bars(self, slot: int) -> bool:
        return not self._has_room_in(self.column.ids.item(slot))

    def _has_room_in(self, domain: int) -> bool:
        return domain > 0 and self.counter.counts.item(domain) <= self.most_allowed

    def helped_by_pod(self, change: PodDeleted | PodAdded) -> bool:
        """Whether one that came, wherever, may have raised the minimum, or one that left gave room."""
        if self.counter not in change.pod_class.touches:
            return False
        if isinstance(change, PodAdded):
            return self.minimum > 0
        # One that was terminating was not counted any more.
        counted = not change.terminating and bool(self.eligible[change.slot])
        return counted and self._has_room_in(self.column.ids.item(change.slot))

    def helped_by_node(self, change: NodeAdded | NodeUpdated | NodeDeleted) -> bool:
        if isinstance(change, NodeUpdated):
            return self._moved_by(change)
        if isinstance(change, NodeDeleted):
            return self._freed_by(change.old)
        # As the one domain that was missing, or by the pods on it, it may have raised the minimum.
        there = self._cluster.nodes.requested.item(PODS_ROW, change.slot) > 0
        raises = self.constraint.min_domains > 1 or there
        return raises and bool(self.eligible[change.slot]) and self.minimum > 0

    def _moved_by(self, change: NodeUpdated) -> bool:
        """Whether the node stands in other domains now, or began or ceased to count."""
        old, slot = change.old, change.slot
        if change.labels:
            before, after = old.metadata.labels or {}, self._cluster.nodes.labels[slot] or {}
            if any(before.get(key) != after.get(key) for key in self._keys):
                return True
            if self.constraint.honor_affinity:
                name = old.metadata.name or ""
                was, now = (self._pod_class.selects_node(labels, name) for labels in (before, after))
                if was != now:
                    return True
        return change.taints and self.constraint.honor_taints

    def _freed_by(self, old: Node | None) -> bool:
        """Whether its domain is gone, so that the minimum may be higher, or has room now."""
        if old is None:
            return True
        labels = old.metadata.labels or {}
        if not all(key in labels for key in self._keys):
            return False
        domain = self.column.id_of(labels[self.constraint.topology_key])
        if not domain or not self.nodes_in[domain]:
            return self.minimum > 0
        return self._has_room_in(domain)

    def blocked(self) -> Int32Array:
        full = self.counter.counts > self.most_allowed
        full[0] = True
        return self._full.of(full)


class SoftConstraint(CountedConstraint):
    """A constraint that ranks nodes, those without the label too if it wants no `keys` of them.

    Pods are counted per node where the topology is the node itself.
    """

    action = SCHEDULE_ANYWAY

    def __init__(self, cluster: Cluster, pod_class: PodClass, constraint: Constraint, keys: set[str]) -> None:
        super().__init__(cluster, pod_class, constraint, keys)
        self.per_node = constraint.topology_key == HOSTNAME
        self.feasible_domains = FeasibleDomains(cluster.nodes, self.column)
        self.projection = Projection(cluster.nodes, self.column)
        self.counter.unlabelled = not keys
        if self.per_node:
            self.counter.release()
            self.counter = Counter(None, cluster.nodes.capacity + 1, living_only=True)

    def counts(self) -> Int32Array:
        """Matching pods by domain. Where unlabelled nodes count, they share the domain of the empty value."""
        counts = self.counter.counts
        empty = self.column.id_of("")
        if self.counter.unlabelled and empty:
            counts = counts.copy()
            counts[empty] += counts[0]
        return counts

    def score_table(self, size: int) -> FloatArray:
        """Domain -> what its pods weigh; with more domains (`size`), each pod counts more."""
        return self.counts().astype(np.float64) * math.log(size + 2) + (self.constraint.max_skew - 1)

    def size(self, ranked: Int32Array) -> int:
        """In how many domains the ranked nodes stand."""
        found = self.feasible_domains.of(ranked)
        empty = self.column.id_of("")
        return int(np.count_nonzero(found)) - int(empty > 0 and found[empty] and found[0])
