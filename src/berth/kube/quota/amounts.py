"""Amounts by the name of their resource, and what is computed with them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from berth.kube.amounts.quantity import Quantity, QuantityError, read, stored
from berth.kube.objects import RawQuantity

Amounts = Mapping[str, Quantity]
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


def total(lists: Iterable[Amounts]) -> dict[str, Quantity]:
    result: dict[str, Quantity] = {}
    for amounts in lists:
        for name, amount in amounts.items():
            known = result.get(name)
            result[name] = amount if known is None else known.plus(amount)
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
