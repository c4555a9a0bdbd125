"""The rules compiled for one pod class, with their answers cached over all nodes.

Replicas share a plan.  Between two placements the rules that look at single nodes are asked again
about those that changed (`NodeAnswers`); the rules about other pods turn their counts into vectors.
Then the choice is one argmax.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from berth.engine.rules import NODE_RULES, TOPOLOGY_RULES, compiled, in_order
from berth.engine.rules.base import MAX_SCORE, NodeRule, Rule, TopologyRule, scale_table
from berth.engine.rules.verdicts import ERROR
from berth.engine.state.classes import ChangeLog
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BLOCKED, EMPTY, IndexArray, Int32Array, Slots
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass

# --- what the pods on each node leave for a pod with given requests -------------------------------
# The rules about resources and host ports depend on nothing but those requests, so all classes
# that ask for the same amounts share one cached answer: when pods of fifty apps are placed in
# turn, each placement asks about the one node the last one changed.

# Past this share of changed nodes asking everyone is cheaper than asking a list.
_FULL_REFRESH_SHARE = 0.25
# Up to so many, asking about one node after the other is cheaper than making a list.
_ONE_BY_ONE = 8


class Reader:
    """Follows a change log and says which nodes to ask again."""

    __slots__ = ("_log", "_nodes", "_seen")

    def __init__(self, cluster: Cluster, log: ChangeLog) -> None:
        self._nodes = cluster.nodes
        self._log = log
        self._seen = -1

    @property
    def behind(self) -> bool:
        """Whether anything changed since the last call of `changed`."""
        return self._seen != self._log.end

    def changed(self) -> list[int] | None:
        """The slots changed since the last call; None stands for all."""
        slots = self._log.since(self._seen)
        self._seen = self._log.end
        if slots is None or len(slots) > self._nodes.count * _FULL_REFRESH_SHARE:
            return None
        return slots


class Usage:
    """Feasibility and score of every node for given requests, as of the last `refresh`.

    Attributes:
        blocked: 0 where the requests fit, BLOCKED elsewhere.
        version: Grows when that changes.
        base: The weighted scores that need no normalization.
    """

    def __init__(self, cluster: Cluster, rules: Sequence[NodeRule], weights: Mapping[str, int]) -> None:
        self._filters = [rule for rule in rules if rule.filters]
        self._scores = [(rule, weights[rule.name]) for rule in rules if rule.scores and rule.name in weights]
        self._changes = Reader(cluster, cluster.usage)
        self._nodes = cluster.nodes
        capacity = cluster.nodes.capacity
        self.blocked: Int32Array = np.full(capacity, BLOCKED, dtype=np.int32)
        self.base: Int32Array = np.zeros(capacity, dtype=np.int32)
        self.version = 0

    def refresh(self) -> None:
        """Ask again about the nodes that changed."""
        if not self._changes.behind:
            return
        slots = self._changes.changed()
        if slots is None:
            self._ask(self._nodes.every_slot)
        elif len(slots) <= _ONE_BY_ONE:
            for slot in set(slots):
                self._ask_one(slot)
        else:
            self._ask(np.array(slots, dtype=np.intp))

    def _ask_one(self, slot: int) -> None:
        blocked = score = 0
        for rule in self._filters:
            if not rule.feasible_at(slot):
                blocked = BLOCKED
                break
        if self.blocked.item(slot) != blocked:
            self.blocked[slot] = blocked
            self.version += 1
        for rule, weight in self._scores:
            score += weight * rule.raw_at(slot)
        self.base[slot] = score

    def _ask(self, slots: Slots) -> None:
        self.version += 1
        feasible = None
        for rule in self._filters:
            passes = rule.feasible(slots)
            feasible = passes if feasible is None else feasible & passes
        self.blocked[slots] = 0 if feasible is None else np.multiply(~feasible, BLOCKED, dtype=np.int32)
        total = None
        for rule, weight in self._scores:
            scores = rule.raw(slots) if weight == 1 else weight * rule.raw(slots)
            total = scores if total is None else total + scores
        if total is not None:
            self.base[slots] = total


def usage_key(pod_class: PodClass) -> Hashable:
    """Equal for classes that can share a `Usage`."""
    requests = pod_class.requests
    return (
        pod_class.profile,
        frozenset(requests.plain.items()),
        requests.scored,
        frozenset(requests.scored_otherwise.items()),
        pod_class.host_ports,
    )


# --- answers for one node -------------------------------------------------------------------------
# They look at a pod's requests, node selectors, tolerations and images, never at its labels or at other
# pods.  So the classes that ask the same of a node share the answers: of two thousand pods that differ in
# their labels and in the pods they want beside them, the first pays for asking five thousand nodes.

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

    @property
    def level(self) -> int:
        """The score of every node, weighted, while it does not vary."""
        return self.weight * MAX_SCORE if self.reverse else 0

    def weighted(self, blocked: Int32Array) -> Int32Array:
        count = len(blocked)
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
        version: Grows when that may have changed.
        base, adds: The weighted scores that need no normalization, and whether there are any.
        varying: Those that do, as far as they vary; `level` is what all nodes have of the others.
        error: Why such pods cannot be scored.
    """

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        options = pod_class.options
        self._nodes = cluster.nodes
        self.rules: list[NodeRule] = compiled(NODE_RULES, cluster, pod_class)
        capacity, weights = cluster.nodes.capacity, options.weights
        of_pods = [rule for rule in self.rules if not rule.static]
        self.usage = cluster.plans.share(
            usage_key(pod_class), Usage, lambda: Usage(cluster, of_pods, weights)
        )
        self._filters = [r for r in self.rules if r.filters and r.static]
        scoring = [r for r in self.rules if r.scores and r.name in weights]
        self._scores = [(r, weights[r.name]) for r in scoring if r.static and not r.scaling]
        self._scaled = [
            ScaledScore(r, weights[r.name], r.less_is_better, np.zeros(capacity, dtype=np.int32))
            for r in scoring
            if r.scaling
        ]
        self.blocked: Int32Array = np.full(capacity, BLOCKED, dtype=np.int32)
        self.base: Int32Array = np.zeros(capacity, dtype=np.int32)
        self.varying: list[ScaledScore] = []
        self.blocks = self.adds = False
        self.level = self.version = 0
        self._changes = Reader(cluster, cluster.node_changes)
        self.error = self._prescore_error(options)

    def _prescore_error(self, options: Options) -> str | None:
        for rule in in_order(self.rules, options.version):
            if rule.prescore and rule.prescore.code == ERROR and rule.name in options.weights:
                return f'running PreScore plugin "{rule.name}": {rule.prescore.reasons[0]}'
        return None

    def refresh(self) -> None:
        """Ask again about the nodes that changed."""
        self.usage.refresh()
        if self._changes.behind:
            changed = self._changes.changed()
            self._ask(self._nodes.every_slot if changed is None else np.array(changed, dtype=np.intp))

    def _ask(self, slots: Slots) -> None:
        self.version += 1
        feasible = self._nodes.alive[slots].copy()
        for rule in self._filters:
            feasible &= rule.feasible(slots)
        self.blocked[slots] = np.where(feasible, 0, BLOCKED)
        self.blocks = bool(self.blocked[: self._nodes.count].any())
        for scaled in self._scaled:
            scaled.ask(slots)
        self.varying = [scaled for scaled in self._scaled if scaled.varies]
        self.level = sum(scaled.level for scaled in self._scaled if not scaled.varies)
        if self._scores:
            # An image is worth more the more nodes have it, so one node's change concerns all.
            every = self._nodes.every_slot
            self.base[every] = sum(weight * rule.raw(every) for rule, weight in self._scores)
            self.adds = bool(self.base.any())


