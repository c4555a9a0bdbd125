"""The one list of the built-in kinds' strategies, and the choice of a custom resource's.

A new built-in kind is a new module with `STRATEGIES` in one of the folders here. One that begins a new API
group says in `GROUP_PRIORITIES` where discovery tells of the group, by the number that upstream gives it
(pkg/controlplane: the GroupPriorityMinimum of an APIService): the highest comes first.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import walk_packages

from berth.kube.objects import RawObject
from berth.kube.schema import Schema
from berth.kube.versions import KubernetesVersion
from berth.server.registry.kinds.custom import karmada
from berth.server.registry.kinds.custom.resources import CustomStrategy
from berth.server.registry.strategy import ServedResource, Strategy

_MODULES = tuple(import_module(module.name) for module in walk_packages(__path__, f"{__name__}."))
_PRIORITIES: dict[str, int] = {}
for _module in _MODULES:
    _PRIORITIES |= getattr(_module, "GROUP_PRIORITIES", {})


def _place(strategy: Strategy) -> tuple[int, str, str, str]:
    resource = strategy.resource
    return -_PRIORITIES.get(resource.group, 0), resource.group, resource.version, resource.plural


STRATEGIES: tuple[Strategy, ...] = tuple(
    sorted((each for module in _MODULES for each in getattr(module, "STRATEGIES", ())), key=_place)
)
_BY_KIND = {(each.resource.group, each.resource.kind): each for each in STRATEGIES}


def strategies_of(version: KubernetesVersion) -> tuple[Strategy, ...]:
    """Those of the kinds that a server of this version has."""
    return tuple(strategy for strategy in STRATEGIES if strategy.is_served(version))


def default(group: str, kind: str, obj: RawObject) -> None:
    """Fill in what an object of a built-in kind leaves out, in place; nothing for any other kind."""
    strategy = _BY_KIND.get((group, kind))
    if strategy is not None:
        strategy.default(obj)


def strategy_of_custom(resource: ServedResource, crd: RawObject, schema: Schema | None) -> Strategy:
    """The strategy of a custom resource; Karmada's kinds have rules beside their schema."""
    return karmada.BY_GROUP.get(resource.group, CustomStrategy).of(resource, crd, schema)
