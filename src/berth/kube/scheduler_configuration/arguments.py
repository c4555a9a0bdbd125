"""The arguments of plugins (``pluginConfig``): decoded, checked and defaulted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from berth.kube import names
from berth.kube.objects import NodeAffinity, TopologySpreadConstraint
from berth.kube.scheduler_configuration import plugins, wire
from berth.kube.scheduler_configuration.model import PluginArguments, ScoringStrategyType, UtilizationShape
from berth.kube.selectors import NodeTerm, parse_node_selector, parse_preferred_terms
from berth.kube.text.decoding import convert_fully
from berth.kube.times import DurationError, parse_duration
from berth.kube.validation.errors import INVALID, Errors, FieldError, Path, render
from berth.kube.well_known import DO_NOT_SCHEDULE, PREFERRED_DURING_SCHEDULING, SCHEDULE_ANYWAY

_GROUP = plugins.API_VERSION.partition("/")[0]
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_ACTIONS = (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY)
_MOST_POINTS = 10
_HUNDRED = 100

_Arguments = dict[str, Any]  # fields of PluginArguments


@dataclass(slots=True)
class ParsedArguments:
    """What was found in a profile's ``pluginConfig``."""

    errors: Errors
    notes: list[str] = field(default_factory=list)
    found: _Arguments = field(default_factory=dict)


def read_arguments(
    given: Sequence[wire.PluginConfig], reading: ParsedArguments, path: Path
) -> PluginArguments:
    """The arguments of a profile; raises what `convert_fully` does."""
    seen: set[str] = set()
    for i, config in enumerate(given):
        name, place = config.name or "", (*path, i)
        reading.errors.once(seen, place, name)
        if not name:
            reading.errors.required((*place, "name"), "write the name of a plugin")
        elif name in plugins.REMOVED:
            reading.errors.invalid(place, name, plugins.WAS_REMOVED)
        elif name not in plugins.KNOWN:
            detail = "no such plugin: Berth has the plugins of kube-scheduler v1.37 and no others"
            reading.errors.invalid((*place, "name"), name, detail)
        elif name not in _READERS:
            reading.notes.append(f"{render(place)}: {name} takes no arguments")
        else:
            _read_one(name, dict(config.args or {}), reading, (*place, "args"))
    return PluginArguments() if reading.errors else PluginArguments(**reading.found)


def _read_one(name: str, raw: dict[str, object], reading: ParsedArguments, path: Path) -> None:
    kind, read = _READERS[name]
    _check_kind(name, raw, reading.errors, path)
    view = convert_fully(raw, kind, render(path))
    # What has the same name in both is taken as it is given; the rest is the plugin's.
    given = {each: getattr(view, each, None) for each in PluginArguments.__dataclass_fields__}
    for each, value in given.items():
        if value is not None:
            reading.found[each] = tuple(value) if isinstance(value, list) else value
    read(view, reading, path)


def _check_kind(name: str, raw: Mapping[str, object], errors: Errors, path: Path) -> None:
    version, kind = raw.get("apiVersion"), raw.get("kind")
    if version is not None and version != plugins.API_VERSION:
        errors.invalid((*path, "apiVersion"), version, f'write "{plugins.API_VERSION}", or leave it out')
    if kind is not None and kind != f"{name}Args":
        detail = f"args for plugin {name} were not of type {name}Args.{_GROUP}, got {kind}.{_GROUP}"
        errors.invalid((*path, "kind"), kind, detail)


def _check_range(value: int, most: int, errors: Errors, path: Path) -> None:
    if not 0 <= value <= most:
        errors.invalid(path, value, f"not in valid range [0, {most}]")


# --- one plugin each --------------------------------------------------------------------


def _inter_pod_affinity(args: wire.InterPodAffinityArgs, reading: ParsedArguments, path: Path) -> None:
    if args.hard_pod_affinity_weight is not None:
        where = (*path, "hardPodAffinityWeight")
        _check_range(args.hard_pod_affinity_weight, _HUNDRED, reading.errors, where)
    for i, name in enumerate(args.daemon_namespaces or ()):
        reading.errors.invalid_for_each((*path, "daemonNamespaces", i), name, names.dns_label_errors(name))


