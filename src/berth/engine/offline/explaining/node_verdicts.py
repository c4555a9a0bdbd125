"""What the rules say of each node, and what put the best before the next."""

from __future__ import annotations

from dataclasses import dataclass

from berth.engine.offline.snapshot import Snapshot
from berth.engine.placement.evaluation import Evaluation
from berth.engine.rules.verdicts import RuleVerdict


@dataclass(frozen=True, slots=True)
class RuleScore:
    rule: str
    raw: int
    normalized: int
    weight: int

    @property
    def weighted(self) -> int:
        return self.weight * self.normalized


@dataclass(frozen=True, slots=True)
class NodeVerdict:
    """One node: why it is refused, or how good it is."""

    name: str
    zone: str | None
    verdicts: tuple[RuleVerdict, ...] = ()
    scores: tuple[RuleScore, ...] = ()
    total: int | None = None
    feasible: bool = False


def nodes_of(snapshot: Snapshot, evaluation: Evaluation) -> list[NodeVerdict]:
    """Feasible nodes from best to worst, then the others in order."""
    names = snapshot.cluster.nodes.names
    feasible = {int(slot): i for i, slot in enumerate(evaluation.feasible.tolist())}
    found = []
    for slot in evaluation.nodes.tolist():
        name = names[slot] or ""
        zone = snapshot.zone_of(name)
        if slot not in feasible:
            found.append(NodeVerdict(name, zone, tuple(evaluation.verdicts.get(slot, ()))))
            continue
        i = feasible[slot]
        scores = tuple(
            RuleScore(rule, int(s.raw[i]), int(s.normalized[i]), s.weight)
            for rule, s in evaluation.scores.items()
        )
        total = int(evaluation.totals[i]) if evaluation.error is None else None
        found.append(NodeVerdict(name, zone, (), scores, total, feasible=True))
    found.sort(key=lambda node: (not node.feasible, -(node.total or 0)))
    return found


def decision_of(nodes: list[NodeVerdict], outcome: str = "") -> str | None:
    """Which rules put the best node before the runner-up; for a pod that runs, if it were placed again.

    `outcome` is what becomes of a tie: nothing yet, if the pod is not placed.
    """
    ranked = [node for node in nodes if node.total is not None]
    if not ranked:
        return None
    if len(ranked) == 1:
        return f"{ranked[0].name} is the only node that fits."
    best, second = ranked[0], ranked[1]
    if best.total == second.total:
        ties = sum(node.total == best.total for node in ranked)
        return f"{ties} nodes have the highest total, {best.total}{outcome}."
    behind = {score.rule: score.weighted for score in second.scores}
    ahead = {score.rule: score.weighted - behind[score.rule] for score in best.scores}
    decisive = max(ahead, key=lambda rule: ahead[rule])
    others = ", ".join(f"{rule} {points:+d}" for rule, points in ahead.items() if points and rule != decisive)
    also = f" ({others})" if others else ""
    return (
        f"{best.name} ({best.total}) is ahead of {second.name} ({second.total}), "
        f"mostly by {decisive}: {ahead[decisive]:+d}{also}."
    )
