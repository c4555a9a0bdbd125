"""Amounts by the name of their resource: what is computed with them, and what a pod's containers ask for."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from operator import attrgetter
from typing import TypeVar

from berth.kube.amounts.quantity import Quantity, QuantityError, read, stored
from berth.kube.objects import Container, PodSpec, RawQuantity, ResourceList, ResourceRequirements

_Amount = TypeVar("_Amount", int, Quantity)
Amounts = Mapping[str, Quantity]
QuantityReader = Callable[[RawQuantity], Quantity]
ListOf = Callable[[ResourceRequirements], ResourceList | None]
ZERO, ONE = read("0"), read("1")


def amounts_in(listed: object) -> dict[str, Quantity]:
    """What a resource list of the API says; an amount that cannot be read is left out."""
    found = {}
    for name, raw in listed.items() if isinstance(listed, dict) else ():
        try:
            found[name] = stored(raw)
        except (QuantityError, TypeError):
            continue
    return found


def spelled(amounts: Amounts) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def whole(number: int) -> Quantity:
    return read(str(number))


def positive(raw: RawQuantity | None) -> bool:
    try:
        return raw is not None and read(raw).unscaled > 0
    except QuantityError:
        return False


def add(total: dict[str, _Amount], more: Mapping[str, _Amount]) -> None:
    for name, amount in more.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount


def raise_to(total: dict[str, _Amount], floor: Mapping[str, _Amount]) -> None:
    for name, amount in floor.items():
        known = total.get(name)
        if known is None or amount > known:
            total[name] = amount


def total(lists: Iterable[Amounts]) -> dict[str, Quantity]:
    result: dict[str, Quantity] = {}
    for amounts in lists:
        add(result, amounts)
    return result


def difference(first: Amounts, second: Amounts) -> dict[str, Quantity]:
    """By how much the first is more (or less) than the second; what is the same is left out."""
    changed = {name: first.get(name, ZERO).minus(second.get(name, ZERO)) for name in {**first, **second}}
    return {name: amount for name, amount in changed.items() if amount.unscaled}


def masked(amounts: Amounts, names: Collection[str]) -> dict[str, Quantity]:
    return {name: amount for name, amount in amounts.items() if name in names}


def same(first: Amounts, second: Amounts) -> bool:
    return first.keys() == second.keys() and not difference(first, second)


def shown(amounts: Amounts) -> str:
    """As refusals list them."""
    return ",".join(f"{name}={amount}" for name, amount in sorted(amounts.items()))


# --- what a pod's containers ask for together, by the rules of KEP-753 (sidecar containers) ------------
# Containers and sidecars run side by side, so their amounts add up; an ordinary init container runs alone
# beside the sidecars started before it, so only the largest such moment counts.

requests_of: ListOf = attrgetter("requests")
limits_of: ListOf = attrgetter("limits")


def is_sidecar(container: Container) -> bool:
    """Whether an init container keeps running beside the others."""
    return container.restart_policy == "Always"


def aggregate(spec: PodSpec, list_of: ListOf, reader: QuantityReader) -> dict[str, Quantity]:
    """The containers' combined requests or limits, read with `reader`."""

    def amounts(container: Container) -> dict[str, Quantity]:
        listed = list_of(container.resources) if container.resources else None
        return {name: reader(raw) for name, raw in listed.items()} if listed else {}

    return combined(spec, amounts, amounts)


def combined(
    spec: PodSpec,
    lasting: Callable[[Container], Mapping[str, _Amount]],
    preparing: Callable[[Container], Mapping[str, _Amount]],
) -> dict[str, _Amount]:
    """What a pod's containers need at most at any time.

    `lasting` says what a container needs that runs as long as the pod, `preparing` what one that ends before.
    """
    asked: dict[str, _Amount] = {}
    sidecars: dict[str, _Amount] = {}
    peak: dict[str, _Amount] = {}
    for container in spec.containers or ():
        add(asked, lasting(container))
    for container in spec.init_containers or ():
        if is_sidecar(container):
            amounts = lasting(container)
            add(asked, amounts)
            add(sidecars, amounts)
            raise_to(peak, sidecars)
        else:
            beside = dict(preparing(container))
            add(beside, sidecars)
            raise_to(peak, beside)
    raise_to(asked, peak)
    return asked