def _node_affinity(args: wire.NodeAffinityArgs, reading: ParsedArguments, path: Path) -> None:
    added, path = args.added_affinity or NodeAffinity(), (*path, "addedAffinity")
    for name, selector in added.required:
        parsed = parse_node_selector(selector)
        _check_terms(parsed.terms if parsed else (), f"{render((*path, name))}.", reading.errors)
    preferred = parse_preferred_terms(added.preferred_during_scheduling_ignored_during_execution)
    place = render((*path, PREFERRED_DURING_SCHEDULING))
    _check_terms([weighted.term for weighted in preferred], place, reading.errors)


def _check_terms(terms: Sequence[NodeTerm], place: str, errors: Errors) -> None:
    """What the selectors' parser says, which has put it into words already."""
    for sentence in (sentence for term in terms for sentence in term.errors):
        where, _, rest = sentence.partition(": ")
        errors.append(_WordedError(f"{place}{where}", INVALID, rest))


class _WordedError(FieldError, frozen=True):
    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


def _pod_topology_spread(args: wire.PodTopologySpreadArgs, reading: ParsedArguments, path: Path) -> None:
    kind, constraints = args.defaulting_type or "System", args.default_constraints or []
    where = (*path, "defaultingType")
    if kind not in ("System", "List"):
        reading.errors.not_supported(where, kind, ("System", "List"))
    elif kind == "System" and constraints:
        detail = "when .defaultConstraints are not empty: write defaultingType: List"
        reading.errors.invalid(where, kind, detail)
    seen: set[tuple[str, str]] = set()
    for i, constraint in enumerate(constraints):
        place = (*path, "defaultConstraints", i)
        _check_constraint(constraint, reading.errors, place)
        key, action = constraint.topology_key or "", constraint.when_unsatisfiable or ""
        reading.errors.once(seen, place, (key, action), f"{{{key}, {action}}}")
    reading.found["defaulting_type"] = kind


