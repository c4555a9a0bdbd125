"""Numbers and lists as sentences have them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")

_MOST_TEXT = 1024 * 1024


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def first_of(names: Sequence[str], most: int) -> str:
    """The first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def aggregated(errors: Iterable[str]) -> str:
    """Several errors in one sentence, as Kubernetes joins them: no repeats, bracketed if more than one."""
    unique = list(dict.fromkeys(errors))
    return unique[0] if len(unique) == 1 else f"[{', '.join(unique)}]"


def told(found: Iterable[_T], most: int, text: Callable[[_T], int]) -> Iterator[_T]:
    """As much of what was found as anybody is told of, in number and in characters, which `text` counts."""
    size = 0
    for number, one in enumerate(found, 1):
        yield one
        size += text(one)
        if number == most or size > _MOST_TEXT:
            return
