"""A pod that names its node fits nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import PROCEED, Cause, Reason, StepStatus
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded
from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Node, Pod
from berth.kube.versions import KubernetesVersion

OTHER_NAME = Reason(
    "NodeNameMismatch",
    "node(s) didn't match the requested node name",
    "the pod asks for node {node}",
    waits_for="the node {node}",
    events=(NodeAdded,),
)


class NodeName(NodeRule):
    name = "NodeName"
    path = "spec.nodeName"
    reasons = (OTHER_NAME,)
    audited = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._wanted = pod_class.node_name
        self.filters = bool(self._wanted)
        if pod_class.options.version.early_prefilters:
            self.prefilter = StepStatus(node_names=(self._wanted,)) if self._wanted else PROCEED

    @classmethod
    def places_back(cls, version: KubernetesVersion) -> int:
        return 0 if version.early_prefilters else 1

    def feasible(self, slots: Slots) -> BoolArray:
        matches = np.zeros(self.nodes.capacity, dtype=np.bool_)
        slot = self.nodes.slot_of.get(self._wanted or "")
        if slot is not None:
            matches[slot] = True
        return matches[slots]

    def admits(self, slot: int) -> bool:
        return not self._wanted or self.nodes.names[slot] == self._wanted

    def helped_by(self, change: ClusterEvent) -> bool:
        return False  # a node never changes its name, and whether one that came is right, `admits` says

    def causes(self, slot: int) -> Iterator[Cause]:
        if not self.admits(slot):
            yield Cause(OTHER_NAME, {"node": self._wanted or ""}, self.path)


def names_another(pod: Pod, node: Node) -> bool:
    """Whether a pod asks for a node by name that is not this one."""
    return pod.spec.node_name not in (None, "", node.metadata.name)
