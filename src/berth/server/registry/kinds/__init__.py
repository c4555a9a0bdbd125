"""The one list of the built-in kinds' strategies, and the choice of a custom resource's.

A new built-in kind is a new module with `STRATEGIES` in one of the folders here.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import walk_packages

from berth.kube.objects import RawObject
from berth.kube.schema import Schema
from berth.kube.versions import KubernetesVersion
from berth.server.registry.kinds.custom import karmada
from berth.server.registry.kinds.custom.resources import CustomStrategy
from berth.server.registry.strategy import ServedResource, Strategy

# In the order in which discovery tells of them.
_GROUPS = (
    "",
    "apps",
    "batch",
    "autoscaling",
    "policy",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "discovery.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "storage.k8s.io",
    "resource.k8s.io",
    "rbac.authorization.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
)


def _place(strategy: Strategy) -> tuple[int, str, str]:
    resource = strategy.resource
    known = _GROUPS.index(resource.group) if resource.group in _GROUPS else len(_GROUPS)
    return known, resource.version, resource.plural


def _found() -> Iterator[Strategy]:
    for module in walk_packages(__path__, f"{__name__}."):
        yield from getattr(import_module(module.name), "STRATEGIES", ())


STRATEGIES: tuple[Strategy, ...] = tuple(sorted(_found(), key=_place))


def strategies_of(version: KubernetesVersion) -> tuple[Strategy, ...]:
    """Those of the kinds that a server of this version has."""
    return tuple(strategy for strategy in STRATEGIES if strategy.is_served(version))


_BY_KIND = {(each.resource.group, each.resource.kind): each for each in STRATEGIES}


def default(group: str, kind: str, obj: RawObject) -> None:
    """Fill in what an object of a built-in kind leaves out, in place; nothing for any other kind."""
    strategy = _BY_KIND.get((group, kind))
    if strategy is not None:
        strategy.default(obj)


def strategy_of_custom(resource: ServedResource, crd: RawObject, schema: Schema | None) -> Strategy:
    """The strategy of a custom resource; Karmada's kinds have rules beside their schema."""
    return karmada.BY_GROUP.get(resource.group, CustomStrategy).of(resource, crd, schema)
