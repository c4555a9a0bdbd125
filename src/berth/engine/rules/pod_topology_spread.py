"""Topology spread: keep the pods of a group even over domains.

A hard constraint refuses nodes whose domain would end up more than `maxSkew` above the emptiest
one; a soft constraint prefers emptier domains.  See the topology-spread design document.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakSet

import numpy as np

from berth.engine.arrays import (
    BoolArray,
    FloatArray,
    IndexArray,
    Int32Array,
    Int64Array,
    IntArray,
    Slots,
    grown,
)
from berth.engine.cluster import Cluster
from berth.engine.columns import LabelColumn
from berth.engine.counts import Counter
from berth.engine.matching import Term
from berth.engine.options import HOSTNAME
from berth.engine.podclass import PodClass
from berth.engine.rules.base import (
    MAX_SCORE,
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Rejection,
    TopologyRule,
)
from berth.engine.rules.node_affinity import match_required
from berth.engine.rules.taint_toleration import first_untolerated
from berth.engine.rules.vectors import FeasibleDomains, Projection, blocked_where, spread_over_nodes
from berth.kube.objects import TopologySpreadConstraint
from berth.kube.selectors import Requirement, Selector, parse_label_selector

REASON_SKEW = "node(s) didn't match pod topology spread constraints"
REASON_NO_LABEL = "node(s) didn't match pod topology spread constraints (missing required label)"
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
HONOR = "Honor"
# No real count comes near it; the emptiest domain is looked for among those a node stands in.
_ABSENT = np.int32(1 << 30)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as the scheduler reads it."""

    topology_key: str
    max_skew: int
    min_domains: int
    selector: Selector
    honor_affinity: bool
    honor_taints: bool
    path: str

    def includes(self, pod_class: PodClass, cluster: Cluster, slots: Slots) -> BoolArray:
        """Whether the pods of a node count, by the constraint's inclusion policies."""
        nodes = cluster.nodes
        included = nodes.alive[slots].copy()
        if self.honor_affinity:
            included &= match_required(nodes, pod_class, slots)
        if self.honor_taints:
            tolerations = pod_class.spec.tolerations
            tolerated = [first_untolerated(tolerations, taints) is None for taints in nodes.taints.values]
            included &= np.array(tolerated, dtype=np.bool_)[nodes.taints.ids[slots]]
        return included


def read_constraints(
    constraints: Sequence[TopologySpreadConstraint],
    pod_class: PodClass,
    action: str,
    selector: Selector | None = None,
    path: str = "spec.topologySpreadConstraints",
) -> list[Constraint]:
    """The constraints with the given `whenUnsatisfiable`; `selector` replaces theirs (for defaults)."""
    return [
        Constraint(
            topology_key=c.topology_key or "",
            max_skew=c.max_skew or 0,
            min_domains=1 if c.min_domains is None else c.min_domains,
            selector=_with_label_keys(c, pod_class) if selector is None else selector,
            honor_affinity=(c.node_affinity_policy or HONOR) == HONOR,
            honor_taints=c.node_taints_policy == HONOR,
            path=f"{path}[{i}]",
        )
        for i, c in enumerate(constraints)
        if c.when_unsatisfiable == action
    ]


def _with_label_keys(constraint: TopologySpreadConstraint, pod_class: PodClass) -> Selector:
    selector = parse_label_selector(constraint.label_selector)
    if selector.nothing:
        return selector
    labels = pod_class.labels
    keys = [key for key in constraint.match_label_keys or () if key in labels]
    return selector.also(Requirement(key, "In", frozenset((labels[key],))) for key in keys)


class _Spread:
    """One constraint with its counts."""

    def __init__(
        self, cluster: Cluster, pod_class: PodClass, constraint: Constraint, keys: Iterable[str]
    ) -> None:
        self.constraint = constraint
        self.column: LabelColumn = cluster.nodes.column(constraint.topology_key)
        self._cluster, self._pod_class, self._keys = cluster, pod_class, tuple(keys)
        self.term: Term = cluster.index.term(constraint.selector, frozenset((pod_class.namespace,)))
        self.matches_self = constraint.selector.matches(pod_class.labels)
        self.eligible: BoolArray = np.zeros(cluster.nodes.capacity, dtype=np.bool_)
        self.eligible[: cluster.nodes.count] = self.eligibility(cluster.nodes.every_slot)
        self.counter = Counter(self.column, self.column.capacity, eligible=self.eligible, living_only=True)

    def eligibility(self, slots: Slots) -> BoolArray:
        eligible = self.constraint.includes(self._pod_class, self._cluster, slots)
        for key in self._keys:
            eligible &= self._cluster.nodes.column(key).ids[slots] > 0
        return eligible

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


