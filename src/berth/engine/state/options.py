"""What a scheduling profile may change about the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Literal

from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import LabelSelector, NodeAffinity, TopologySpreadConstraint
from berth.kube.scheduler_configuration.model import Profile
from berth.kube.scheduler_configuration.plugins import DEFAULTS, POINTS, UNSCORED, WITHOUT_EFFECT
from berth.kube.versions import NEWEST, KubernetesVersion
from berth.kube.well_known import HOSTNAME, ZONE

DEFAULT_WEIGHTS: Mapping[str, int] = MappingProxyType(
    {name: weight for name, weight in DEFAULTS.items() if weight and name not in WITHOUT_EFFECT | UNSCORED}
)

ScoringStrategy = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]
DEFAULT_FIT_RESOURCES: Mapping[str, int] = MappingProxyType({"cpu": 1, "memory": 1})
DEFAULT_BALANCED_RESOURCES = ("cpu", "memory")
DEFAULT_STORAGE_SHAPE = ((0, 10), (100, 0))

DEFAULT_DAEMON_NAMESPACES = frozenset({"kube-system"})

SYSTEM_DEFAULT_CONSTRAINTS = (
    TopologySpreadConstraint(
        topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway", max_skew=3, label_selector=LabelSelector()
    ),
    TopologySpreadConstraint(
        topology_key=ZONE, when_unsatisfiable="ScheduleAnyway", max_skew=5, label_selector=LabelSelector()
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The knobs of one profile, with kube-scheduler's defaults unless said otherwise.

    Attributes:
        daemon_namespaces: Pods in these namespaces are never matched by a required
            anti-affinity term, whichever pod arrives first (the pod-affinity seed's
            "co-existing with daemons").  kube-scheduler has no such list: empty is its behaviour.
        version: The version of Kubernetes whose answers are given.
        exact_namespace_selectors: Namespace selectors mean what they say in every version.
        weights: What a rule's normalized score counts; a rule that is missing is not scored.
        disabled: Rules that neither filter nor score.
        not_filtering: Rules that may score (see `weights`) but refuse no node.
        fit_strategy: How NodeResourcesFit scores the resources in use.
        fit_shape: Points (utilization in percent, score from 0 to 10) of RequestedToCapacityRatio.
        fit_resources: The resources NodeResourcesFit scores, and what each counts.
        ignored_resources: Extended resources that need not fit.
        ignored_resource_groups: The same for all extended resources with one of these prefixes.
        balanced_resources: The resources that NodeResourcesBalancedAllocation evens out.
        storage_shape: Points (percentage in use, score from 0 to 10) of storage for new volumes.
    """

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    added_affinity: NodeAffinity | None = None
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"
    daemon_namespaces: frozenset[str] = DEFAULT_DAEMON_NAMESPACES
    version: KubernetesVersion = NEWEST
    exact_namespace_selectors: bool = False
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    disabled: frozenset[str] = frozenset()
    not_filtering: frozenset[str] = frozenset()
    fit_strategy: ScoringStrategy = "LeastAllocated"
    fit_shape: tuple[tuple[int, int], ...] = ()
    fit_resources: Mapping[str, int] = field(default_factory=lambda: DEFAULT_FIT_RESOURCES)
    ignored_resources: frozenset[str] = frozenset()
    ignored_resource_groups: frozenset[str] = frozenset()
    balanced_resources: tuple[str, ...] = DEFAULT_BALANCED_RESOURCES
    storage_shape: tuple[tuple[int, int], ...] = DEFAULT_STORAGE_SHAPE
    gates: FeatureGates = DEFAULT_GATES

    @property
    def idle(self) -> frozenset[str]:
        """The rules that refuse no node."""
        return self.disabled | self.not_filtering

    @property
    def system_defaulted(self) -> bool:
        return self.defaulting_type == "System"

    @property
    def spread_defaults(self) -> tuple[TopologySpreadConstraint, ...]:
        return SYSTEM_DEFAULT_CONSTRAINTS if self.system_defaulted else self.default_constraints


_RULES = POINTS["filter"].union(DEFAULT_WEIGHTS) - WITHOUT_EFFECT


def options_of(profile: Profile, gates: FeatureGates, *, base: Options | None = None) -> Options:
    """What a profile makes of the rules; `base` has what it does not say.

    A plugin's preFilter goes with its filter, and its preScore with its score.
    """
    args = profile.args
    filtering = profile.plugins["filter"]
    weights = {name: profile.weights[name] for name in DEFAULT_WEIGHTS if name in profile.weights}
    base = base or Options()
    daemons = base.daemon_namespaces if args.daemon_namespaces is None else frozenset(args.daemon_namespaces)
    return replace(
        base,
        daemon_namespaces=daemons,
        hard_pod_affinity_weight=args.hard_pod_affinity_weight,
        ignore_preferred_terms_of_existing_pods=args.ignore_preferred_terms_of_existing_pods,
        added_affinity=args.added_affinity,
        default_constraints=args.default_constraints,
        defaulting_type=args.defaulting_type,
        weights=weights,
        disabled=_RULES - filtering - weights.keys(),
        not_filtering=(POINTS["filter"] - filtering).intersection(weights),
        fit_strategy=args.scoring_strategy,
        fit_shape=args.scoring_shape,
        fit_resources=dict(args.scoring_resources),
        ignored_resources=frozenset(args.ignored_resources),
        ignored_resource_groups=frozenset(args.ignored_resource_groups),
        balanced_resources=args.balanced_resources,
        storage_shape=args.storage_shape or base.storage_shape,
        gates=gates,
    )
