"""The arguments of plugins (``pluginConfig``): decoded, checked and defaulted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from berth.kube import names
from berth.kube.objects import NodeAffinity, TopologySpreadConstraint
from berth.kube.scheduler_configuration import plugins, wire
from berth.kube.scheduler_configuration.model import PluginArguments, ScoringStrategyType, Shape
from berth.kube.selectors import NodeTerm, parse_node_selector, parse_preferred_terms
from berth.kube.text.decoding import DecodeError, convert, unknown_field
from berth.kube.times import DurationError, parse_duration
from berth.kube.validation.errors import Errors, FieldError, Path, render

_GROUP = "kubescheduler.config.k8s.io"
_STRATEGIES = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_MOST_POINTS = 10
_HUNDRED = 100

Found = dict[str, Any]  # fields of PluginArguments


class UnknownFieldError(Exception):
    """`path` leads to a field that there is not."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


@dataclass(slots=True)
class Reading:
    """What was found in a profile's ``pluginConfig``."""

    errors: Errors
    notes: list[str] = field(default_factory=list)
    found: Found = field(default_factory=dict)


def read_arguments(given: Sequence[wire.PluginConfig], reading: Reading, path: Path) -> PluginArguments:
    """The arguments of a profile.

    Raises:
        DecodeError: a value does not have the form its field needs.
        UnknownFieldError: there is no such field.
    """
    seen: set[str] = set()
    for i, config in enumerate(given):
        name, place = config.name or "", (*path, i)
        reading.errors.once(seen, place, name)
        if not name:
            reading.errors.required((*place, "name"), "write the name of a plugin")
        elif name in plugins.REMOVED:
            reading.errors.invalid(place, name, plugins.removed())
        elif name not in plugins.KNOWN:
            detail = "no such plugin: Berth has the plugins of kube-scheduler v1.37 and no others"
            reading.errors.invalid((*place, "name"), name, detail)
        elif name not in _READERS:
            reading.notes.append(f"{render(place)}: {name} takes no arguments")
        else:
            _read_one(name, dict(config.args or {}), reading, (*place, "args"))
    return PluginArguments() if reading.errors else PluginArguments(**reading.found)


def _read_one(name: str, raw: dict[str, object], reading: Reading, path: Path) -> None:
    kind, read = _READERS[name]
    _check_kind(name, raw, reading.errors, path)
    try:
        view = convert(raw, kind)
    except DecodeError as error:
        raise DecodeError(_joined(path, error.path), error.detail, error.value) from None
    if (unknown := unknown_field(raw, view)) is not None:
        raise UnknownFieldError(_joined(path, unknown.path))
    read(view, reading, path)


def _joined(path: Path, rest: str) -> str:
    return render(path) + (rest if not rest or rest.startswith("[") else f".{rest}")


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


def _inter_pod_affinity(args: wire.InterPodAffinityArgs, reading: Reading, path: Path) -> None:
    weight = args.hard_pod_affinity_weight
    if weight is not None:
        _check_range(weight, _HUNDRED, reading.errors, (*path, "hardPodAffinityWeight"))
        reading.found["hard_pod_affinity_weight"] = weight
    reading.found["ignore_preferred_terms_of_existing_pods"] = bool(
        args.ignore_preferred_terms_of_existing_pods
    )
    if args.daemon_namespaces is not None:
        for i, name in enumerate(args.daemon_namespaces):
            for detail in names.dns_label_errors(name):
                reading.errors.invalid((*path, "daemonNamespaces", i), name, detail)
        reading.found["daemon_namespaces"] = tuple(args.daemon_namespaces)


def _node_affinity(args: wire.NodeAffinityArgs, reading: Reading, path: Path) -> None:
    if args.added_affinity is not None:
        _check_added_affinity(args.added_affinity, reading.errors, (*path, "addedAffinity"))
        reading.found["added_affinity"] = args.added_affinity


def _check_added_affinity(added: NodeAffinity, errors: Errors, path: Path) -> None:
    for name, selector in (
        ("Required", added.required_during_scheduling_required_during_execution),
        ("Ignored", added.required_during_scheduling_ignored_during_execution),
    ):
        parsed = parse_node_selector(selector)
        field_name = f"requiredDuringScheduling{name}DuringExecution"
        _check_terms(parsed.terms if parsed else (), f"{render((*path, field_name))}.", errors)
    preferred = parse_preferred_terms(added.preferred_during_scheduling_ignored_during_execution)
    place = render((*path, "preferredDuringSchedulingIgnoredDuringExecution"))
    _check_terms([weighted.term for weighted in preferred], place, errors)


def _check_terms(terms: Sequence[NodeTerm], place: str, errors: Errors) -> None:
    errors.extend(_from_sentence(f"{place}{sentence}") for term in terms for sentence in term.errors)


def _from_sentence(sentence: str) -> FieldError:
    """What the selectors' parser says, which has put it into words already."""
    where, _, rest = sentence.partition(": ")
    return _WordedError(where, "FieldValueInvalid", rest)


class _WordedError(FieldError, frozen=True):
    def __str__(self) -> str:
        return f"{self.field}: {self.detail}"


def _pod_topology_spread(args: wire.PodTopologySpreadArgs, reading: Reading, path: Path) -> None:
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
        key = (constraint.topology_key or "", constraint.when_unsatisfiable or "")
        if key in seen:
            reading.errors.duplicate(place, f"{{{key[0]}, {key[1]}}}")
        seen.add(key)
    reading.found |= {"defaulting_type": kind, "default_constraints": tuple(constraints)}


