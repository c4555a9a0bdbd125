"""Numbers and lists as sentences have them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


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