class _HardSpread(_Spread):
    """A constraint that refuses nodes, with the domains that count for its minimum."""

    def __init__(
        self, cluster: Cluster, pod_class: PodClass, constraint: Constraint, keys: Iterable[str]
    ) -> None:
        super().__init__(cluster, pod_class, constraint, keys)
        domains = self.column.ids[np.flatnonzero(self.eligible)]
        self.nodes_in: Int32Array = np.bincount(domains, minlength=self.column.capacity).astype(np.int32)
        self._absent: Int32Array = np.where(self.nodes_in > 0, np.int32(0), _ABSENT).astype(np.int32)
        self.domains = int((self.nodes_in > 0).sum())
        self.projection = Projection(cluster.nodes, self.column)
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
        return int((self.counter.counts + self._absent).min())

    @property
    def most_allowed(self) -> int:
        """The highest count a domain may have before the pod comes."""
        return self.constraint.max_skew + self.minimum - self.matches_self

    def blocked(self) -> Int32Array:
        full = self.counter.counts > self.most_allowed
        full[0] = True
        return self.projection.of(blocked_where(full))


class _SoftSpread(_Spread):
    """A constraint that ranks nodes. Pods are counted per node where the topology is the node itself."""

    def __init__(
        self,
        cluster: Cluster,
        pod_class: PodClass,
        constraint: Constraint,
        keys: Iterable[str],
        *,
        all_nodes: bool,
    ) -> None:
        super().__init__(cluster, pod_class, constraint, keys)
        self.per_node = constraint.topology_key == HOSTNAME
        self.feasible_domains = FeasibleDomains(cluster.nodes, self.column)
        self.projection = Projection(cluster.nodes, self.column)
        self.counter.unlabelled = all_nodes
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
        return int(found.sum()) - int(empty > 0 and found[empty] and found[0])


