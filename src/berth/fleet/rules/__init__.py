"""All rules, in the order in which their reasons are given."""

from berth.fleet.rules.api_enablement import ApiEnablementRule
from berth.fleet.rules.base import ClusterRule
from berth.fleet.rules.cluster_affinity import ClusterAffinityRule
from berth.fleet.rules.cluster_eviction import ClusterEvictionRule
from berth.fleet.rules.cluster_locality import ClusterLocalityRule
from berth.fleet.rules.spread_constraint import SpreadConstraintRule
from berth.fleet.rules.taint_toleration import TaintTolerationRule
from berth.fleet.rules.workload_affinity import WorkloadAffinityRule
from berth.fleet.rules.workload_anti_affinity import WorkloadAntiAffinityRule

RULES: tuple[ClusterRule, ...] = (
    ClusterAffinityRule(),
    TaintTolerationRule(),
    ApiEnablementRule(),
    ClusterEvictionRule(),
    SpreadConstraintRule(),
    ClusterLocalityRule(),
    WorkloadAffinityRule(),
    WorkloadAntiAffinityRule(),
)

# What other workloads, not clusters, are the cause of.
PEER_RULES = frozenset((WorkloadAffinityRule.name, WorkloadAntiAffinityRule.name))
