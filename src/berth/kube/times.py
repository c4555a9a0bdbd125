"""Times and durations as the API spells them, and back."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import lru_cache

from berth.kube.objects import ObjectMeta


def stamp(now: float) -> str:
    """Seconds since the epoch as ``2026-01-31T12:00:00Z``."""
    return _stamp(int(now))


@lru_cache(maxsize=64)
def _stamp(now: int) -> str:
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_stamp(now: float) -> str:
    """The same with microseconds, as leases have it."""
    return dt.datetime.fromtimestamp(now, dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@lru_cache(maxsize=8192)
def seconds(text: str) -> float:
    """An API timestamp as seconds since the epoch."""
    return dt.datetime.fromisoformat(text).timestamp()


def seconds_of(text: object) -> float | None:
    """The same of what may be anything; None if it is no such timestamp, and without a zone it is none."""
    if not isinstance(text, str) or not text:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.timestamp() if moment.tzinfo else None


def created_at(metadata: ObjectMeta) -> float:
    """When an object was made; 0 if it does not say."""
    return seconds(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0


# --- durations as Go writes them: 15s, 1m30s, 250ms -----------------------------------------------

_SECOND = 10**9
_UNITS = {
    "ns": 1,
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs"), 10**3),
    "ms": 10**6,
    "s": _SECOND,
    "m": 60 * _SECOND,
    "h": 3600 * _SECOND,
}
_LONGEST = 2**63 - 1
_parts = re.compile(r"([0-9]*\.?[0-9]*)([^0-9.]*)").findall
_MOST_CHARACTERS = 100


class DurationError(ValueError):
    """The text is no duration; the message is Go's."""


def parse_duration(text: str) -> float:
    """The length of a duration in seconds; raises DurationError if it is none."""
    unsigned = text[1:] if text[:1] in ("-", "+") else text
    if unsigned == "0":
        return 0.0
    if not unsigned or len(text) > _MOST_CHARACTERS:
        raise DurationError(f'time: invalid duration "{text}"')
    total = sum(_nanoseconds(number, unit, text) for number, unit in _parts(unsigned)[:-1])
    if total > _LONGEST:
        raise DurationError(f'time: invalid duration "{text}"')
    return float(-total if text.startswith("-") else total) / _SECOND


def _nanoseconds(number: str, unit: str, text: str) -> int:
    if not number.strip("."):
        raise DurationError(f'time: invalid duration "{text}"')
    if not unit:
        raise DurationError(f'time: missing unit in duration "{text}"')
    if unit not in _UNITS:
        raise DurationError(f'time: unknown unit "{unit}" in duration "{text}"')
    return int(Decimal(number) * _UNITS[unit])
