"""Everything the rules say about one pod: every node, every rule, every score; and in one sentence.

The slow, complete counterpart of `Plan.choose`, from the same compiled rules: what `berth evaluate`
and `berth explain` show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from berth.engine.placement.plan import Plan
from berth.engine.rules import RULES
from berth.engine.rules.base import Rule
from berth.engine.rules.verdicts import ERROR, SKIP, SKIPPED, SUCCESS, RuleVerdict, SharedVerdict, StepStatus
from berth.engine.state.columns import IndexArray, Int64Array
from berth.engine.state.hypothetical_removal import HypotheticalRemoval, nobody

NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class Scores:
    """One rule's scores of the feasible nodes, in their order."""

    raw: Int64Array
    normalized: Int64Array
    weight: int


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The verdict on one pod.

    Attributes:
        nodes: Slots of all nodes, in order of arrival.
        feasible: Slots of the nodes that pass everything, in the same order.
        verdicts: Slot -> what refused the node, nodes without any left out.
        totals: Weighted totals of the feasible nodes.
        error: Set if the attempt ends in an error; there are no scores then.
    """

    nodes: IndexArray
    prefilter: dict[str, StepStatus]
    verdicts: dict[int, list[RuleVerdict]]
    feasible: IndexArray
    prescore: dict[str, StepStatus]
    scores: dict[str, Scores]
    totals: Int64Array
    error: str | None = None

    @property
    def best(self) -> IndexArray:
        """The feasible nodes with the highest total."""
        if not len(self.feasible) or self.error is not None:
            return self.feasible[:0]
        best: IndexArray = self.feasible[self.totals == self.totals.max()]
        return best


def evaluate(plan: Plan) -> Evaluation:
    nodes = plan.cluster.nodes
    order = nodes.by_arrival(np.flatnonzero(nodes.alive[: nodes.count]))
    prefilter = _prefilter(plan)
    verdicts = _verdicts(plan, order)
    refused = any(status.code not in (SUCCESS, SKIP) for status in prefilter.values())
    feasible = order[:0] if refused else order[[int(slot) not in verdicts for slot in order]]
    prescore, scores = _scores(plan, feasible) if len(feasible) else ({}, {})
    failed = (f"PreScore {name}: {s.reasons[0]}" for name, s in prescore.items() if s.code == ERROR)
    if error := next(failed, None):
        scores = {}
    totals = np.zeros(0 if error else len(feasible), dtype=np.int64)
    for score in scores.values():
        totals += score.weight * score.normalized
    return Evaluation(order, prefilter, verdicts, feasible, prescore, scores, totals, error)


def _prefilter(plan: Plan) -> dict[str, StepStatus]:
    idle = plan.pod_class.options.idle
    skipped = {rule.name: SKIPPED for rule in RULES if rule.skips and rule.name not in idle}
    return skipped | {rule.name: rule.prefilter for rule in plan.rules if rule.prefilter is not None}


def _verdicts(plan: Plan, order: IndexArray) -> dict[int, list[RuleVerdict]]:
    found: dict[int, list[RuleVerdict]] = {}
    for rule in plan.rules:
        if not rule.filters:
            continue
        for slot in order[~rule.feasible(order)]:
            verdict = rule.verdict(int(slot))
            if verdict is None:
                msg = f"{rule.name} refuses node {plan.cluster.nodes.names[slot]} but cannot say why"
                raise AssertionError(msg)
            found.setdefault(int(slot), []).append(verdict)
    return found


def _scores(plan: Plan, feasible: IndexArray) -> tuple[dict[str, StepStatus], dict[str, Scores]]:
    """By rule, what keeps it from scoring, or its scores."""
    weights = plan.pod_class.options.weights
    prescore: dict[str, StepStatus] = {}
    scores: dict[str, Scores] = {}
    for rule in plan.rules:
        if rule.name not in weights:
            continue
        if rule.prescore is not None and rule.prescore.code != SUCCESS:
            prescore[rule.name] = rule.prescore
        elif rule.scores:
            scores[rule.name] = Scores(*rule.scored(feasible), weights[rule.name])
    return prescore, scores


def scores_of(plan: Plan, feasible: IndexArray) -> dict[str, tuple[Int64Array, int]]:
    """By rule, the normalized scores of the feasible nodes, and what they count."""
    _, scores = _scores(plan, feasible)
    return {rule: (found.normalized, found.weight) for rule, found in scores.items()}


# --- kube-scheduler's own sentence about a pod that does not fit, word for word -------------------
# Dashboards and people look for these texts, so nothing is added to them; what Berth knows beyond
# them is structured data elsewhere.  Upstream: FitError in pkg/scheduler/framework/types.go.


def _unsatisfied(rules: Iterable[str]) -> str:
    """The reason of nodes that a PreFilter step already left out."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(rules))}]"


def fit_error(plan: Plan) -> tuple[str, frozenset[str]]:
    """The sentence for a pod without a feasible node, and the rules that were the first to refuse some."""
    cluster, nodes = plan.cluster, plan.cluster.nodes
    count = nodes.live
    if not count:
        return NO_NODES, frozenset()
    prefilter = _prefilter(plan)
    for name, status in prefilter.items():
        if status.code not in (SUCCESS, SKIP):
            return f"0/{count} nodes are available: {', '.join(status.reasons)}.", frozenset((name,))
    slots = np.flatnonzero(nodes.alive[: nodes.count])
    reasons: Counter[str] = Counter()
    rules: set[str] = set()
    naming = {rule: set(status.node_names) for rule, status in prefilter.items() if status.node_names}
    if naming:
        kept = set.intersection(*naming.values())
        if not kept:
            reason = f"{_unsatisfied(naming)} simultaneously"
            return f"0/{count} nodes are available: {reason}.", frozenset(naming)
        slots = slots[np.isin(slots, [nodes.slot_of[name] for name in kept if name in nodes.slot_of])]
        reasons[_unsatisfied(naming)] += count - len(slots)
        rules.update(naming)
    _, refusals = judge(plan.rules, slots, nobody(cluster))
    for rule, found in refusals:
        rules.add(rule)
        reasons.update(dict.fromkeys(found.reasons, len(found.slots)))
    return sentence(count, +reasons), frozenset(rules)


def judge(
    rules: Iterable[Rule], slots: IndexArray, gone: HypotheticalRemoval
) -> tuple[IndexArray, list[tuple[str, SharedVerdict]]]:
    """The nodes that pass every rule, each without its pods in `gone`; the others by their first refusal."""
    found: list[tuple[str, SharedVerdict]] = []
    for rule in rules:
        if not rule.filters or not len(slots):
            continue
        for verdict in rule.verdicts(slots, gone):
            if len(verdict.slots):
                found.append((rule.name, verdict))
                slots = slots[np.isin(slots, verdict.slots, invert=True)]
    return slots, found


def fit_error_on(count: int, verdict: RuleVerdict) -> str:
    """The sentence for a pod bound to one node by its node affinity, as a DaemonSet's is."""
    reasons = Counter(verdict.reasons)
    if count > 1:
        reasons[_unsatisfied(rule.name for rule in RULES if rule.names_nodes)] += count - 1
    return sentence(count, reasons)


def sentence(count: int, reasons: Mapping[str, int]) -> str:
    # Upstream sorts the entries as strings, numbers included: "10 ..." comes before "2 ...".
    entries = sorted(f"{number} {reason}" for reason, number in reasons.items())
    return f"0/{count} nodes are available: {', '.join(entries)}."
