"""What a pod's containers ask for together, by the rules of KEP-753 (sidecar containers).

Containers and sidecars run side by side, so their amounts add up; an ordinary init
container runs alone beside the sidecars started before it, so only the largest such
moment counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from berth.kube.amounts.quantity import Quantity
from berth.kube.objects import Container, PodSpec, RawQuantity, ResourceList, ResourceRequirements

Amounts = dict[str, Quantity]
Reader = Callable[[RawQuantity], Quantity]
ListOf = Callable[[ResourceRequirements], ResourceList | None]


def requests_of(resources: ResourceRequirements) -> ResourceList | None:
    return resources.requests


def limits_of(resources: ResourceRequirements) -> ResourceList | None:
    return resources.limits


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def aggregate(spec: PodSpec, list_of: ListOf, reader: Reader) -> Amounts:
    """The containers' combined requests or limits, read with `reader`."""
    total: Amounts = {}
    for container in spec.containers or ():
        _add(total, _amounts(container, list_of, reader))
    sidecars: Amounts = {}
    peak: Amounts = {}
    for container in spec.init_containers or ():
        amounts = _amounts(container, list_of, reader)
        if is_sidecar(container):
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            _add(amounts, sidecars)
        _raise_to(peak, amounts)
    _raise_to(total, peak)
    return total


def _amounts(container: Container, list_of: ListOf, reader: Reader) -> Amounts:
    listed = list_of(container.resources) if container.resources else None
    return {name: reader(raw) for name, raw in listed.items()} if listed else {}


def _add(total: Amounts, more: Mapping[str, Quantity]) -> None:
    for name, quantity in more.items():
        known = total.get(name)
        total[name] = quantity if known is None else known.plus(quantity)


def _raise_to(total: Amounts, floor: Mapping[str, Quantity]) -> None:
    for name, quantity in floor.items():
        known = total.get(name)
        if known is None or quantity.exceeds(known):
            total[name] = quantity
