"""kube-scheduler's own sentence about a pod that does not fit, word for word.

Dashboards and people look for these texts, so nothing is added to them; what Berth knows beyond
them is structured data elsewhere.  Upstream: FitError in pkg/scheduler/framework/types.go.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from berth.engine.placement.plan import Plan
from berth.engine.rules import RULES
from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import SKIP, SUCCESS, RuleVerdict
from berth.engine.state.hypothetical_removal import nobody

NO_NODES = "no nodes available to schedule pods"


def _unsatisfied(rules: Iterable[str]) -> str:
    """The reason of nodes that a PreFilter step already left out."""
    return f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(rules))}]"


def fit_error(plan: Plan) -> tuple[str, frozenset[str]]:
    """The sentence for a pod without a feasible node, and the rules that were the first to refuse some."""
    cluster, nodes = plan.cluster, plan.cluster.nodes
    count = nodes.live
    if not count:
        return NO_NODES, frozenset()
    prefilter = {rule.name: rule.prefilter for rule in plan.rules if rule.prefilter is not None}
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
    for rule in plan.rules:
        if not rule.filters or not len(slots):
            continue
        asked = slots[~rule.feasible(slots)] if isinstance(rule, NodeRule) else slots
        for found in rule.verdicts(asked, nobody(cluster)):
            if len(found.slots):
                rules.add(rule.name)
            reasons.update(dict.fromkeys(found.reasons, len(found.slots)))
            slots = slots[~np.isin(slots, found.slots)]
    return sentence(count, +reasons), frozenset(rules)


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
