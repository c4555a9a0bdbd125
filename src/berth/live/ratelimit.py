"""How fast we may ask: a bucket of tokens, given out in order, the urgent before the rest.

Bindings must not stand in line behind the events that tell of earlier ones.  There is no polling: one
timer is set for the moment when the next token is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum


class Urgency(IntEnum):
    URGENT = 0
    BACKGROUND = 1


class Limiter:
    """`qps` requests a second on average, up to `burst` at once; no limit if `qps` is not above zero."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] | None = None) -> None:
        self._qps = qps
        self._burst = max(float(burst), 1.0)
        self._tokens = self._burst
        self._clock = clock
        self._counted: float | None = None  # when the tokens were counted last
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Urgency)
        self._timer: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        return sum(not future.done() for line in self._waiting for future in line)

    async def acquire(self, urgency: Urgency = Urgency.URGENT) -> None:
        """Wait for one's turn."""
        if self._qps <= 0:
            return
        self._refill()
        if self._tokens >= 1 and not any(self._waiting):
            self._tokens -= 1
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting[urgency].append(future)
        self._hand_out()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self._tokens += 1  # the token came too late for this one
                self._hand_out()
            raise

    def _refill(self) -> None:
        now = self._clock() if self._clock is not None else asyncio.get_running_loop().time()
        if self._counted is not None:
            gained = (now - self._counted) * self._qps
            self._tokens = min(self._tokens + max(gained, 0.0), self._burst)
        self._counted = now

    def _hand_out(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._refill()
        for line in self._waiting:
            while line and (self._tokens >= 1 or line[0].done()):
                future = line.popleft()
                if not future.done():
                    self._tokens -= 1
                    future.set_result(None)
        if any(self._waiting):
            # A little more than it takes, so that rounding does not wake us just before.
            delay = (1 - self._tokens) / self._qps + 1e-6
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)
