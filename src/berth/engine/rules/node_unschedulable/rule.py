"""Cordoned nodes take no pods, except those that tolerate the cordon."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np
from msgspec.structs import replace

from berth.engine.rules.base import NodeRule
from berth.engine.rules.changes import Change, Question, on_nodes
from berth.engine.rules.verdicts import PROCEED, Cause, Reason
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Node, NodeSpec
from berth.kube.taints import CORDON, tolerates

CORDONED = Reason(
    "NodeCordoned",
    "node(s) were unschedulable",
    "spec.unschedulable is true (cordoned)",
    waits_for="a node to be uncordoned",
    events=(NodeUpdated, NodeAdded),
)


class NodeUnschedulable(NodeRule):
    name = "NodeUnschedulable"
    for_newcomers = True
    relax_rank = 5
    path = "spec.tolerations"
    reasons = (CORDONED,)

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self.prefilter = PROCEED if pod_class.options.version.early_prefilters else None

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        names, phrase = question.refused_by(cls.name), ("with ", " uncordoned")
        return (on_nodes(question, names, _uncordoned, "uncordon", "spec.unschedulable", phrase),)

    @cached_property
    def _tolerated(self) -> bool:
        return tolerates(self.pod_class.spec.tolerations, CORDON)

    def feasible(self, slots: Slots) -> BoolArray:
        cordoned = self.nodes.unschedulable[slots]
        return np.ones_like(cordoned) if self._tolerated else ~cordoned

    def admits(self, slot: int) -> bool:
        return self._tolerated or not self.nodes.unschedulable[slot]

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, NodeUpdated) and change.unschedulable

    def causes(self, slot: int) -> Iterable[Cause]:
        return () if self.admits(slot) else (Cause(CORDONED, path=self.path),)


def _uncordoned(node: Node) -> Node:
    spec = node.spec or NodeSpec()
    taints = [taint for taint in spec.taints or () if taint.key != CORDON.key]
    return replace(node, spec=replace(spec, unschedulable=None, taints=taints or None))
