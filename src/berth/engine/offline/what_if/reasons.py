"""Why a pod goes to the node it goes to, in a clause."""

from __future__ import annotations

import numpy as np

from berth.engine.placement.evaluation import scores_of
from berth.engine.placement.plan import Plan


def why_there(plan: Plan, slot: int) -> str:
    """What puts a node before the next one, just before the pod is counted there."""
    blocked = plan.blocked()
    feasible = np.flatnonzero(blocked == 0)
    if len(feasible) < 2:
        return "the only node that fits"
    names = plan.cluster.nodes.names
    scores = scores_of(plan, feasible)
    totals = sum(
        (weight * normalized for normalized, weight in scores.values()), np.zeros(len(feasible), np.int64)
    )
    own = int(np.flatnonzero(feasible == slot)[0])
    others = np.delete(np.arange(len(feasible)), own)
    second = int(others[totals[others].argmax()])
    if totals[second] >= totals[own]:
        ties = int((totals == totals[own]).sum())
        return f"one of {ties} best of {len(feasible)} nodes that fit"
    ahead = {rule: int(weight * (s[own] - s[second])) for rule, (s, weight) in scores.items()}
    decisive = max(ahead, key=lambda rule: ahead[rule])
    before = f"before {names[feasible[second]]} by {decisive} {ahead[decisive]:+d}"
    return f"best of {len(feasible)} nodes that fit, {before}"
