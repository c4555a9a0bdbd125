"""Which plugins there are, and which of them a profile enables where.

The order of plugins, which the file may change, makes no difference in Berth: every rule is asked
about every node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from berth.kube.scheduler_configuration.wire import Plugin, Plugins, PluginSet
from berth.kube.validation.errors import Errors, Path

API_VERSION = "kubescheduler.config.k8s.io/v1"
MULTI_POINT = "multiPoint"
EVERY = "*"
Points = Mapping[str, frozenset[str]]  # extension point -> plugins

# The plugins of v1.37: which points each extends (no less than in v1.36), and what its score weighs.
_EXTENDED = {
    "SchedulingGates": "preEnqueue",
    "PrioritySort": "queueSort",
    "NodeName": "preFilter filter",
    "NodeUnschedulable": "preFilter filter",
    "TaintToleration": "preFilter filter preScore score=3",
    "NodeAffinity": "preFilter filter preScore score=2",
    "NodePorts": "preFilter filter",
    "NodeResourcesFit": "preFilter filter preScore score=1 placementScore",
    "VolumeRestrictions": "preFilter filter",
    "NodeVolumeLimits": "preFilter filter",
    "VolumeBinding": "preFilter filter preScore score=1 reserve preBind",
    "VolumeZone": "preFilter filter",
    "PodTopologySpread": "preFilter filter preScore score=2",
    "InterPodAffinity": "preFilter filter preScore score=2",
    "DynamicResources": "preEnqueue preFilter filter postFilter score=2 reserve preBind",
    "DefaultPreemption": "preEnqueue postFilter podGroupPostFilter",
    "NodeResourcesBalancedAllocation": "preScore score=1",
    "ImageLocality": "score=1",
    "DefaultBinder": "bind",
    "NodeDeclaredFeatures": "preFilter filter",
    "DeferredPodScheduling": "preFilter filter permit",
    "GangScheduling": "preEnqueue permit",
    "PodGroupPodsCount": "placementScore",
    "TopologyPlacementGenerator": "placementGenerate",
}
_PLUGINS = {name: dict(part.partition("=")[::2] for part in text.split()) for name, text in _EXTENDED.items()}
KNOWN = frozenset(_PLUGINS)
# The extension points, with the plugins that extend each.
POINTS: Points = MappingProxyType(
    {
        point: frozenset(name for name, points in _PLUGINS.items() if point in points)
        for point in Plugins.__struct_encode_fields__
        if point != MULTI_POINT
    }
)

# Berth has nothing that these could switch.
WITHOUT_EFFECT = frozenset({"DeferredPodScheduling", "PodGroupPodsCount", "TopologyPlacementGenerator"})
# Enabled unless a profile says otherwise, with the weights of those that score: all but these four.
_OPTIONAL = frozenset({"GangScheduling", *WITHOUT_EFFECT})
DEFAULTS: Mapping[str, int | None] = MappingProxyType(
    {
        name: int(points["score"]) if "score" in points else None
        for name, points in _PLUGINS.items()
        if name not in _OPTIONAL
    }
)
# Berth's rules of these names do not score.
UNSCORED = frozenset({"DynamicResources"})
# Removed from Kubernetes; a profile may still say that it does not want them.
REMOVED = frozenset({"AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"})
WAS_REMOVED = f'was invalid in version "v1" (KubeSchedulerConfiguration is version "{API_VERSION}")'

# 100 times the sum of all weights must stay far below 2**30, where the engine's scores end.
_MOST_WEIGHT = 1_000_000


def interface(point: str) -> str:
    """What upstream calls a plugin of an extension point."""
    return f"{point[0].upper()}{point[1:]}Plugin"


def enabled(plugins: Plugins, name: str, errors: Errors, path: Path) -> tuple[Points, dict[str, int]]:
    """What a profile enables, and the weights of what scores; `name` is its scheduler name."""
    for point in (MULTI_POINT, *POINTS):
        _check(plugins.at(point), point, errors, (*path, point))
    everywhere = _multi_point(plugins.at(MULTI_POINT))
    points = {point: _at(plugins.at(point), point, everywhere) for point in POINTS}
    if len(points["queueSort"]) != 1:
        detail = (
            f'only one queue sort plugin required for profile with scheduler name "{name}", '
            f"but got {len(points['queueSort'])}: enable PrioritySort"
        )
        errors.invalid((*path, "queueSort"), _names(plugins.at("queueSort")), detail)
    if not points["bind"]:
        detail = f'at least one bind plugin is needed for profile with scheduler name "{name}": DefaultBinder'
        errors.invalid((*path, "bind"), _names(plugins.at("bind")), detail)
    weights = everywhere | {plugin.name or "": plugin.weight for plugin in plugins.at("score").enabled or ()}
    chosen = {plugin: weights[plugin] or 1 for plugin in weights if plugin in points["score"]}
    if sum(chosen.values()) > _MOST_WEIGHT:
        detail = f"total score of Score plugins could overflow: their weights add up to over {_MOST_WEIGHT}"
        errors.invalid((*path, "score"), sum(chosen.values()), detail)
    return points, chosen


def _names(plugins: PluginSet) -> list[str]:
    return [plugin.name or "" for plugin in plugins.enabled or ()]


def _multi_point(given: PluginSet) -> dict[str, int | None]:
    """The plugins that are enabled wherever they fit, with their weights."""
    disabled = {plugin.name for plugin in given.disabled or ()}
    kept = {
        name: weight for name, weight in DEFAULTS.items() if EVERY not in disabled and name not in disabled
    }
    return kept | {plugin.name or "": plugin.weight for plugin in given.enabled or ()}


def _at(given: PluginSet, point: str, everywhere: Mapping[str, int | None]) -> frozenset[str]:
    explicit = frozenset(_names(given))
    disabled = {plugin.name for plugin in given.disabled or ()}
    if EVERY in disabled:
        return explicit
    return explicit | (POINTS[point].intersection(everywhere) - disabled)


def mentioned(plugins: Plugins) -> Iterator[str]:
    """The plugins that a profile enables by name, at any point."""
    for point in (MULTI_POINT, *POINTS):
        yield from _names(plugins.at(point))


# --- what is wrong ----------------------------------------------------------------------


def _check(given: PluginSet, point: str, errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, plugin in enumerate(given.enabled or ()):
        _check_enabled(plugin, point, seen, errors, (*path, "enabled", i))
        seen.add(plugin.name or "")
    for i, plugin in enumerate(given.disabled or ()):
        where, name = (*path, "disabled", i, "name"), plugin.name or ""
        if not name:
            errors.required(where, 'write the name of a plugin, or "*" for all')
        elif name != EVERY and name not in KNOWN and name not in REMOVED:
            errors.invalid(where, name, _unknown(name, point))


def _check_enabled(plugin: Plugin, point: str, seen: set[str], errors: Errors, path: Path) -> None:
    name, where = plugin.name or "", (*path, "name")
    if not name:
        errors.required(where, "write the name of a plugin")
    elif name in REMOVED:
        errors.invalid(path, name, WAS_REMOVED)
    elif name not in KNOWN:
        errors.invalid(where, name, _unknown(name, point))
    elif point != MULTI_POINT and name not in POINTS[point]:
        places = ", ".join(place for place, plugins in POINTS.items() if name in plugins)
        detail = f'plugin "{name}" does not extend {interface(point)} plugin, only {places}'
        errors.invalid(where, name, detail)
    elif name in seen:
        errors.invalid(where, name, f'plugin "{name}" already registered as "{interface(point)}"')
    if (plugin.weight or 0) < 0:
        detail = "must not be negative: disable the plugin for score if it is not to count"
        errors.invalid((*path, "weight"), plugin.weight, detail)


def _unknown(name: str, point: str) -> str:
    what = "plugin" if point == MULTI_POINT else interface(point)
    return f'{what} "{name}" does not exist: Berth has the plugins of kube-scheduler v1.37 and no others'
