"""All rules, in the order in which their reasons are given."""

from berth.fleet.rules.base import ClusterRule
from berth.fleet.rules.cluster_rules import (
    ApiEnablementRule,
    ClusterAffinityRule,
    ClusterEvictionRule,
    ClusterLocalityRule,
    SpreadConstraintRule,
    TaintTolerationRule,
)
from berth.fleet.rules.workload_rules import WorkloadAffinityRule, WorkloadAntiAffinityRule

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

# Rules whose refusals are caused by other workloads, not by clusters.
PEER_RULES = frozenset((WorkloadAffinityRule.name, WorkloadAntiAffinityRule.name))