class PodTopologySpread(TopologyRule):
    name = "PodTopologySpread"

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        stated = pod_class.spread_constraints
        if stated:
            hard, soft = (read_constraints(stated, pod_class, action) for action in (HARD, SOFT))
        else:
            hard, soft = self._default_constraints()
        # System defaults also rank nodes that lack a key; every other constraint wants all of them.
        self._wants_all_keys = bool(stated) or not cluster.options.system_defaulted
        hard_keys = {c.topology_key for c in hard}
        soft_keys = {c.topology_key for c in soft} if self._wants_all_keys else set[str]()
        self.hard = [_HardSpread(cluster, pod_class, c, hard_keys) for c in hard]
        all_nodes = not self._wants_all_keys
        self.soft = [_SoftSpread(cluster, pod_class, c, soft_keys, all_nodes=all_nodes) for c in soft]
        self._soft_keys = soft_keys
        self.filters, self.scores = bool(hard), bool(soft)
        self.prefilter = PROCEED if hard else SKIPPED
        self.prescore = PROCEED if soft else SKIPPED
        self._considered: WeakSet[PodClass] = WeakSet()
        self._watch()

    def _default_constraints(self) -> tuple[list[Constraint], list[Constraint]]:
        defaults = self.cluster.options.spread_defaults
        if not defaults:
            return [], []
        selector = self.cluster.owners.default_selector(self.pod_class)
        if selector.everything:
            return [], []
        path = "defaultConstraints"
        return (
            read_constraints(defaults, self.pod_class, HARD, selector, path),
            read_constraints(defaults, self.pod_class, SOFT, selector, path),
        )

    # --- counting ---------------------------------------------------------------

    @property
    def _spreads(self) -> Sequence[_Spread]:
        return (*self.hard, *self.soft)

    def _watch(self) -> None:
        for spread in self._spreads:
            spread.term.watchers[self] = None
            for selected in spread.term.selected:
                for pod_class in selected.classes:
                    self.consider(pod_class)
        for spread in self._spreads:
            self.cluster.recount(spread.counter)

    def consider(self, pod_class: PodClass) -> None:
        if pod_class not in self._considered:
            self._considered.add(pod_class)
            for spread in self._spreads:
                spread.consider(pod_class)

    def release(self) -> None:
        for spread in self._spreads:
            spread.term.watchers.pop(self, None)
            spread.release()

    def node_leaves(self, slot: int) -> None:
        for spread in self._spreads:
            spread.node_leaves(slot)

    def node_joins(self, slot: int) -> None:
        for spread in self._spreads:
            spread.node_joins(slot)

    # --- feasible ---------------------------------------------------------------

    def block(self, out: Int32Array) -> None:
        for spread in self.hard:
            out += spread.blocked()

    # --- score ------------------------------------------------------------------

    def _ignored(self, count: int) -> Int32Array | None:
        """BLOCKED for nodes that lack a key and are not ranked, None if there are none."""
        lacking: BoolArray | None = None
        for key in self._soft_keys:
            column = self.nodes.column(key)
            if column.identity:
                continue
            absent = column.ids[:count] == 0
            lacking = absent if lacking is None else lacking | absent
        if lacking is None or not lacking.any():
            return None
        return blocked_where(lacking)

    def raw_scores(self, blocked: Int32Array) -> IntArray:
        ignored = self._ignored(len(blocked))
        ranked = blocked if ignored is None else blocked + ignored
        scores = self._scores(ranked)
        if ignored is not None:
            scores[ignored > 0] = 0
        return scores

    def normalized_at(self, raw: Int64Array, slots: IndexArray) -> Int64Array:
        ignored = self._ignored(self.nodes.count)
        if ignored is None:
            return _invert(raw)
        out = ignored[slots] > 0
        result = np.zeros(len(raw), dtype=np.int64)
        if not out.all():
            result[~out] = _invert(raw[~out])
        return result

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        if not self.soft:
            return None
        ignored = self._ignored(len(blocked))
        ranked = blocked if ignored is None else blocked + ignored
        if len(self.soft) == 1 and self._wants_all_keys and not self.soft[0].per_node:
            return self._weighted_by_domain(self.soft[0], ranked, weight)
        raw = self._scores(ranked)
        high, low = int((raw - ranked).max()), int((raw + ranked).min())
        if high < 0:
            return None  # every feasible node is ignored
        table = (weight * _invert_table(low, high)).astype(np.int32)
        scores = table.take(raw - np.int32(low), mode="clip")
        if ignored is not None:
            scores[ignored > 0] = 0
        return scores

    def _weighted_by_domain(self, spread: _SoftSpread, ranked: Int32Array, weight: int) -> Int32Array | None:
        """The common case of one constraint: score its few domains, then look the nodes' up."""
        present = spread.feasible_domains.of(ranked)
        if not present.any():
            return None
        raw = _round(spread.score_table(spread.size(ranked)))
        low, high = int(raw[present].min()), int(raw[present].max())
        table = (weight * _inverted(raw, low, high)).astype(np.int32)
        table[0] = 0
        return spread.projection.of(table)

    def _scores(self, ranked: Int32Array) -> Int32Array:
        """The weighted number of matching pods in each node's domains; less is better."""
        count = len(ranked)
        total: FloatArray | None = None
        for spread in self.soft:
            size = int(np.count_nonzero(ranked == 0)) if spread.per_node else spread.size(ranked)
            table = spread.score_table(size)
            if spread.per_node:
                score = table[1 : count + 1]
                if not self._wants_all_keys and not spread.column.identity:
                    score = np.where(spread.column.ids[:count] > 0, score, 0.0)
            else:
                table[0] = 0.0  # without the label the constraint says nothing about the node
                score = spread_over_nodes(table, spread.column, count)
            total = score.copy() if total is None else total + score
        if total is None:
            return np.zeros(count, dtype=np.int32)
        return _round(total)

    # --- explain ----------------------------------------------------------------

    def reject(self, slot: int) -> Rejection | None:
        for spread in self.hard:
            key = spread.constraint.topology_key
            domain = int(spread.column.ids[slot])
            if not domain:
                return Rejection(
                    self.name, UNRESOLVABLE, (REASON_NO_LABEL,), (f"the node has no label {key}",)
                )
            have = int(spread.counter.counts[domain])
            if have > spread.most_allowed:
                skew = have + spread.matches_self - spread.minimum
                cause = (
                    f"{key}={spread.column.values[domain]} has {have} matching pod(s), the emptiest domain "
                    f"{spread.minimum}: skew would be {skew}, maxSkew is {spread.constraint.max_skew}"
                )
                return Rejection(self.name, UNSCHEDULABLE, (REASON_SKEW,), (cause,))
        return None


def _invert(raw: Int64Array) -> Int64Array:
    """Fewest pods -> most points, relative to the highest raw score."""
    low, high = int(raw.min()), int(raw.max(initial=0))
    return _invert_table(low, high)[raw - low]


def _invert_table(low: int, high: int) -> Int64Array:
    return _inverted(np.arange(low, max(high, low) + 1, dtype=np.int64), low, high)


def _inverted(raw: IntArray, low: int, high: int) -> Int64Array:
    if high <= 0:
        return np.full(len(raw), MAX_SCORE, dtype=np.int64)
    return MAX_SCORE * (high + low - raw.astype(np.int64)) // high


def _round(scores: FloatArray) -> Int32Array:
    """To the nearest integer, halves up (scores are never negative)."""
    whole = np.floor(scores)
    whole += (scores - whole) >= 0.5
    return whole.astype(np.int32)
