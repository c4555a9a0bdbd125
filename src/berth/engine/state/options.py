"""What a scheduling profile may change about the rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import LabelSelector, TopologySpreadConstraint
from berth.kube.scheduler_configuration.model import PluginArguments, Profile
from berth.kube.scheduler_configuration.plugins import DEFAULTS, POINTS, UNSCORED, WITHOUT_EFFECT
from berth.kube.versions import NEWEST, KubernetesVersion
from berth.kube.well_known import HOSTNAME, SCHEDULE_ANYWAY, SYSTEM_NAMESPACE, ZONE

DEFAULT_WEIGHTS: Mapping[str, int] = MappingProxyType(
    {name: weight for name, weight in DEFAULTS.items() if weight and name not in WITHOUT_EFFECT | UNSCORED}
)

DEFAULT_ARGUMENTS = PluginArguments()
DEFAULT_DAEMON_NAMESPACES = frozenset({SYSTEM_NAMESPACE})

SYSTEM_DEFAULT_CONSTRAINTS = tuple(
    TopologySpreadConstraint(
        topology_key=key, when_unsatisfiable=SCHEDULE_ANYWAY, max_skew=skew, label_selector=LabelSelector()
    )
    for key, skew in ((HOSTNAME, 3), (ZONE, 5))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The knobs of one profile, with kube-scheduler's defaults unless said otherwise.

    Attributes:
        args: What the rules take from the arguments of the plugins, but for `daemon_namespaces`.
        daemon_namespaces: No required anti-affinity matches pods in these namespaces, whichever pod comes
            first ("co-existing with daemons" in the pod-affinity design document); empty in kube-scheduler.
        version: The version of Kubernetes whose answers are given.
        exact_namespace_selectors: Namespace selectors mean what they say in every version.
        weights: What a rule's normalized score counts; a rule that is missing is not scored.
        disabled: Rules that neither filter nor score.
        not_filtering: Rules that may score (see `weights`) but refuse no node.
    """

    args: PluginArguments = DEFAULT_ARGUMENTS
    daemon_namespaces: frozenset[str] = DEFAULT_DAEMON_NAMESPACES
    version: KubernetesVersion = NEWEST
    exact_namespace_selectors: bool = False
    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    disabled: frozenset[str] = frozenset()
    not_filtering: frozenset[str] = frozenset()
    gates: FeatureGates = DEFAULT_GATES

    @property
    def idle(self) -> frozenset[str]:
        """The rules that refuse no node."""
        return self.disabled | self.not_filtering

    @property
    def system_defaulted(self) -> bool:
        return self.args.defaulting_type == "System"

    @property
    def spread_defaults(self) -> tuple[TopologySpreadConstraint, ...]:
        return SYSTEM_DEFAULT_CONSTRAINTS if self.system_defaulted else self.args.default_constraints


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
        args=args,
        daemon_namespaces=daemons,
        weights=weights,
        disabled=_RULES - filtering - weights.keys(),
        not_filtering=(POINTS["filter"] - filtering).intersection(weights),
        gates=gates,
    )
