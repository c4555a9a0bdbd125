"""Cron schedules: five fields, names, ranges, steps, and descriptors such as ``@hourly`` or ``@every 90s``.

What is a schedule, and the words for what is none, are those of robfig/cron v3, with which Kubernetes reads
them. A day matches if both day fields do, unless both are restricted: then either is enough, as cron has
always had it.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import count
from zoneinfo import ZoneInfo

from berth.kube.times import DurationError, parse_duration

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
_EVERY = "@every "
_MINUTE = dt.timedelta(minutes=1)
_YEARS = 5  # to look ahead: the 29th of February comes at least that often, but for one gap a century
_number_of = re.compile(r"[+-]?[0-9]{1,18}").fullmatch
_zone_part = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch


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


@dataclass(frozen=True, slots=True)
class Interval:
    """Due again and again after the same time."""

    seconds: int

    def after(self, seconds: float) -> Iterator[float]:
        first = int(seconds)
        return (float(first + times * self.seconds) for times in count(1))


@lru_cache(maxsize=256)
def parse(text: str, zone: str | None = None) -> Schedule | Interval:
    """Read a schedule; raises ScheduleError if it is none."""
    if not text:
        raise ScheduleError("empty spec string")
    if text.startswith(("TZ=", "CRON_TZ=")):
        given, _, text = text.partition(" ")
        zone, text = given.partition("=")[2], text.strip()
    tz = _zone(zone) if zone else dt.UTC
    if text.startswith(_EVERY):
        return _interval(text)
    if text.startswith("@") and text not in _SHORT:
        raise ScheduleError(f"unrecognized descriptor: {text}")
    fields = _SHORT.get(text, text).split()
    if len(fields) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]")
    minutes, _ = _field(fields[0], 0, 59)
    hours, _ = _field(fields[1], 0, 23)
    days, any_day = _field(fields[2], 1, 31)
    months, _ = _field(fields[3], 1, 12, _MONTHS)
    weekdays, any_weekday = _field(fields[4], 0, 6, _DAYS)
    return Schedule(minutes, hours, days, months, weekdays, any_day, any_weekday, tz)


def zone_error(name: str) -> str | None:
    """Why a name is not that of a time zone, None if it is."""
    if not name:
        return "timeZone must be nil or non-empty string"
    for part in name.split("/"):
        if part in (".", "..") or part.startswith("-") or not _zone_part(part):
            return f"unknown time zone {name}"
    if name.lower() == "local":
        return "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
    try:
        _zone(name)
    except ScheduleError as error:
        return str(error)
    return None


def _zone(name: str) -> dt.tzinfo:
    try:
        return ZoneInfo(name)
    except (ValueError, KeyError, OSError) as error:
        raise ScheduleError(f"unknown time zone {name}") from error


def _interval(text: str) -> Interval:
    try:
        seconds = parse_duration(text.removeprefix(_EVERY))
    except DurationError as error:
        raise ScheduleError(f"failed to parse duration {text}: {error}") from None
    return Interval(max(int(seconds), 1))


def _field(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> tuple[frozenset[int], bool]:
    """The numbers of a field, and whether it restricts nothing; `names` begin with that of the lowest."""
    found: set[int] = set()
    anything = False
    for part in filter(None, text.split(",")):
        span, *steps = part.split("/")
        first, *last = span.split("-")
        star = first in ("*", "?")
        if star:
            start, end = low, high
        else:
            start = _number(first, names, low)
            if len(last) > 1:
                raise ScheduleError(f"too many hyphens: {part}")
            end = _number(last[0], names, low) if last else start
        if len(steps) > 1:
            raise ScheduleError(f"too many slashes: {part}")
        step = _number(steps[0]) if steps else 1
        if steps and not last:
            end = high
        _check_range(part, start, end, step, low, high)
        found.update(range(start, end + 1, step))
        anything |= star and step == 1
    return frozenset(found), anything


def _check_range(part: str, start: int, end: int, step: int, low: int, high: int) -> None:
    if start < low:
        raise ScheduleError(f"beginning of range ({start}) below minimum ({low}): {part}")
    if end > high:
        raise ScheduleError(f"end of range ({end}) above maximum ({high}): {part}")
    if start > end:
        raise ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {part}")
    if step == 0:
        raise ScheduleError(f"step of range should be a positive number: {part}")


def _number(text: str, names: tuple[str, ...] = (), low: int = 0) -> int:
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not _number_of(text):
        why = "value out of range" if re.fullmatch(r"[+-]?[0-9]+", text) else "invalid syntax"
        raise ScheduleError(f'failed to parse int from {text}: strconv.Atoi: parsing "{text}": {why}')
    if int(text) < 0:
        raise ScheduleError(f"negative number ({int(text)}) not allowed: {text}")
    return int(text)