def node_answers(cluster: Cluster, pod_class: PodClass) -> NodeAnswers:
    """Those of a class, shared where another class asks the same of a node."""
    if pod_class.claims or pod_class.device_claims:
        return NodeAnswers(cluster, pod_class)
    return cluster.plans.share(pod_class.node_key, NodeAnswers, lambda: NodeAnswers(cluster, pod_class))


# --- the plan -------------------------------------------------------------------------------------

# Plans kept at a time; the one used longest ago is dropped first. A plan holds about ten 32-bit
# columns over all nodes, and together they may take a gibibyte.
_MOST_PLANS, _FEWEST_PLANS = 2048, 64
_PLAN_BYTES_PER_NODE = 44
_PLANS_BYTES = 1 << 30


class SchedulingError(Exception):
    """A scheduling attempt that ends in an error rather than a verdict, as upstream's does."""


class Plan:
    """How to place the pods of one class; the `answers` for single nodes are shared."""

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        self.cluster = cluster
        self.pod_class = pod_class
        self.answers = node_answers(cluster, pod_class)
        self.node_rules: Sequence[NodeRule] = self.answers.rules
        self.topology_rules: list[TopologyRule] = compiled(TOPOLOGY_RULES, cluster, pod_class)
        idle, weights = pod_class.options.not_filtering, pod_class.options.weights
        self._filtering = [rule for rule in self.topology_rules if rule.name not in idle]
        self._scoring = [(rule, weights[rule.name]) for rule in self.topology_rules if rule.name in weights]
        self._state: tuple[int, ...] = ()
        self._parts: list[Int32Array] = []
        self._blocked = self._memory = EMPTY
        self.error = self.answers.error  # rules about other pods always can score

    @property
    def rules(self) -> list[Rule]:
        """All rules in upstream's order."""
        return in_order((*self.node_rules, *self.topology_rules), self.pod_class.options.version)

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
        """0 for feasible nodes, BLOCKED for others; read only, and the same object while it is the same."""
        answers = self.answers
        answers.refresh()
        count = self.cluster.nodes.count
        parts: list[Int32Array] = []
        for rule in self._filtering:
            parts += rule.blocked()
        state = answers.version, answers.usage.version, count, len(parts)
        if state != self._state or any(map(operator.is_not, parts, self._parts)):
            self._blocked = self._combined(answers.usage.blocked[:count], parts)
            self._blocked.flags.writeable = False
            self._state, self._parts = state, parts
        return self._blocked

    def _combined(self, blocked: Int32Array, parts: Sequence[Int32Array]) -> Int32Array:
        """All of it, as an object that is new."""
        if self.answers.blocks:
            parts = [self.answers.blocked[: len(blocked)], *parts]
        if not parts:
            return blocked
        if len(self._memory) != len(blocked):
            self._memory = np.empty(len(blocked), dtype=np.int32)
        np.bitwise_or(blocked, parts[0], out=self._memory)
        for part in parts[1:]:
            np.bitwise_or(self._memory, part, out=self._memory)
        return self._memory[:]

    def totals(self, blocked: Int32Array) -> Int32Array:
        """The weighted total of every node; meaningful for feasible nodes only."""
        constant, parts = self._scores(blocked)
        total: Int32Array = parts[0] + np.int32(constant)
        for part in parts[1:]:
            total += part
        return total

    def _scores(self, blocked: Int32Array) -> tuple[int, list[Int32Array]]:
        """What every node's total is the sum of: a number for all, and vectors."""
        count = len(blocked)
        answers = self.answers
        parts = [answers.usage.base[:count]]
        if answers.adds:
            parts.append(answers.base[:count])
        if answers.varying:
            parts += [scaled.weighted(blocked) for scaled in answers.varying]
        for rule, weight in self._scoring:
            scores = rule.weighted(blocked, weight)
            if scores is not None:
                parts.append(scores)
        return answers.level, parts

    def choose(self, also: Int32Array | None = None) -> int | None:
        """The best node's slot, None if no node is feasible."""
        best = self.best(also=also)
        return None if best is None else best[0]

    def best(
        self, rng: np.random.Generator | None = None, also: Int32Array | None = None
    ) -> tuple[int, int] | None:
        """Slot and weighted total of the node to take, None if no node is feasible.

        Ties go to the node that came first, or are drawn with `rng`; nodes that are not 0 in `also`
        are refused as well.
        """
        if not self.cluster.nodes.live:
            return None
        blocked = self.blocked()
        if also is not None:
            blocked = blocked | also
        constant, parts = self._scores(blocked)
        value = np.subtract(parts[0], blocked, out=self.cluster.plans.scratch(len(blocked)))
        for part in parts[1:]:
            value += part
        best = int(value.argmax())
        highest = value.item(best)
        if highest < 0:
            return None
        if self.error is not None:
            raise SchedulingError(self.error)
        nodes = self.cluster.nodes
        if rng is not None or not nodes.in_order:
            ties: IndexArray = np.flatnonzero(value == highest)
            best = int(ties[nodes.arrival[ties].argmin()] if rng is None else rng.choice(ties))
        return best, highest + constant

    def best_nodes(self) -> IndexArray:
        """The slots of all nodes that are as good as the best one, those that came first in front."""
        best = self.best()
        if best is None:
            return np.zeros(0, dtype=np.intp)
        blocked = self.blocked()
        return self.cluster.nodes.by_arrival(np.flatnonzero(self.totals(blocked) - blocked == best[1]))


def time_rules(plan: Plan, timer: Callable[[], float], observe: Callable[[str, str, float], None]) -> None:
    """Run every rule over all nodes and tell how long each took to filter and to score.

    Placing asks most rules about single nodes only, so this is an upper bound of what they cost.
    """
    blocked = plan.blocked()
    every = plan.cluster.nodes.every_slot
    weights = plan.pod_class.options.weights
    for rule in plan.rules:
        started = timer()
        if rule.filters:
            rule.feasible(every)
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