def _check_constraint(constraint: TopologySpreadConstraint, errors: Errors, path: Path) -> None:
    if (constraint.max_skew or 0) <= 0:
        errors.invalid((*path, "maxSkew"), constraint.max_skew or 0, "not in valid range (0, inf)")
    key, action = constraint.topology_key or "", constraint.when_unsatisfiable or ""
    if not key:
        errors.required((*path, "topologyKey"), "can not be empty")
    else:
        errors.invalid_for_each((*path, "topologyKey"), key, names.label_key_errors(key))
    if not action:
        errors.required((*path, "whenUnsatisfiable"), "can not be empty")
    else:
        errors.one_of((*path, "whenUnsatisfiable"), action, _ACTIONS)
    if constraint.label_selector is not None:
        detail = "constraint must not define a selector, as they deduced for each pod"
        errors.forbidden((*path, "labelSelector"), detail)


def _node_resources_fit(args: wire.NodeResourcesFitArgs, reading: Reading, path: Path) -> None:
    ignored, groups = args.ignored_resources or [], args.ignored_resource_groups or []
    for i, name in enumerate(ignored):
        reading.errors.invalid_for_each((*path, "ignoredResources", i), name, names.label_key_errors(name))
    for i, group in enumerate(groups):
        place = (*path, "ignoredResourceGroups", i)
        if "/" in group:
            reading.errors.invalid(place, group, "resource group name can't contain '/'")
        reading.errors.invalid_for_each(place, group, names.label_key_errors(group))
    reading.found |= {"ignored_resources": tuple(ignored), "ignored_resource_groups": tuple(groups)}
    if args.scoring_strategy is not None:
        _scoring_strategy(args.scoring_strategy, reading, (*path, "scoringStrategy"))


def _scoring_strategy(strategy: wire.ScoringStrategy, reading: Reading, path: Path) -> None:
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


def _shape(points: Sequence[wire.ShapePoint], errors: Errors, path: Path) -> Shape:
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
    args: wire.NodeResourcesBalancedAllocationArgs, reading: Reading, path: Path
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


def _default_preemption(args: wire.DefaultPreemptionArgs, reading: Reading, path: Path) -> None:
    share, number = args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
    if share is not None:
        _check_range(share, _HUNDRED, reading.errors, (*path, "minCandidateNodesPercentage"))
        reading.found["min_candidate_nodes_percentage"] = share
    if number is not None:
        if number < 0:
            where = (*path, "minCandidateNodesAbsolute")
            reading.errors.invalid(where, number, "not in valid range [0, inf)")
        reading.found["min_candidate_nodes_absolute"] = number
    if share == 0 and number == 0:
        detail = "cannot be zero at the same time as minCandidateNodesAbsolute"
        reading.errors.invalid((*path, "minCandidateNodesPercentage"), 0, detail)
    if (share, number) not in ((None, None), (10, None), (None, 100), (10, 100)):
        reading.notes.append(
            f"{render(path)} has no effect: preemption looks at 10 % of the nodes, at least 100"
        )


def _volume_binding(args: wire.VolumeBindingArgs, reading: Reading, path: Path) -> None:
    timeout = args.bind_timeout_seconds
    if timeout is not None:
        if timeout < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            reading.errors.invalid((*path, "bindTimeoutSeconds"), timeout, detail)
        reading.found["bind_timeout_seconds"] = timeout
    if args.shape is not None:
        reading.found["storage_shape"] = _shape(args.shape, reading.errors, (*path, "shape"))


def _dynamic_resources(args: wire.DynamicResourcesArgs, reading: Reading, path: Path) -> None:
    for name, text in (("filterTimeout", args.filter_timeout), ("bindingTimeout", args.binding_timeout)):
        if text is None:
            continue
        value = read_duration(text, reading.errors, (*path, name))
        if name == "filterTimeout" and value < 0:
            reading.errors.invalid((*path, name), text, "must be zero or positive")
        if name == "bindingTimeout":
            if value < 1:
                reading.errors.invalid((*path, name), text, "must be at least 1 second")
            reading.found["device_timeout_seconds"] = value
        else:
            reading.notes.append(f"{render((*path, name))} has no effect: Berth allocates no devices")


def read_duration(text: str, errors: Errors, path: Path) -> float:
    try:
        return parse_duration(text)
    except DurationError as error:
        errors.invalid(path, text, f"{error}: write it like 15s or 1m30s")
        return 1.0


_READERS: Mapping[str, tuple[type[wire.Arguments], Callable[[Any, Reading, Path], None]]] = {
    "InterPodAffinity": (wire.InterPodAffinityArgs, _inter_pod_affinity),
    "NodeAffinity": (wire.NodeAffinityArgs, _node_affinity),
    "PodTopologySpread": (wire.PodTopologySpreadArgs, _pod_topology_spread),
    "NodeResourcesFit": (wire.NodeResourcesFitArgs, _node_resources_fit),
    "NodeResourcesBalancedAllocation": (wire.NodeResourcesBalancedAllocationArgs, _balanced_allocation),
    "DefaultPreemption": (wire.DefaultPreemptionArgs, _default_preemption),
    "VolumeBinding": (wire.VolumeBindingArgs, _volume_binding),
    "DynamicResources": (wire.DynamicResourcesArgs, _dynamic_resources),
}
