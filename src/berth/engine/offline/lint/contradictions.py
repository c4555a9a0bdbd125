"""Requirements that nothing can meet all of, found by trying every value that could make a difference."""

from __future__ import annotations

from collections.abc import Iterable

from berth.kube.selectors import GT, LT, Requirement, parse_int64


def satisfiable(requirements: Iterable[Requirement]) -> bool:
    """Whether an object can have labels that match all of them."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return all(_has_value(of_key) for of_key in by_key.values())


def conflict(requirements: Iterable[Requirement]) -> list[Requirement]:
    """Those that contradict each other, about one label; none if they do not."""
    by_key: dict[str, list[Requirement]] = {}
    for requirement in requirements:
        by_key.setdefault(requirement.key, []).append(requirement)
    return next((of_key for of_key in by_key.values() if not _has_value(of_key)), [])


def _has_value(requirements: list[Requirement]) -> bool:
    """Any value behaves like one that is named, like a number near one that is, or like all others."""
    named = {value for requirement in requirements for value in requirement.values}
    values: set[str | None] = {None, "~", *named}  # no label can have the second
    if any(requirement.operator in (GT, LT) for requirement in requirements):
        numbers = [number for number in map(parse_int64, named) if number is not None]
        steps = range(-len(named) - 1, len(named) + 2)  # beyond all that are excluded one by one
        values |= {str(number + step) for number in numbers for step in steps}
    return any(all(r.matches_value(value) for r in requirements) for value in values)
