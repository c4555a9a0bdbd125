"""The form of the file; every field may be missing."""

from __future__ import annotations

from berth.kube.objects import Int32, Int64, NodeAffinity, Struct, TopologySpreadConstraint


class Plugin(Struct, frozen=True):
    name: str | None = None
    weight: Int32 | None = None


class PluginSet(Struct, frozen=True):
    enabled: list[Plugin] | None = None
    disabled: list[Plugin] | None = None


class Plugins(Struct, frozen=True):
    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    multi_point: PluginSet | None = None
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None
    pod_group_post_filter: PluginSet | None = None

    def at(self, point: str) -> PluginSet:
        """The set of an extension point, given as it is written in the file."""
        names = dict(zip(self.__struct_encode_fields__, self.__struct_fields__, strict=True))
        found: PluginSet | None = getattr(self, names[point])
        return found or PluginSet()


class PluginConfig(Struct, frozen=True):
    name: str | None = None
    args: dict[str, object] | None = None


class KubeSchedulerProfile(Struct, frozen=True):
    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class LeaderElectionConfiguration(Struct, frozen=True):
    leader_elect: bool | None = None
    lease_duration: str | None = None
    renew_deadline: str | None = None
    retry_period: str | None = None
    resource_lock: str | None = None
    resource_name: str | None = None
    resource_namespace: str | None = None


class ClientConnectionConfiguration(Struct, frozen=True):
    kubeconfig: str | None = None
    accept_content_types: str | None = None
    content_type: str | None = None
    qps: float | None = None
    burst: Int32 | None = None


class Configuration(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None
    parallelism: Int32 | None = None
    leader_election: LeaderElectionConfiguration | None = None
    client_connection: ClientConnectionConfiguration | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    pod_initial_backoff_seconds: Int64 | None = None
    pod_max_backoff_seconds: Int64 | None = None
    profiles: list[KubeSchedulerProfile] | None = None
    extenders: list[dict[str, object]] | None = None
    delay_cache_until_active: bool | None = None


# --- arguments of plugins ---------------------------------------------------------------


class Arguments(Struct, frozen=True):
    api_version: str | None = None
    kind: str | None = None


class InterPodAffinityArgs(Arguments, frozen=True):
    hard_pod_affinity_weight: Int32 | None = None
    ignore_preferred_terms_of_existing_pods: bool | None = None
    daemon_namespaces: list[str] | None = None  # Berth's own; kube-scheduler refuses it as unknown


class NodeAffinityArgs(Arguments, frozen=True):
    added_affinity: NodeAffinity | None = None


class PodTopologySpreadArgs(Arguments, frozen=True):
    default_constraints: list[TopologySpreadConstraint] | None = None
    defaulting_type: str | None = None


class ResourceSpec(Struct, frozen=True):
    name: str | None = None
    weight: Int64 | None = None


class ShapePoint(Struct, frozen=True):
    utilization: Int32 | None = None
    score: Int32 | None = None


class RequestedToCapacityRatio(Struct, frozen=True):
    shape: list[ShapePoint] | None = None


class ScoringStrategy(Struct, frozen=True):
    type: str | None = None
    resources: list[ResourceSpec] | None = None
    requested_to_capacity_ratio: RequestedToCapacityRatio | None = None


class NodeResourcesFitArgs(Arguments, frozen=True):
    ignored_resources: list[str] | None = None
    ignored_resource_groups: list[str] | None = None
    scoring_strategy: ScoringStrategy | None = None


class NodeResourcesBalancedAllocationArgs(Arguments, frozen=True):
    resources: list[ResourceSpec] | None = None


class DefaultPreemptionArgs(Arguments, frozen=True):
    min_candidate_nodes_percentage: Int32 | None = None
    min_candidate_nodes_absolute: Int32 | None = None


class VolumeBindingArgs(Arguments, frozen=True):
    bind_timeout_seconds: Int64 | None = None
    shape: list[ShapePoint] | None = None


class DynamicResourcesArgs(Arguments, frozen=True):
    filter_timeout: str | None = None
    binding_timeout: str | None = None
