"""How often something is tried: later after each failure, and so many times a second; and by which clock.

Callers count their failures; time and randomness are arguments.  Only `ReturnMemory` counts by itself: moves
after which a pod came back to where it was, or that did no good.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")
_M = TypeVar("_M", bound="ReturnMemory")

_DOUBLINGS = 60  # more than any limit needs, and far from the largest float
_REMEMBERED = 3600.0  # seconds after a move and the pause that followed it
_MANY_OWNERS = 4096  # from this number on, memories that are over are dropped


@dataclass(frozen=True, slots=True)
class Backoff:
    """Delays in seconds, from `first` to `longest`."""

    first: float
    longest: float

    def after(self, failures: int) -> float:
        """The delay after so many failures in a row; none if there was no failure."""
        if failures <= 0:
            return 0.0
        return float(min(self.first * 2.0 ** min(failures - 1, _DOUBLINGS), self.longest))

    def jittered(self, failures: int, rng: random.Random) -> float:
        """The delay less a random part of up to half, so that clients do not come back together."""
        return self.after(failures) * (0.5 + rng.random() / 2)


@dataclass(slots=True)
class ReturnMemory:
    """How often the moves of an owner's pods were in vain, and how long the owner is left alone for that."""

    pauses: Backoff  # how long it is left alone after each time
    moved: float  # when it was last moved
    returns: int = 0
    until: float = 0.0  # until when it is left alone

    def back_off(self, now: float) -> None:
        self.returns += 1
        self.until = now + self.pauses.after(self.returns)

    def came_back(self, arrived: float, now: float) -> bool:
        """Count a move in vain, unless the pod arrived before the last move and so was not moved."""
        if arrived < self.moved:
            return False
        self.back_off(now)
        return True

    def is_over(self, now: float) -> bool:
        return now > max(self.until, self.moved) + _REMEMBERED


class Recent(OrderedDict[_K, _V]):
    """A dict of limited size: the key that was set, or moved to the end, longest ago is dropped."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: _K, value: _V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


class ReturnMemories(Generic[_M]):
    """The memories of the owners whose pods were moved, until they are over; `make` begins one, at a move."""

    def __init__(self, make: Callable[[float], _M]) -> None:
        self._make = make
        self._by_owner: dict[str, _M] = {}

    def __len__(self) -> int:
        return len(self._by_owner)

    def known(self, owner: str, now: float) -> _M | None:
        memory = self._by_owner.get(owner)
        return None if memory is None or memory.is_over(now) else memory

    def of(self, owner: str, now: float) -> _M:
        if owner not in self._by_owner and len(self._by_owner) >= _MANY_OWNERS:
            self._by_owner = {key: kept for key, kept in self._by_owner.items() if not kept.is_over(now)}
        memory = self._by_owner[owner] = self.known(owner, now) or self._make(now)
        return memory


def earliest(*times: float | None) -> float | None:
    """The first of some times, of which each may never come."""
    return min((when for when in times if when is not None), default=None)


# --- so many a second -----------------------------------------------------------------------------

_ENOUGH = 1.0 - 1e-9  # rounding may leave a little less than a whole token


class TokenBucket:
    """Full at first; `rate` tokens come a second (more than zero), and at most `burst` are kept."""

    __slots__ = ("_at", "_burst", "_rate", "_tokens")

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._tokens = self._burst
        self._at: float | None = None  # when the tokens were counted last

    def available_at(self, now: float) -> float:
        """When the next token is there; `now` if there is one."""
        self._fill(now)
        return now if self._tokens >= _ENOUGH else now + (1.0 - self._tokens) / self._rate

    def take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._fill(now)
        if self._tokens < _ENOUGH:
            return False
        self._tokens -= 1.0
        return True

    def give_back(self) -> None:
        """A token that was taken was not used."""
        self._tokens = min(self._tokens + 1.0, self._burst)

    def _fill(self, now: float) -> None:
        if self._at is None or now > self._at:
            gained = 0.0 if self._at is None else (now - self._at) * self._rate
            self._tokens = min(self._tokens + gained, self._burst)
            self._at = now


# --- the time, as long-lived processes should count it --------------------------------------------

_OFFSET = time.time() - time.monotonic()
_LASTING = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady() -> float:
    """Seconds since the epoch that never jump, since a clock that is set back would stop every timer."""
    return _OFFSET + time.monotonic()


def boottime() -> float:
    """A clock that goes on while this process is stopped or the machine sleeps, as leases do."""
    return time.clock_gettime(_LASTING)
