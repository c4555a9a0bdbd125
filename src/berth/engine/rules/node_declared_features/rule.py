"""Nodes say which features their kubelet has; a pod that relies on one fits where it is declared."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.rules.verdicts import PROCEED, Cause, Reason
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeAdded, NodeUpdated
from berth.engine.state.columns import BoolArray, Slots
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import PodSpec

NOT_DECLARED = Reason(
    "FeatureNotDeclared",
    "node(s) didn't match Pod's required features",
    "the node does not declare the feature {feature}",
    waits_for="a node that declares the feature {feature}",
    events=(NodeUpdated, NodeAdded),
)


class NodeDeclaredFeatures(NodeRule):
    name = "NodeDeclaredFeatures"
    path = "spec"
    reasons = (NOT_DECLARED,)
    recorded = False
    skips = True
    prefilter = PROCEED

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        self._wanted = frozenset(required_features(pod_class.spec))

    @classmethod
    def concerns(cls, cluster: Cluster, pod_class: PodClass) -> bool:
        return next(required_features(pod_class.spec), None) is not None

    def feasible(self, slots: Slots) -> BoolArray:
        features = self.nodes.features
        enough = np.array([self._wanted <= declared for declared in features.values], dtype=np.bool_)
        return enough[features.ids[slots]]

    def admits(self, slot: int) -> bool:
        return self._wanted <= self.nodes.features.at(slot)

    def helped_by(self, change: ClusterEvent) -> bool:
        return isinstance(change, NodeUpdated) and change.features

    def causes(self, slot: int) -> Iterator[Cause]:
        for feature in sorted(self._wanted - self.nodes.features.at(slot)):
            yield Cause(NOT_DECLARED, {"feature": feature}, self.path)


def required_features(spec: PodSpec) -> Iterator[str]:
    """The features that can be told from a pod that is to be placed; others matter to updates only."""
    for containers in (spec.containers, spec.init_containers):
        for container in containers or ():
            rules = container.restart_policy_rules
            if rules and any(rule.action == "RestartAllContainers" for rule in rules):
                yield "RestartAllContainersOnContainerExits"
    if spec.host_network and spec.host_users is False:
        yield "UserNamespacesHostNetworkSupport"
