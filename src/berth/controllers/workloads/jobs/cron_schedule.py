"""Cron schedules: five fields, names, ranges, steps and the usual short forms.

A day matches if both day fields do, unless both are restricted: then either is enough, as cron has always
had it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORT = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MINUTE = dt.timedelta(minutes=1)
_YEARS = 5  # to look ahead: the 29th of February comes at least that often, but for one gap a century


class ScheduleError(ValueError):
    """A schedule that cannot be read; the message says which part."""


@dataclass(frozen=True, slots=True)
class Schedule:
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    zone: dt.tzinfo

    def after(self, seconds: float) -> Iterator[float]:
        """The times after `seconds` (since the epoch) at which it is due, in order."""
        moment = dt.datetime.fromtimestamp(seconds, self.zone).replace(second=0, microsecond=0)
        moment = self._later(moment, _MINUTE)
        end = moment.year + _YEARS
        while moment.year <= end:
            if moment.month not in self.months or not self._is_day(moment):
                midnight = moment.replace(hour=0, minute=0)
                moment = self._later(midnight, dt.timedelta(days=1)).replace(hour=0, minute=0)
            elif moment.hour not in self.hours:
                moment = self._later(moment.replace(minute=0), dt.timedelta(hours=1))
            elif moment.minute not in self.minutes:
                moment = self._later(moment, _MINUTE)
            else:
                yield moment.timestamp()
                moment = self._later(moment, _MINUTE)

    def _later(self, moment: dt.datetime, step: dt.timedelta) -> dt.datetime:
        """Later in real time, so that an hour which a change of clocks leaves out or repeats is passed."""
        return (moment.astimezone(dt.UTC) + step).astimezone(self.zone)

    def _is_day(self, moment: dt.datetime) -> bool:
        day = moment.day in self.days
        weekday = (moment.weekday() + 1) % 7 in self.weekdays
        return (day and weekday) if self.any_day or self.any_weekday else (day or weekday)


@lru_cache(maxsize=256)
def parse(text: str, zone: str | None = None) -> Schedule:
    """Read a schedule.

    Raises:
        ScheduleError: it is not one.
    """
    fields = _SHORT.get(text.strip(), text).split()
    if len(fields) != 5:
        raise ScheduleError(f"expected five fields, found {len(fields)}: {text}")
    try:
        tz: dt.tzinfo = ZoneInfo(zone) if zone else dt.UTC
    except (ValueError, KeyError) as error:
        raise ScheduleError(f"unknown time zone {zone}") from error
    return Schedule(
        minutes=_field(fields[0], 0, 59),
        hours=_field(fields[1], 0, 23),
        days=_field(fields[2], 1, 31),
        months=_field(fields[3], 1, 12, _MONTHS, 1),
        weekdays=frozenset(day % 7 for day in _field(fields[4], 0, 7, _DAYS)),
        any_day=fields[2].startswith(("*", "?")),
        any_weekday=fields[4].startswith(("*", "?")),
        zone=tz,
    )


def _field(text: str, low: int, high: int, names: tuple[str, ...] = (), offset: int = 0) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, slash, step = part.partition("/")
        if slash and (not step.isdigit() or not int(step)):
            raise ScheduleError(f"not a step: {part}")
        if span in ("*", "?"):
            first, last = low, high if not names or high != 7 else 6
        else:
            start, dash, end = span.partition("-")
            first = _number(start, names, offset)
            last = _number(end, names, offset) if dash else (high if slash else first)
        if not low <= first <= last <= high:
            raise ScheduleError(f"not between {low} and {high}: {part}")
        found.update(range(first, last + 1, int(step) if slash else 1))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...], offset: int) -> int:
    if text.isdigit():
        return int(text)
    if text.lower() in names:
        return names.index(text.lower()) + offset
    raise ScheduleError(f"not a number: {text}")
