"""How fast we may ask: a bucket of tokens, given out in order, the urgent before the rest.

Bindings must not stand in line behind the events that tell of earlier ones.  There is no polling: one
timer is set for the moment when the next token is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from enum import IntEnum

from berth.machines.rates import TokenBucket


class Urgency(IntEnum):
    URGENT = 0
    BACKGROUND = 1


class Limiter:
    """`qps` requests a second on average, up to `burst` at once; no limit if `qps` is not above zero."""

    def __init__(self, qps: float, burst: int, clock: Callable[[], float] | None = None) -> None:
        self._bucket = TokenBucket(qps, max(burst, 1)) if qps > 0 else None
        self._clock = clock
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Urgency)
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, urgency: Urgency = Urgency.URGENT) -> None:
        """Wait for one's turn."""
        bucket = self._bucket
        if bucket is None or (not any(self._waiting) and bucket.take(self._now())):
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting[urgency].append(future)
        self._hand_out()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                bucket.give_back()  # the token came too late for this one
                self._hand_out()
            raise

    def _now(self) -> float:
        return self._clock() if self._clock is not None else asyncio.get_running_loop().time()

    def _hand_out(self) -> None:
        bucket = self._bucket
        if bucket is None:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = self._now()
        for line in self._waiting:
            while line and (line[0].done() or bucket.take(now)):
                future = line.popleft()
                if not future.done():
                    future.set_result(None)
        if any(self._waiting):
            # A little more than it takes, so that rounding does not wake us just before.
            delay = bucket.available_at(now) - now + 1e-6
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)
