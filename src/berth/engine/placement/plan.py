"""The rules compiled for one pod class, with their answers cached over all nodes.

Replicas share a plan.  Between two placements the rules that look at single nodes are asked again
about those that changed (`node_answers`); the rules about other pods turn their counts into vectors.
Then the choice is one argmax.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from berth.engine.placement.node_answers import node_answers
from berth.engine.rules import TOPOLOGY_RULES, in_order
from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.verdicts import ERROR
from berth.engine.state.arrays import IndexArray, Int32Array
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass

# Plans kept at a time; the one used longest ago is dropped first. A plan holds about ten 32-bit
# columns over all nodes, and together they may take a gibibyte.
_MOST_PLANS, _FEWEST_PLANS = 2048, 64
_PLAN_BYTES_PER_NODE = 40
_PLANS_BYTES = 1 << 30


class SchedulingError(Exception):
    """A scheduling attempt that ends in an error rather than a verdict, as upstream's does."""


class Plan:
    """How to place the pods of one class.

    Attributes:
        answers: What the rules about single nodes say, shared with classes that ask the same of a node.
    """

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self.cluster = cluster
        self.pod_class = pod_class
        options = pod_class.options
        self.answers = node_answers(cluster, pod_class)
        self.node_rules: Sequence[NodeRule] = self.answers.rules
        self.topology_rules: list[TopologyRule] = [
            rule(cluster, pod_class)
            for rule in TOPOLOGY_RULES
            if rule.name not in options.disabled and rule.concerns(cluster, pod_class)
        ]
        for rule in self.topology_rules:
            if rule.name in options.not_filtering:
                rule.stop_filtering()
        self.error = self._prescore_error()

    @property
    def rules(self) -> list[Rule]:
        """All rules in upstream's order."""
        return in_order((*self.node_rules, *self.topology_rules), self.pod_class.options.version)

    def _prescore_error(self) -> str | None:
        weights, version = self.pod_class.options.weights, self.pod_class.options.version
        everyone = (*self.node_rules, *self.topology_rules)
        failing = [r for r in everyone if r.prescore and r.prescore.code == ERROR and r.name in weights]
        for rule in in_order(failing, version):
            if rule.prescore:
                return f"PreScore {rule.name}: {rule.prescore.reasons[0]}"
        return None

    def release(self) -> None:
        for rule in self.topology_rules:
            rule.release()

    def node_leaves(self, slot: int) -> None:
        for rule in self.topology_rules:
            rule.node_leaves(slot)

    def node_joins(self, slot: int) -> None:
        for rule in self.topology_rules:
            rule.node_joins(slot)

    # --- choosing -----------------------------------------------------------------

    def blocked(self) -> Int32Array:
        """0 for every feasible node, positive for the others."""
        answers = self.answers
        answers.refresh()
        count = self.cluster.nodes.count
        blocked = answers.usage.blocked[:count]
        if answers.blocks:
            blocked = blocked | answers.blocked[:count]
        filters = [rule for rule in self.topology_rules if rule.filters]
        if filters:
            if not answers.blocks:
                blocked = blocked.copy()
            for rule in filters:
                rule.block(blocked)
        return blocked

    def totals(self, blocked: Int32Array) -> Int32Array:
        """The weighted total of every node; meaningful for feasible nodes only."""
        count = len(blocked)
        answers = self.answers
        total = answers.usage.base[:count]
        constant = 0
        parts = [answers.base[:count]] if answers.adds else []
        for scaled in answers.scaled:
            scores = scaled.weighted(blocked)
            if isinstance(scores, int):
                constant += scores
            else:
                parts.append(scores)
        weights = self.pod_class.options.weights
        scored = (r.weighted(blocked, weights[r.name]) for r in self.topology_rules if r.name in weights)
        parts.extend(scores for scores in scored if scores is not None)
        if constant:
            total = total + np.int32(constant)
        for part in parts:
            total = total + part
        return total

    def choose(self, rng: np.random.Generator | None = None, also: Int32Array | None = None) -> int | None:
        """The best node's slot, None if no node is feasible.

        Ties go to the node that came first, or are drawn with `rng`; nodes that are not 0 in `also`
        are refused as well.
        """
        return None if (best := self.best(rng, also)) is None else best[0]

    def best(
        self, rng: np.random.Generator | None = None, also: Int32Array | None = None
    ) -> tuple[int, int] | None:
        """Slot and weighted total of the node to take, None if no node is feasible."""
        if not self.cluster.nodes.live:
            return None
        blocked = self.blocked()
        if also is not None:
            blocked = blocked | also
        value = self.totals(blocked) - blocked
        best = int(value.argmax())
        if value[best] < 0:
            return None
        if self.error is not None:
            raise SchedulingError(self.error)
        nodes = self.cluster.nodes
        total = int(value[best])
        if rng is not None or not nodes.in_order:
            ties: IndexArray = np.flatnonzero(value == total)
            best = int(ties[nodes.arrival[ties].argmin()] if rng is None else rng.choice(ties))
        return best, total

    def best_nodes(self) -> IndexArray:
        """The slots of all nodes that are as good as the best one, those that came first in front."""
        best = self.best()
        if best is None:
            return np.zeros(0, dtype=np.intp)
        blocked = self.blocked()
        ties = np.flatnonzero(self.totals(blocked) - blocked == best[1])
        found: IndexArray = ties[np.argsort(self.cluster.nodes.arrival[ties], kind="stable")]
        return found


def time_rules(plan: Plan, timer: Callable[[], float], observe: Callable[[str, str, float], None]) -> None:
    """Run every rule over all nodes and tell how long each took to filter and to score.

    Placing asks most rules about single nodes only, so this is an upper bound of what they cost.
    """
    blocked = plan.blocked()
    every = plan.cluster.nodes.every_slot
    scratch = np.zeros(len(blocked), dtype=np.int32)
    weights = plan.pod_class.options.weights
    for rule in plan.rules:
        started = timer()
        if rule.filters:
            if isinstance(rule, NodeRule):
                rule.feasible(every)
            elif isinstance(rule, TopologyRule):
                rule.block(scratch)
            observe(rule.name, "Filter", timer() - started)
        started = timer()
        if rule.scores and rule.name in weights:
            if isinstance(rule, NodeRule):
                rule.raw(every)
            elif isinstance(rule, TopologyRule):
                rule.weighted(blocked, weights[rule.name])
            observe(rule.name, "Score", timer() - started)


def plans_kept(capacity: int) -> int:
    return min(_MOST_PLANS, max(_FEWEST_PLANS, _PLANS_BYTES // (_PLAN_BYTES_PER_NODE * capacity)))


def plan_for(cluster: Cluster, pod_class: PodClass) -> Plan:
    """The plan of a class, made if it has none."""
    pod_class = cluster.current(pod_class)
    plan = pod_class.plan
    if isinstance(plan, Plan):
        cluster.plans.used(pod_class)
    else:
        plan = Plan(cluster, pod_class)
        cluster.plans.keep(pod_class, plan, plans_kept(cluster.nodes.capacity))
    return plan
