"""The rules, one folder each, in the order kube-scheduler runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.image_locality import ImageLocality
from berth.engine.rules.inter_pod_affinity import InterPodAffinity
from berth.engine.rules.node_affinity import NodeAffinity
from berth.engine.rules.node_name import NodeName
from berth.engine.rules.node_ports import NodePorts
from berth.engine.rules.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.rules.node_resources_fit import NodeResourcesFit
from berth.engine.rules.node_unschedulable import NodeUnschedulable
from berth.engine.rules.pod_topology_spread import PodTopologySpread
from berth.engine.rules.taint_toleration import TaintToleration
from berth.engine.rules.volume_binding import VolumeBinding
from berth.engine.rules.volume_restrictions import VolumeRestrictions
from berth.engine.rules.volume_zone import VolumeZone

if TYPE_CHECKING:
    from berth.engine.state.cluster import Cluster
    from berth.engine.state.pod_class import PodClass

NODE_RULES: tuple[type[NodeRule], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeBinding,
    VolumeZone,
    NodeResourcesBalancedAllocation,
    ImageLocality,
)
TOPOLOGY_RULES: tuple[type[TopologyRule], ...] = (VolumeRestrictions, PodTopologySpread, InterPodAffinity)
# Rule names in the order in which kube-scheduler runs them, whatever their kind here.
RULE_ORDER = (
    "NodeUnschedulable",
    "NodeName",
    "TaintToleration",
    "NodeAffinity",
    "NodePorts",
    "NodeResourcesFit",
    "VolumeRestrictions",
    "VolumeBinding",
    "VolumeZone",
    "PodTopologySpread",
    "InterPodAffinity",
    "NodeResourcesBalancedAllocation",
    "ImageLocality",
)


def filtering_rules(cluster: Cluster, pod_class: PodClass) -> list[Rule]:
    """The rules that can refuse a node to such a pod, compiled for just that: a plan without scores.

    Whoever asked for them releases the topology rules in the end.
    """
    options = pod_class.options
    idle = options.disabled | options.not_filtering
    rules: list[Rule] = [
        rule(cluster, pod_class)
        for rule in (*NODE_RULES, *TOPOLOGY_RULES)
        if rule.name not in idle and rule.concerns(cluster, pod_class) and rule.may_refuse(cluster, pod_class)
    ]
    rules.sort(key=lambda rule: RULE_ORDER.index(rule.name))
    return rules
