"""All rules, in the order in which their reasons are given."""

from berth.fleet.rules.api_enablement import ApiEnablement
from berth.fleet.rules.base import ClusterRule
from berth.fleet.rules.cluster_affinity import ClusterAffinity
from berth.fleet.rules.cluster_eviction import ClusterEviction
from berth.fleet.rules.cluster_locality import ClusterLocality
from berth.fleet.rules.spread_constraint import SpreadConstraint
from berth.fleet.rules.taint_toleration import TaintToleration
from berth.fleet.rules.workload_affinity import WorkloadAffinity
from berth.fleet.rules.workload_anti_affinity import WorkloadAntiAffinity

RULES: tuple[ClusterRule, ...] = (
    ClusterAffinity(),
    TaintToleration(),
    ApiEnablement(),
    ClusterEviction(),
    SpreadConstraint(),
    ClusterLocality(),
    WorkloadAffinity(),
    WorkloadAntiAffinity(),
)
