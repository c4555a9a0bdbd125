"""Topology spread: keep the pods of a group even over domains.

A hard constraint refuses nodes whose domain would end up more than `maxSkew` above the emptiest
one; a soft constraint prefers emptier domains.  See the topology-spread design document.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from weakref import WeakSet

import numpy as np

from berth.engine.rules.base import MAX_SCORE, TopologyRule
from berth.engine.rules.changes import Question, level
from berth.engine.rules.pod_topology_spread import relax
from berth.engine.rules.pod_topology_spread.constraints import (
    CountedConstraint,
    HardConstraint,
    SoftConstraint,
)
from berth.engine.rules.vectors import blocked_where, spread_over_nodes
from berth.engine.rules.verdicts import PROCEED, SKIPPED, Cause, ConstraintCounts, Reason, SharedVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import (
    OF_NODES,
    OF_PODS,
    ClusterEvent,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    OwnersChanged,
    PodAdded,
    PodDeleted,
)
from berth.engine.state.columns import BoolArray, FloatArray, IndexArray, Int32Array, Int64Array, IntArray
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.pod_class import PodClass
from berth.engine.state.spread_constraints import read_constraints
from berth.kube.objects import TopologySpreadConstraint
from berth.kube.selectors import Selector
from berth.kube.well_known import DO_NOT_SCHEDULE, HOSTNAME, SCHEDULE_ANYWAY

SKEW = Reason(
    "SpreadSkewExceeded",
    "node(s) didn't match pod topology spread constraints",
    "{key}={domain} has {have} matching pod(s), the emptiest domain {emptiest}: "
    "skew would be {skew}, maxSkew is {maxSkew}",
    varies=("domain", "have", "emptiest", "skew"),
    waits_for="pods matching {selector} to come to the emptiest {level}, or to leave a fuller one",
    events=(PodAdded, PodDeleted, NodeAdded),
    resolvable=True,
)
# The same while there are fewer domains than minDomains: then pods that come anywhere do not help.
FEW_DOMAINS = replace(
    SKEW,
    code="SpreadTooFewDomains",
    form="{key}={domain} has {have} matching pod(s), and the minimum counts as {emptiest} while there are "
    "{domains} of {minDomains} domains: skew would be {skew}, maxSkew is {maxSkew}",
    waits_for="{another}, or pods matching {selector} to leave",
    events=(PodDeleted, NodeAdded, NodeUpdated),
)
NO_LABEL = Reason(
    "SpreadLabelMissing",
    "node(s) didn't match pod topology spread constraints (missing required label)",
    "the node has no label {key}",
    waits_for="a node with the label {key}",
    events=(NodeAdded, NodeUpdated),
)


class PodTopologySpread(TopologyRule):
    name = "PodTopologySpread"
    reasons = (SKEW, FEW_DOMAINS, NO_LABEL)
    log_keyword = "spreadConstraint"
    relax_rank = 1
    helpers = (PodDeleted, PodAdded, NodeAdded, NodeUpdated, NodeDeleted, OwnersChanged)
    relaxations = staticmethod(relax.relaxations)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        options, stated = pod_class.options, pod_class.spread_constraints
        constraints: Sequence[TopologySpreadConstraint] = stated or options.spread_defaults
        selector, path = None, "spec.topologySpreadConstraints"
        if not options.gates.even_pods_spread:
            constraints = ()
        elif constraints and not stated:
            selector, path = cluster.owners.default_selector(pod_class), "defaultConstraints"
            constraints = () if selector.everything else constraints
        # System defaults also rank nodes that lack a key; every other constraint wants all of them.
        self._wants_all_keys = bool(stated) or not options.system_defaulted
        self.hard: list[HardConstraint] = []
        self.soft: list[SoftConstraint] = []
        self._soft_keys: set[str] = set()
        self._considered: WeakSet[PodClass] = WeakSet()
        self._found_ignored: Int32Array | None = None
        self._nodes_version = -1
        if constraints:
            self._read(constraints, selector, path)
            self._watch()
        self.filters, self.scores = bool(self.hard), bool(self.soft)
        self.prefilter = PROCEED if self.hard else SKIPPED
        self.prescore = PROCEED if self.soft else SKIPPED

    def _read(
        self, constraints: Sequence[TopologySpreadConstraint], selector: Selector | None, path: str
    ) -> None:
        cluster, pod_class = self.cluster, self.pod_class
        hard = read_constraints(constraints, pod_class, DO_NOT_SCHEDULE, selector, path)
        soft = read_constraints(constraints, pod_class, SCHEDULE_ANYWAY, selector, path)
        hard_keys = {c.topology_key for c in hard}
        if self._wants_all_keys:
            self._soft_keys = {c.topology_key for c in soft}
        self.hard = [HardConstraint(cluster, pod_class, c, hard_keys) for c in hard]
        self.soft = [SoftConstraint(cluster, pod_class, c, self._soft_keys) for c in soft]

    @classmethod
    def may_refuse(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        constraints = pod_class.spread_constraints or pod_class.options.spread_defaults
        return any(constraint.when_unsatisfiable == DO_NOT_SCHEDULE for constraint in constraints)

    def clues(self, question: Question) -> Iterable[str]:
        return relax.clues(self.name, question, self.hard)

    # --- counting ---------------------------------------------------------------

    @property
    def _spreads(self) -> Sequence[CountedConstraint]:
        return (*self.hard, *self.soft)

    def _watch(self) -> None:
        for spread in self._spreads:
            spread.term.watch(self)
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

    def blocked(self) -> Sequence[Int32Array]:
        return [spread.blocked() for spread in self.hard] if self.hard else ()

    def surroundings(self) -> Sequence[IntArray]:
        return [spread.excess() for spread in self.hard]

    def bars(self, slot: int) -> bool:
        return any(spread.bars(slot) for spread in self.hard)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, OF_PODS):
            return not change.pod_class.is_known or any(s.helped_by_pod(change) for s in self.hard)
        if isinstance(change, OF_NODES):
            return any(spread.helped_by_node(change) for spread in self.hard)
        return isinstance(change, OwnersChanged) and not self.pod_class.spread_constraints

    @classmethod
    def relies_on_peers(cls, pod_class: PodClass) -> bool:
        return any(c.when_unsatisfiable == DO_NOT_SCHEDULE for c in pod_class.spread_constraints)

    def constraint_counts(self) -> Iterable[ConstraintCounts]:
        return (spread.counted(self.name) for spread in self._spreads)

    # --- score ------------------------------------------------------------------

    def _ignored(self) -> Int32Array | None:
        """BLOCKED for nodes that lack a key and are not ranked, None if there are none."""
        if self._nodes_version != self.nodes.version:
            self._nodes_version = self.nodes.version
            columns = [self.nodes.column(key) for key in self._soft_keys]
            lacking = [column.ids[self.nodes.every_slot] == 0 for column in columns if not column.identity]
            ignored: BoolArray = np.any(lacking, axis=0)
            self._found_ignored = blocked_where(ignored) if ignored.any() else None
        return self._found_ignored

    def raw_scores(self, blocked: Int32Array) -> IntArray:
        ignored = self._ignored()
        ranked = blocked if ignored is None else blocked | ignored
        scores = self._scores(ranked)
        if ignored is not None:
            scores[ignored > 0] = 0
        return scores

    def normalized_at(self, raw: Int64Array, slots: IndexArray) -> Int64Array:
        ignored = self._ignored()
        ranked = np.ones(len(raw), dtype=np.bool_) if ignored is None else ignored[slots] == 0
        result = np.zeros(len(raw), dtype=np.int64)
        if ranked.any():
            counted = raw[ranked]
            result[ranked] = _inverted(counted, int(counted.min()), int(counted.max(initial=0)))
        return result

    def weighted(self, blocked: Int32Array, weight: int) -> Int32Array | None:
        if not self.soft:
            return None
        ignored = self._ignored()
        ranked = blocked if ignored is None else blocked | ignored
        if len(self.soft) == 1 and self._wants_all_keys and not self.soft[0].per_node:
            return self._weighted_by_domain(self.soft[0], ranked, weight)
        feasible = ranked == 0
        if not feasible.any():
            return None
        raw = self._scores(ranked)
        counted = raw[feasible]
        scores = (weight * _inverted(raw, int(counted.min()), int(counted.max()))).astype(np.int32)
        if ignored is not None:
            scores[ignored > 0] = 0
        return scores

    def _weighted_by_domain(
        self, spread: SoftConstraint, ranked: Int32Array, weight: int
    ) -> Int32Array | None:
        """The common case of one constraint: score its few domains, then look the nodes' up."""
        raw = _round(spread.score_table(spread.size(ranked)))
        present = raw[spread.feasible_domains.of(ranked)]
        if not len(present):
            return None
        low, high = int(np.minimum.reduce(present)), int(np.maximum.reduce(present))
        table = (weight * _inverted(raw, low, high)).astype(np.int32)
        table[0] = 0
        return spread.projection.of(table)

    def _scores(self, ranked: Int32Array) -> Int64Array:
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
            return np.zeros(count, dtype=np.int64)
        return _round(total)

    # --- explain ----------------------------------------------------------------

    def first_causes(self, slot: int) -> Iterator[Cause]:
        return islice(self.causes(slot), 1)

    def causes(self, slot: int) -> Iterator[Cause]:
        for spread in self.hard:
            key, path = spread.constraint.topology_key, spread.constraint.path
            domain = int(spread.column.ids[slot])
            if not domain:
                yield Cause(NO_LABEL, {"key": key}, path, topology=(key, ""))
                continue
            have = int(spread.counter.counts[domain])
            if have > spread.most_allowed:
                value = spread.column.values[domain] or ""
                values = {
                    "key": key,
                    "level": level(key),
                    "domain": value,
                    "have": f"{have}",
                    "emptiest": f"{spread.minimum}",
                    "skew": f"{have + spread.matches_self - spread.minimum}",
                    "maxSkew": f"{spread.constraint.max_skew}",
                    "selector": str(spread.term.selector),
                }
                reason, wanted = SKEW, spread.constraint.min_domains
                if 0 < spread.domains < wanted:
                    another = "another node" if key == HOSTNAME else f"a node in another {level(key)}"
                    reason = FEW_DOMAINS
                    values |= {"domains": f"{spread.domains}", "minDomains": f"{wanted}", "another": another}
                yield Cause(reason, values, path, topology=(key, value))

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
        for spread in self.hard:
            unlabelled = spread.column.ids[slots] == 0
            yield SharedVerdict.of(slots[unlabelled], NO_LABEL)
            slots = slots[~unlabelled]
            exceeded = spread.exceeded(slots, gone)
            yield SharedVerdict.of(slots[exceeded], SKEW)
            slots = slots[~exceeded]


def _inverted(raw: IntArray, low: int, high: int) -> Int64Array:
    """Fewest pods -> most points, relative to the highest raw score."""
    if high <= 0:
        return np.full(len(raw), MAX_SCORE, dtype=np.int64)
    return MAX_SCORE * (high + low - raw.astype(np.int64, copy=False)) // high


def _round(scores: FloatArray) -> Int64Array:
    """To the nearest integer, halves up (scores are never negative)."""
    whole = np.floor(scores)
    whole += (scores - whole) >= 0.5
    return whole.astype(np.int64)
