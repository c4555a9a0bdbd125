"""How long ago something was, as kubectl writes it: 45s, 5m10s, 3h20m, 2d3h, 90d."""

from __future__ import annotations

from berth.kube.times import seconds_of

UNKNOWN = "<unknown>"
INVALID = "<invalid>"

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400

# Up to which age it is written in which unit, with which smaller unit beside it.
_STEPS: tuple[tuple[int, int, str, int, str], ...] = (
    (2 * _MINUTE, 1, "s", 0, ""),
    (10 * _MINUTE, _MINUTE, "m", 1, "s"),
    (3 * _HOUR, _MINUTE, "m", 0, ""),
    (8 * _HOUR, _HOUR, "h", _MINUTE, "m"),
    (2 * _DAY, _HOUR, "h", 0, ""),
    (8 * _DAY, _DAY, "d", _HOUR, "h"),
    (2 * _YEAR, _DAY, "d", 0, ""),
    (8 * _YEAR, _YEAR, "y", _DAY, "d"),
)


def human_duration(seconds: float) -> str:
    """Two or three significant figures; a clock that is a little ahead is forgiven."""
    whole = int(seconds)
    if whole < -1:
        return INVALID
    whole = max(whole, 0)
    for limit, unit, letter, smaller, smaller_letter in _STEPS:
        if whole < limit:
            rest = whole % unit // smaller if smaller else 0
            return f"{whole // unit}{letter}" + (f"{rest}{smaller_letter}" if rest else "")
    return f"{whole // _YEAR}y"


def age(timestamp: object, now: float) -> str:
    """How long before `now` (seconds since the epoch) a timestamp was."""
    moment = seconds_of(timestamp)
    return UNKNOWN if moment is None else human_duration(now - moment)
