"""The smallest changes that would let a pod fit, each found by really trying it.

Single changes first.  If none helps by itself, pairs; if no pair does, one minimal set: all
changes together, less every one that turns out not to be needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from berth.engine.offline.variants import WhatIf
from berth.engine.placement.evaluation import Evaluation
from berth.engine.rules import RULES
from berth.engine.rules.reasons import WorkloadOf
from berth.engine.rules.relaxing import (
    Change,
    Question,
    Variant,
    label_changes,
    with_effective_affinity,
)
from berth.kube.objects import Pod

# Single changes tried, and pairs made of them: bounded, whatever the cluster looks like.
_MOST_CHANGES = 48
_MOST_PAIRS_FROM = 24
_MOST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Changes that together let the pod fit `nodes`; `effect` says it if it is more than that."""

    changes: tuple[Change, ...]
    nodes: list[str]
    effect: str | None = None

    @property
    def sentence(self) -> str:
        what = " and ".join(change.phrase for change in self.changes)
        who = f"{self.nodes[0]} fits" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes fit"
        if len(self.nodes) > 1 and any(change.any_node for change in self.changes):
            who = "that node fits"
        return f"{what}, {self.effect or who}"


def question_of(
    what_if: WhatIf,
    pod: Pod,
    evaluation: Evaluation,
    *,
    running: Mapping[str, Pod],
    waiting: Mapping[str, Pod],
    ended: Mapping[str, Pod],
    workload_of: WorkloadOf,
) -> Question:
    """What the rules are asked about a pod that has no feasible node."""
    spelt_out = with_effective_affinity(pod, what_if.cluster.options.gates)
    return Question(
        cluster=what_if.cluster,
        pod_class=what_if.cluster.class_of(spelt_out),
        pod=spelt_out,
        written=pod,
        nodes=what_if.nodes,
        running=running,
        verdicts=evaluation.verdicts,
        fitting=what_if.fitting,
        waiting=waiting,
        ended=ended,
        workload_of=workload_of,
    )


def relaxations(what_if: WhatIf, question: Question, *, pinned: bool = False) -> list[Relaxation]:
    """What would help.

    `pinned` says that the node its affinity names was not its choice, as with a DaemonSet's pod.
    """
    # Nothing is placed any more, and every compiled plan makes changing a node slower.
    what_if.cluster.plans.drop_all()
    start = Variant(question.pod)
    changes = [change for change in _candidates(question) if not (pinned and change.unpins)][:_MOST_CHANGES]
    search = _Search(what_if, start)
    found = [relaxation for change in changes if (relaxation := search.attempt((change,)))]
    if found:
        return _sorted(_finest(found))
    pairs = combinations(changes[:_MOST_PAIRS_FROM], 2)
    found = [relaxation for pair in pairs if (relaxation := search.attempt(pair))]
    if found:
        return _sorted(_finest(found))[:_MOST_PAIRS]
    smallest = search.minimal(changes)
    return [smallest] if smallest else []


def _candidates(question: Question) -> list[Change]:
    """The changes that the rules know which refuse the pod some node; small ones first."""
    refusing = {verdict.rule for verdicts in question.verdicts.values() for verdict in verdicts}
    rules = [rule for rule in RULES if rule.name in refusing]
    ranked = sorted(rules, key=lambda rule: rule.relax_rank)
    labels = dict.fromkeys(label for rule in rules for label in rule.wanted_labels(question))
    return [
        *(change for rule in ranked for change in rule.relaxations(question)),
        *label_changes(question, labels),
    ]


class _Search:
    def __init__(self, what_if: WhatIf, start: Variant) -> None:
        self._what_if = what_if
        self._start = start

    def attempt(self, changes: tuple[Change, ...]) -> Relaxation | None:
        """The relaxation made of these changes in their smallest form, None if they do not help."""
        if not self._helps(changes):
            return None
        for i, change in enumerate(changes):
            if change.refine is not None:
                others = self._applied((*changes[:i], *changes[i + 1 :]))
                changes = (*changes[:i], change.refine(others), *changes[i + 1 :])
        return Relaxation(changes, self._what_if.names(self._what_if.fitting(self._applied(changes))))

    def minimal(self, changes: list[Change]) -> Relaxation | None:
        if not self._helps(tuple(changes)):
            return None
        needed = list(changes)
        # Large changes are tried for removal first, so that the small ones remain.
        for change in reversed(changes):
            fewer = [kept for kept in needed if kept is not change]
            if self._helps(tuple(fewer)):
                needed = fewer
        return self.attempt(tuple(needed))

    def _helps(self, changes: tuple[Change, ...]) -> bool:
        return bool(len(self._what_if.fitting(self._applied(changes))))

    def _applied(self, changes: tuple[Change, ...]) -> Variant:
        variant = self._start
        for change in changes:
            variant = change.apply(variant)
        return variant


def _finest(found: list[Relaxation]) -> list[Relaxation]:
    """Without those that change more than another one: the whole where a part is enough."""
    kept: list[Relaxation] = []
    best: dict[tuple[str, ...], Relaxation] = {}
    for relaxation in found:
        if any(_coarser(relaxation, other) for other in found if other is not relaxation):
            continue
        group = tuple(change.group or "" for change in relaxation.changes)
        if any(group):
            known = best.get(group)
            if known is not None and len(known.nodes) >= len(relaxation.nodes):
                continue
            if known is not None:
                kept.remove(known)
            best[group] = relaxation
        kept.append(relaxation)
    return kept


def _coarser(relaxation: Relaxation, other: Relaxation) -> bool:
    pairs = list(zip(relaxation.changes, other.changes, strict=True))
    return any(b.path.startswith(f"{a.path}.") for a, b in pairs) and all(
        b.path == a.path or b.path.startswith(f"{a.path}.") for a, b in pairs
    )


def _sorted(found: list[Relaxation]) -> list[Relaxation]:
    return sorted(found, key=lambda relaxation: -len(relaxation.nodes))
