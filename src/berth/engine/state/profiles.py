"""A profile of a scheduler's configuration as options of the engine."""

from __future__ import annotations

from dataclasses import replace

from berth.engine.state.options import DEFAULT_WEIGHTS, Options
from berth.kube.gates import FeatureGates
from berth.kube.scheduler_configuration import Profile
from berth.kube.scheduler_configuration.plugins import POINTS, WITHOUT_EFFECT

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
