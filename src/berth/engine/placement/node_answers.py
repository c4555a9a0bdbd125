"""What the rules about single nodes say of every node, asked again only where a node changed.

They look at a pod's requests, node selectors, tolerations and images, never at its labels or at other
pods.  So the classes that ask the same of a node share the answers: of two thousand pods that differ in
their labels and in the pods they want beside them, the first pays for asking five thousand nodes.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from berth.engine.placement.usage import Reader, Usage, usage_key
from berth.engine.rules import NODE_RULES
from berth.engine.rules.base import NodeRule, scale_table
from berth.engine.state.arrays import BLOCKED, Int32Array, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.identity import node_key
from berth.engine.state.pod_class import PodClass

_MOST_SCALES = 8  # kept of one rule


@dataclass(slots=True)
class ScaledScore:
    """A per-node score that is relative to the highest among the feasible nodes."""

    rule: NodeRule
    weight: int
    reverse: bool
    raw: Int32Array
    varies: bool = False
    by_top: dict[int, Int32Array] = field(default_factory=dict)

    def ask(self, slots: Slots) -> None:
        self.raw[slots] = self.rule.raw(slots)
        self.varies = bool(self.raw.any())
        self.by_top.clear()

    def weighted(self, blocked: Int32Array) -> Int32Array | int:
        count = len(blocked)
        if not self.varies:
            return self.weight * int(scale_table(0, reverse=self.reverse)[0])
        top = max(int((self.raw[:count] - blocked).max()), 0)
        scores = self.by_top.get(top)
        if scores is None:
            if len(self.by_top) >= _MOST_SCALES:
                self.by_top.clear()
            table = (self.weight * scale_table(top, reverse=self.reverse)).astype(np.int32)
            scores = self.by_top[top] = table.take(self.raw, mode="clip")
        return scores[:count]


class NodeAnswers:
    """Feasibility and score of every node by itself, as of the last `refresh`.

    Attributes:
        rules: The rules about single nodes that concern the pods.
        usage: What the pods on each node leave.
        blocked, blocks: BLOCKED where a node is refused whatever runs on it, and whether any is.
        base, adds: The weighted scores that need no normalization, and whether there are any.
        scaled: Those that do.
    """

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        options = pod_class.options
        self._nodes = cluster.nodes
        self.rules: list[NodeRule] = [
            rule(cluster, pod_class)
            for rule in NODE_RULES
            if rule.name not in options.disabled and rule.concerns(cluster, pod_class)
        ]
        for rule in self.rules:
            if rule.name in options.not_filtering:
                rule.stop_filtering()
        self.usage = self._shared_usage(cluster, pod_class)
        capacity, weights = cluster.nodes.capacity, options.weights
        self._filters = [r for r in self.rules if r.filters and r.static]
        scoring = [r for r in self.rules if r.scores and r.name in weights]
        self._scores = [(r, weights[r.name]) for r in scoring if r.static and not r.scaling]
        self.scaled = [
            ScaledScore(r, weights[r.name], r.less_is_better, np.zeros(capacity, dtype=np.int32))
            for r in scoring
            if r.scaling
        ]
        self.blocked: Int32Array = np.full(capacity, BLOCKED, dtype=np.int32)
        self.base: Int32Array = np.zeros(capacity, dtype=np.int32)
        self.blocks = self.adds = False
        self._changes = Reader(cluster, cluster.node_changes)

    def _shared_usage(self, cluster: Cluster, pod_class: PodClass) -> Usage:
        shared = cluster.plans.shared
        key = usage_key(pod_class)
        usage = shared.get(key)
        if not isinstance(usage, Usage):
            rules = [rule for rule in self.rules if not rule.static]
            usage = shared[key] = Usage(cluster, rules, pod_class.options.weights)
        return usage

    def refresh(self) -> None:
        """Ask again about the nodes that changed."""
        self.usage.refresh()
        slots = self._changes.changed()
        if slots is None:
            return
        feasible = self._nodes.alive[slots].copy()
        for rule in self._filters:
            feasible &= rule.feasible(slots)
        self.blocked[slots] = np.where(feasible, 0, BLOCKED)
        self.blocks = bool(self.blocked[: self._nodes.count].any())
        for scaled in self.scaled:
            scaled.ask(slots)
        if self._scores:
            # An image is worth more the more nodes have it, so one node's change concerns all.
            every = self._nodes.every_slot
            self.base[every] = sum(weight * rule.raw(every) for rule, weight in self._scores)
            self.adds = bool(self.base.any())


def node_answers(cluster: Cluster, pod_class: PodClass) -> NodeAnswers:
    """Those of a class, shared where another class asks the same of a node."""
    if pod_class.claims or pod_class.device_claims:
        return NodeAnswers(cluster, pod_class)
    key: Hashable = (pod_class.profile, pod_class.node_name, node_key(pod_class.pod))
    found = cluster.plans.shared.get(key)
    if not isinstance(found, NodeAnswers):
        found = cluster.plans.shared[key] = NodeAnswers(cluster, pod_class)
    return found
