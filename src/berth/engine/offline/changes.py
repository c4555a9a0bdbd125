"""A single change to a pod or to its cluster that might make the pod fit.

Each change knows its loosest form (the constraint dropped, the request gone) and, where there is
something in between, how to find the smallest form that still helps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from berth.engine.offline.variants import Variant, WhatIf

if TYPE_CHECKING:
    from berth.kube.objects import Node, Pod, PodSpec

# Both kinds of requirement, as attribute and on the wire.
REQUIRED = {
    "required_during_scheduling_ignored_during_execution": "requiredDuringSchedulingIgnoredDuringExecution",
    "required_during_scheduling_required_during_execution": "requiredDuringSchedulingRequiredDuringExecution",
}
# Changes of each kind, so that odd clusters (a taint of its own on every node) stay bounded.
MOST = 12
_NAMES_SHOWN = 3

_T = TypeVar("_T")
Apply = Callable[[Variant], Variant]


@dataclass(frozen=True, slots=True)
class Change:
    """A change to try.

    Attributes:
        kind: What is changed, for programs: ``spread-max-skew``, ``toleration`` ...
        path: The field it is about, in the pod unless `object` names something else.
        phrase: The change in words: ``without the nodeSelector disk=ssd``.
        refine: Given the variant with all *other* changes made, the smallest form of this change.
        group: Only one change of a group is reported, the one that helps most.
    """

    kind: str
    path: str
    phrase: str
    apply: Apply
    object: str | None = None
    value: str | None = None
    refine: Callable[[Variant], Change] | None = field(default=None, compare=False)
    group: str | None = None


def on_pod(change: Callable[[PodSpec], PodSpec]) -> Apply:
    return lambda variant: replace_pod(variant, replace(variant.pod, spec=change(variant.pod.spec)))


def replace_pod(variant: Variant, pod: Pod) -> Variant:
    return Variant(pod, variant.nodes, variant.peers)


def on_nodes(what_if: WhatIf, names: Iterable[str], change: Callable[[Node], Node]) -> Apply:
    names = list(names)

    def apply(variant: Variant) -> Variant:
        current = {name: variant.nodes.get(name) or what_if.nodes[name] for name in names}
        changed = {name: change(node) for name, node in current.items()}
        return Variant(variant.pod, {**variant.nodes, **changed}, variant.peers)

    return apply


def listed(names: list[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN])
    return shown if len(names) <= _NAMES_SHOWN else f"{shown} and {len(names) - _NAMES_SHOWN} more"


def short(topology_key: str | None) -> str:
    return (topology_key or "").rpartition("/")[2]


def without(items: list[_T] | None, item: _T) -> list[_T] | None:
    return [kept for kept in items or () if kept is not item] or None


def nodes_object(names: list[str]) -> str:
    return f"node {names[0]}" if len(names) == 1 else f"nodes {', '.join(names)}"


def only_helpful(
    what_if: WhatIf, names: list[str], apply: Apply, make: Callable[[WhatIf, list[str]], Change]
) -> Callable[[Variant], Change]:
    """Narrow a change of many nodes to those that then take the pod."""

    def refine(others: Variant) -> Change:
        fitting = set(what_if.names(what_if.fitting(apply(others))))
        return make(what_if, [name for name in names if name in fitting] or names)

    return refine
