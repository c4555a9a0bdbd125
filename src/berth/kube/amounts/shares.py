"""How many: a number that may be left out, or a share of something (`maxUnavailable: 25%`)."""

from __future__ import annotations

import math

from berth.kube.amounts.integers import integer
from berth.kube.objects import IntOrString


def or_one(number: int | None) -> int:
    """A number of replicas, pods at a time or completions, which is 1 unless it is given."""
    return 1 if number is None else number


def resolved(value: IntOrString | None, total: int, *, default: IntOrString, up: bool) -> int:
    """A number or a percentage of `total`."""
    value = default if value is None else value
    if isinstance(value, int):
        return value
    text = value.strip()
    if not text.endswith("%"):
        return integer(text) or 0
    share = (integer(text[:-1], least=0) or 0) * total / 100
    return math.ceil(share) if up else math.floor(share)
