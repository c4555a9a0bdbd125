"""Cordoned nodes take no pods, except those that tolerate the cordon."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from berth.engine.rules.base import UNRESOLVABLE, NodeRule, RuleVerdict
from berth.engine.rules.taint_toleration.taints import tolerates
from berth.engine.state.arrays import BoolArray, Slots
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated
from berth.kube.objects import Taint

REASON = "node(s) were unschedulable"
_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class NodeUnschedulable(NodeRule):
    name = "NodeUnschedulable"
    path = "spec.tolerations"

    @cached_property
    def _tolerated(self) -> bool:
        return tolerates(self.pod_class.spec.tolerations, _CORDON)

    def feasible(self, slots: Slots) -> BoolArray:
        cordoned = self.nodes.unschedulable[slots]
        return np.ones_like(cordoned) if self._tolerated else ~cordoned

    def admits(self, slot: int) -> bool:
        return self._tolerated or not self.nodes.unschedulable[slot]

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, NodeUpdated) and change.unschedulable

    def verdict(self, slot: int) -> RuleVerdict | None:
        if self._tolerated or not self.nodes.unschedulable[slot]:
            return None
        return RuleVerdict(self.name, UNRESOLVABLE, (REASON,), ("spec.unschedulable is true (cordoned)",))
