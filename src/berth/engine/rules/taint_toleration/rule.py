"""Taints keep pods off a node unless they tolerate them; PreferNoSchedule taints cost score."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.taint_toleration import relax
from berth.engine.rules.taint_toleration.taints import (
    SOFT_EFFECT,
    describe,
    first_untolerated,
    match_tolerated,
)
from berth.engine.rules.verdicts import PROCEED, UNRESOLVABLE, Cause, Reason, RuleVerdict, RuleViolation
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, IntArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Node, Pod, Taint
from berth.kube.taints import CONDITION_OF, NO_EXECUTE, no_execute_taints, taints_of, tolerates, untolerated
from berth.kube.well_known import READY

UNTOLERATED = Reason(
    "TaintNotTolerated",
    "node(s) had untolerated taint(s)",
    "taint {taint} is not tolerated",
    waits_for="the taint {taint} to be taken off a node",
    events=(NodeUpdated, NodeAdded),
)
AILING = replace(UNTOLERATED, code="NodeConditionTaint", waits_for="a node to be {recovered}")


class TaintToleration(NodeRule):
    name = "TaintToleration"
    for_newcomers = True
    relax_rank = 4
    path = "spec.tolerations"
    reasons = (UNTOLERATED, AILING)
    scores = True
    scaling = True
    less_is_better = True
    prescore = PROCEED
    clues = staticmethod(relax.clues)
    relaxations = staticmethod(relax.relaxations)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self.prefilter = PROCEED if pod_class.options.version.early_prefilters else None

    def feasible(self, slots: Slots) -> BoolArray:
        return match_tolerated(self.nodes, self.pod_class.spec.tolerations, slots)

    def raw(self, slots: Slots) -> IntArray:
        soft = [t for t in self.pod_class.spec.tolerations or () if not t.effect or t.effect == SOFT_EFFECT]
        taints = self.nodes.taints
        counts = [
            sum(t.effect == SOFT_EFFECT and not tolerates(soft, t) for t in taint_set)
            for taint_set in taints.values
        ]
        return np.array(counts, dtype=np.int64)[taints.ids[slots]]

    def admits(self, slot: int) -> bool:
        taints = self.nodes.taints
        return self._tolerated(taints.values[taints.ids.item(slot)])

    def _tolerated(self, taints: Iterable[Taint]) -> bool:
        return first_untolerated(self.pod_class.spec.tolerations, taints) is None

    def helped_by(self, change: ClusterEvent) -> bool:
        if not (isinstance(change, NodeUpdated) and change.taints):
            return False
        return not self._tolerated(taints_of(change.old))

    def verdict(self, slot: int) -> RuleVerdict | None:
        taints = self.nodes.taints
        taint = first_untolerated(self.pod_class.spec.tolerations, taints.values[taints.ids[slot]])
        if taint is None:
            return None
        return RuleVerdict.of(self.name, UNRESOLVABLE, (self._cause(taint),))

    def violations(self, slot: int) -> Iterable[RuleViolation]:
        taints = self.nodes.taints
        for taint in untolerated(self.pod_class.spec.tolerations, taints.values[taints.ids[slot]]):
            yield RuleViolation(self.name, self._cause(taint), hard=taint.effect == NO_EXECUTE)

    def _cause(self, taint: Taint) -> Cause:
        values, execution = {"taint": describe(taint)}, taint.effect == NO_EXECUTE
        condition = CONDITION_OF.get(taint.key or "")
        if condition is None:
            return Cause(UNTOLERATED, values, self.path, execution=execution)
        values["recovered"] = "Ready again" if condition == READY else f"without {condition}"
        return Cause(AILING, values, self.path, execution=execution)


def admission(pod: Pod, node: Node) -> RuleVerdict | None:
    """Why a kubelet does not take the pod, None if it does."""
    if first_untolerated(pod.spec.tolerations, no_execute_taints(node)) is None:
        return None
    return RuleVerdict(TaintToleration.name, UNRESOLVABLE, (UNTOLERATED.sentence,))
