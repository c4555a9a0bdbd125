"""What a configuration says, with every default filled in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from berth.kube.objects import NodeAffinity, TopologySpreadConstraint
from berth.kube.well_known import SYSTEM_NAMESPACE

ScoringStrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
UtilizationShape = tuple[tuple[int, int], ...]  # (utilization in percent, score from 0 to 10)


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginArguments:
    """The arguments of all plugins of a profile."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    # Whose pods required anti-affinity leaves out, None if it is not said.
    daemon_namespaces: tuple[str, ...] | None = None
    added_affinity: NodeAffinity | None = None
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"
    ignored_resources: tuple[str, ...] = ()  # extended resources that need not fit
    # The same for all extended resources with one of these prefixes.
    ignored_resource_groups: tuple[str, ...] = ()
    # How NodeResourcesFit scores the resources in use.
    scoring_strategy: ScoringStrategyType = "LeastAllocated"
    # The resources NodeResourcesFit scores, with their weights.
    scoring_resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    scoring_shape: UtilizationShape = ()  # points of RequestedToCapacityRatio
    # The resources that NodeResourcesBalancedAllocation evens out.
    balanced_resources: tuple[str, ...] = ("cpu", "memory")
    bind_timeout_seconds: int = 600  # how long a pod may wait for its volumes
    device_timeout_seconds: float = 600.0  # how long it may wait for its devices
    # How storage for new volumes is scored by how full it would be.
    storage_shape: UtilizationShape = ((0, 10), (100, 0))


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """How pods with one scheduler name are placed."""

    scheduler_name: str
    plugins: Mapping[str, frozenset[str]]  # extension point -> the plugins that are enabled there
    weights: Mapping[str, int]  # what the plugins that are enabled for scoring count
    args: PluginArguments = field(default_factory=PluginArguments)

    def enables(self, point: str, plugin: str) -> bool:
        return plugin in self.plugins[point]


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """Durations are in seconds."""

    leader_elect: bool = True
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0
    resource_name: str
    resource_namespace: str = SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConnection:
    """How to reach the API server."""

    kubeconfig: str = ""  # empty if the file names none
    # Requests a second; 0 or less means no limit, which is the default here: a limit that the API server does
    # not ask for (kube-scheduler's is 50) would only slow placement down.
    qps: float = 0.0
    burst: int = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfiguration:
    """A whole configuration."""

    profiles: tuple[Profile, ...]
    leader_election: LeaderElection
    client_connection: ClientConnection = field(default_factory=ClientConnection)
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    notes: tuple[str, ...] = ()  # what was given and has no effect, a sentence each

    @property
    def by_scheduler_name(self) -> dict[str, Profile]:
        return {profile.scheduler_name: profile for profile in self.profiles}