def _check_constraint(constraint: TopologySpreadConstraint, errors: Errors, path: Path) -> None:
    if (constraint.max_skew or 0) <= 0:
        errors.invalid((*path, "maxSkew"), constraint.max_skew or 0, "not in valid range (0, inf)")
    errors.named((*path, "topologyKey"), constraint.topology_key, names.label_key_errors, "can not be empty")
    if not constraint.when_unsatisfiable:
        errors.required((*path, "whenUnsatisfiable"), "can not be empty")
    errors.one_of((*path, "whenUnsatisfiable"), constraint.when_unsatisfiable or None, _ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.forbidden((*path, "labelSelector"), detail)


def _node_resources_fit(args: wire.NodeResourcesFitArgs, reading: ParsedArguments, path: Path) -> None:
    for i, name in enumerate(args.ignored_resources or ()):
        reading.errors.invalid_for_each((*path, "ignoredResources", i), name, names.label_key_errors(name))
    for i, group in enumerate(args.ignored_resource_groups or ()):
        place = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            reading.errors.invalid(place, group, "resource group name can't contain '/'")
        reading.errors.invalid_for_each(place, group, names.label_key_errors(group))
    if args.scoring_strategy is not None:
        _scoring_strategy(args.scoring_strategy, reading, (*path, "scoringStrategy"))


def _scoring_strategy(strategy: wire.ScoringStrategy, reading: ParsedArguments, path: Path) -> None:
    kind, errors = strategy.type or "", reading.errors
    errors.one_of((*path, "type"), kind, _STRATEGIES)
    # The same resource may be there twice, and then counts as often as both weights say.
    resources: dict[str, int] = {}
    for i, resource in enumerate(strategy.resources or ()):
        name, weight = resource.name or "", resource.weight or 1
        if not 0 < weight <= _HUNDRED:
            detail = f"resource weight of {name} not in valid range (0, 100]"
            errors.invalid((*path, "resources", i, "weight"), weight, detail)
        resources[name] = resources.get(name, 0) + weight
    if resources:
        reading.found["scoring_resources"] = tuple(resources.items())
    reading.found["scoring_strategy"] = cast("ScoringStrategyType", kind)
    ratio, where = strategy.requested_to_capacity_ratio, (*path, "requestedToCapacityRatio")
    if kind != "RequestedToCapacityRatio":
        if ratio is not None:
            errors.forbidden(where, "must be nil when type is not RequestedToCapacityRatio")
    elif ratio is None:
        errors.required(where, "must be specified when type is RequestedToCapacityRatio")
    else:
        reading.found["scoring_shape"] = _shape(ratio.shape or [], errors, (*where, "shape"))


def _shape(points: Sequence[wire.ShapePoint], errors: Errors, path: Path) -> UtilizationShape:
    if not points:
        errors.required(path, "at least one point must be specified")
    shape = tuple((point.utilization or 0, point.score or 0) for point in points)
    for i, (utilization, _) in enumerate(shape[1:], start=1):
        if shape[i - 1][0] >= utilization:
            detail = "values must be sorted in increasing order"
            errors.invalid((*path, i, "utilization"), utilization, detail)
            break
    for i, (utilization, score) in enumerate(shape):
        _check_range(utilization, _HUNDRED, errors, (*path, i, "utilization"))
        _check_range(score, _MOST_POINTS, errors, (*path, i, "score"))
    return shape


def _balanced_allocation(
    args: wire.NodeResourcesBalancedAllocationArgs, reading: ParsedArguments, path: Path
) -> None:
    listed: list[str] = []
    for i, resource in enumerate(args.resources or ()):
        name, place = resource.name or "", (*path, "resources", i)
        if name in listed:
            reading.errors.duplicate((*place, "name"), name)
        if (resource.weight or 1) != 1:
            reading.errors.invalid((*place, "weight"), resource.weight, "must be 1")
        listed.append(name)
    if listed:
        reading.found["balanced_resources"] = tuple(listed)


def _default_preemption(args: wire.DefaultPreemptionArgs, reading: ParsedArguments, path: Path) -> None:
    share, number = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if share is not None:
        _check_range(share, _HUNDRED, reading.errors, (*path, "minCandidateNodesPercentage"))
    if number is not None and number < 0:
        where = (*path, "minCandidateNodesAbsolute")
        reading.errors.invalid(where, number, "not in valid range [0, inf)")
    if share == 0 and number == 0:
        detail = "cannot be zero at the same time as minCandidateNodesAbsolute"
        reading.errors.invalid((*path, "minCandidateNodesPercentage"), 0, detail)
    if (share, number) not in ((None, None), (10, None), (None, 100), (10, 100)):
        why = "preemption looks at 10 % of the nodes, at least 100"
        reading.notes.append(f"{render(path)} has no effect: {why}")


def _volume_binding(args: wire.VolumeBindingArgs, reading: ParsedArguments, path: Path) -> None:
    timeout = args.bind_timeout_seconds
    if timeout is not None and timeout < 0:
        detail = "invalid BindTimeoutSeconds, should not be a negative value"
        reading.errors.invalid((*path, "bindTimeoutSeconds"), timeout, detail)
    if args.shape is not None:
        reading.found["storage_shape"] = _shape(args.shape, reading.errors, (*path, "shape"))


def _dynamic_resources(args: wire.DynamicResourcesArgs, reading: ParsedArguments, path: Path) -> None:
    if (text := args.filter_timeout) is not None:
        where = (*path, "filterTimeout")
        if read_duration(text, reading.errors, where) < 0:
            reading.errors.invalid(where, text, "must be zero or positive")
        reading.notes.append(f"{render(where)} has no effect: Berth allocates no devices")
    if (text := args.binding_timeout) is not None:
        where = (*path, "bindingTimeout")
        reading.found["device_timeout_seconds"] = read_duration(text, reading.errors, where)
        if reading.found["device_timeout_seconds"] < 1:
            reading.errors.invalid(where, text, "must be at least 1 second")


def read_duration(text: str, errors: Errors, path: Path) -> float:
    try:
        return parse_duration(text)
    except DurationError as error:
        errors.invalid(path, text, f"{error}: write it like 15s or 1m30s")
        return 1.0


_READERS: Mapping[str, tuple[type[wire.Arguments], Callable[[Any, ParsedArguments, Path], None]]] = {
    "InterPodAffinity": (wire.InterPodAffinityArgs, _inter_pod_affinity),
    "NodeAffinity": (wire.NodeAffinityArgs, _node_affinity),
    "PodTopologySpread": (wire.PodTopologySpreadArgs, _pod_topology_spread),
    "NodeResourcesFit": (wire.NodeResourcesFitArgs, _node_resources_fit),
    "NodeResourcesBalancedAllocation": (wire.NodeResourcesBalancedAllocationArgs, _balanced_allocation),
    "DefaultPreemption": (wire.DefaultPreemptionArgs, _default_preemption),
    "VolumeBinding": (wire.VolumeBindingArgs, _volume_binding),
    "DynamicResources": (wire.DynamicResourcesArgs, _dynamic_resources),
}
