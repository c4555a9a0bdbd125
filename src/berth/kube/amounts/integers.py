"""Integers in annotations, labels, names and selectors: what Go's strconv takes, and nothing else."""

from __future__ import annotations

import re

_integer = re.compile(r"[+-]?[0-9]+").fullmatch
_cost = re.compile(r"0|[1-9][0-9]*|-[0-9]+").fullmatch


def integer(text: str, bits: int = 64, *, least: int | None = None) -> int | None:
    """The decimal integer in a text; None if it is none, takes more bits or is less than `least`."""
    digits = text.lstrip("+-0")
    if not _integer(text) or len(digits) > 19:
        return None
    value = int(digits or "0") * (-1 if text[0] == "-" else 1)
    limit = 1 << bits - 1
    return value if (-limit if least is None else least) <= value < limit else None


def deletion_cost(text: str) -> int | None:
    """The value of a `pod-deletion-cost`: 32 bits, with neither a plus sign nor zeros in front."""
    return integer(text, 32) if _cost(text) else None
