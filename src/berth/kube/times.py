"""Times as the API spells them, and back."""

from __future__ import annotations

import datetime as dt
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
