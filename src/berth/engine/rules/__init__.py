"""The rules, one folder each, and the one list of them.

To add a rule is to add its folder and to name its class here.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import TypeVar

from berth.engine.rules.base import NodeRule, Rule, TopologyRule
from berth.engine.rules.dynamic_resources import DynamicResources
from berth.engine.rules.image_locality import ImageLocality
from berth.engine.rules.inter_pod_affinity import InterPodAffinity
from berth.engine.rules.node_affinity import NodeAffinityRule
from berth.engine.rules.node_declared_features import NodeDeclaredFeatures
from berth.engine.rules.node_name import NodeName
from berth.engine.rules.node_ports import NodePorts
from berth.engine.rules.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from berth.engine.rules.node_resources_fit import NodeResourcesFit
from berth.engine.rules.node_unschedulable import NodeUnschedulable
from berth.engine.rules.node_volume_limits import NodeVolumeLimits
from berth.engine.rules.pod_topology_spread import PodTopologySpread
from berth.engine.rules.taint_toleration import TaintToleration
from berth.engine.rules.volume_binding import VolumeBinding
from berth.engine.rules.volume_restrictions import VolumeRestrictions
from berth.engine.rules.volume_zone import VolumeZone
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass
from berth.kube.versions import KubernetesVersion

_R = TypeVar("_R", bound=Rule)

# In the order in which the newest kube-scheduler runs them. What is about several rules is derived from it.
RULES: tuple[type[Rule], ...] = (
    NodeName,
    NodeUnschedulable,
    TaintToleration,
    NodeAffinityRule,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    NodeDeclaredFeatures,
)
NODE_RULES = tuple(rule for rule in RULES if issubclass(rule, NodeRule))
TOPOLOGY_RULES = tuple(rule for rule in RULES if issubclass(rule, TopologyRule))
EVICTING_RULES = tuple(rule for rule in RULES if rule.evicts)
# What a log says of an attempt that failed by a rule.
LOG_KEYWORDS = {rule.name: rule.log_keyword or rule.name for rule in RULES}
AUDITED_RULES = tuple(rule.name for rule in RULES if rule.audited)


@cache
def _ordered(version: KubernetesVersion) -> dict[type[Rule], int]:
    """Each rule's place in the order in which a version of kube-scheduler runs them."""
    places = {rule: (place, rule.places_back(version)) for place, rule in enumerate(RULES)}
    # A rule that goes back n places comes after the rule that is n places further in the list.
    ordered = sorted(RULES, key=lambda rule: (sum(places[rule]), places[rule][1]))
    return {rule: place for place, rule in enumerate(ordered)}


def in_order(rules: Iterable[Rule], version: KubernetesVersion) -> list[Rule]:
    """Compiled rules in upstream's order."""
    order = _ordered(version)
    return sorted(rules, key=lambda rule: order[type(rule)])


def compiled(kinds: Iterable[type[_R]], cluster: Cluster, pod_class: PodClass) -> list[_R]:
    """The rules of some kinds that concern such a pod; those that its profile leaves no filter only score."""
    options = pod_class.options
    rules = [
        kind(cluster, pod_class)
        for kind in kinds
        if kind.name not in options.disabled and kind.concerns(cluster, pod_class)
    ]
    for rule in rules if options.not_filtering else ():
        if rule.name in options.not_filtering:
            rule.stop_filtering()
    return rules


def filtering_rules(cluster: Cluster, pod_class: PodClass) -> list[Rule]:
    """The rules that can refuse a node to such a pod, compiled for just that: a plan without scores.

    Whoever asked for them releases the topology rules in the end.
    """
    options = pod_class.options
    idle = options.idle
    kinds = (rule for rule in RULES if rule.name not in idle and rule.may_refuse(cluster, pod_class))
    return in_order(compiled(kinds, cluster, pod_class), options.version)
