"""The smallest changes that would let a pod fit, each found by really trying it.

Single changes first.  If none helps by itself, pairs; if no pair does, one minimal set: all
changes together, less every one that turns out not to be needed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING

from berth.engine.offline.cluster_changes import (
    cordon_changes,
    label_changes,
    peer_changes,
    pod_limit_changes,
)
from berth.engine.offline.pod_changes import (
    node_affinity_changes,
    node_selector_changes,
    port_changes,
    spread_changes,
    term_changes,
    toleration_changes,
)
from berth.engine.offline.resource_changes import resource_changes
from berth.engine.offline.variants import Variant, WhatIf, with_effective_affinity
from berth.kube.annotations import stated_affinity

if TYPE_CHECKING:
    from collections.abc import Mapping

    from berth.engine.offline.changes import Change
    from berth.engine.placement.evaluation import Evaluation
    from berth.kube.objects import Pod

# Single changes tried, and pairs made of them: bounded, whatever the cluster looks like.
_MOST_CHANGES = 48
_MOST_PAIRS_FROM = 24
_MOST_PAIRS = 6


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Changes that together let the pod fit `nodes`."""

    changes: tuple[Change, ...]
    nodes: list[str]

    @property
    def sentence(self) -> str:
        what = " and ".join(change.phrase for change in self.changes)
        who = f"{self.nodes[0]} fits" if len(self.nodes) == 1 else f"{len(self.nodes)} nodes fit"
        return f"{what}, {who}"


def relaxations(
    what_if: WhatIf, pod: Pod, evaluation: Evaluation, pods: Mapping[str, Pod], *, pinned: bool = False
) -> list[Relaxation]:
    """What would help a pod that has no feasible node; `pods` are those that run, by key.

    `pinned` says that the node its affinity names was not its choice, as with a DaemonSet's pod.
    """
    # Nothing is placed any more, and every compiled plan makes changing a node slower.
    what_if.cluster.plans.drop_all()
    start = Variant(with_effective_affinity(pod, what_if.cluster.options.gates))
    changes = _candidates(what_if, start.pod, pod, evaluation, pods)
    changes = [change for change in changes if not (pinned and _unpins(change))][:_MOST_CHANGES]
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


def _candidates(
    what_if: WhatIf, pod: Pod, written: Pod, evaluation: Evaluation, pods: Mapping[str, Pod]
) -> list[Change]:
    """The changes that concern a rule which refuses the pod some node; small ones first."""
    rules = {verdict.rule for verdicts in evaluation.verdicts.values() for verdict in verdicts}
    pod_class = what_if.cluster.class_of(pod)
    found: list[Change] = []
    if "PodTopologySpread" in rules:
        found += spread_changes(what_if, pod)
    if "NodeResourcesFit" in rules:
        found += resource_changes(what_if, pod_class, evaluation)
        found += pod_limit_changes(what_if, evaluation)
    if "NodePorts" in rules:
        found += port_changes(pod)
    if "TaintToleration" in rules:
        found += toleration_changes(what_if, pod)
    if "NodeUnschedulable" in rules:
        found += cordon_changes(what_if, evaluation)
    if "NodeAffinity" in rules:
        found += [
            *node_selector_changes(pod),
            *node_affinity_changes(stated_affinity(written, what_if.cluster.options.gates)),
        ]
    if "InterPodAffinity" in rules:
        found += [*term_changes(pod, written), *peer_changes(what_if, pod_class, pods)]
    found += label_changes(what_if, pod, evaluation)
    return found


def _unpins(change: Change) -> bool:
    return change.kind == "node-affinity" or ".matchFields[" in change.path


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
