"""The rules, one folder each, and the one list of them.

To add a rule is to add its folder and to name its class here.
"""

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
    from collections.abc import Iterable

    from berth.engine.state.cluster import Cluster
    from berth.engine.state.pod_class import PodClass

# In the order in which kube-scheduler runs them. Whatever is about several rules is derived from this list.
RULES: tuple[type[Rule], ...] = (
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    NodeResourcesBalancedAllocation,
    ImageLocality,
)
NODE_RULES = tuple(rule for rule in RULES if issubclass(rule, NodeRule))
TOPOLOGY_RULES = tuple(rule for rule in RULES if issubclass(rule, TopologyRule))
AUDITED_RULES = tuple(rule.name for rule in RULES if rule.audited)


def in_order(rules: Iterable[Rule]) -> list[Rule]:
    """Compiled rules in upstream's order."""
    return sorted(rules, key=lambda rule: RULES.index(type(rule)))


def filtering_rules(cluster: Cluster, pod_class: PodClass) -> list[Rule]:
    """The rules that can refuse a node to such a pod, compiled for just that: a plan without scores.

    Whoever asked for them releases the topology rules in the end.
    """
    options = pod_class.options
    idle = options.disabled | options.not_filtering
    return [
        rule(cluster, pod_class)
        for rule in RULES
        if rule.name not in idle and rule.concerns(cluster, pod_class) and rule.may_refuse(cluster, pod_class)
    ]
