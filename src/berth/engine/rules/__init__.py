"""The rules, one module each, in the order kube-scheduler runs them."""

from __future__ import annotations

from berth.engine.rules.base import NodeRule, TopologyRule
from berth.engine.rules.image_locality import ImageLocality
from berth.engine.rules.inter_pod_affinity import InterPodAffinity
from berth.engine.rules.node_affinity import NodeAffinity
from berth.engine.rules.node_name import NodeName
from berth.engine.rules.node_ports import NodePorts
from berth.engine.rules.node_unschedulable import NodeUnschedulable
from berth.engine.rules.pod_topology_spread import PodTopologySpread
from berth.engine.rules.resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from berth.engine.rules.taint_toleration import TaintToleration

NODE_RULES: tuple[type[NodeRule], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    NodeResourcesBalancedAllocation,
    ImageLocality,
)
TOPOLOGY_RULES: tuple[type[TopologyRule], ...] = (PodTopologySpread, InterPodAffinity)
