"""When a request may go out: in its turn, and while this process may write.

Turns are tokens of a bucket, given out in order, the urgent before the rest: bindings must not wait behind
the Events about earlier ones.  There is no polling: one timer is set for the moment when the
next token is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from enum import IntEnum
from typing import Protocol

from berth.machines.rates import TokenBucket


class Urgency(IntEnum):
    URGENT = 0
    BACKGROUND = 1


class Limiter:
    """`qps` requests a second on average, up to `burst` at once."""

    def __init__(self, qps: float, burst: int) -> None:
        self._bucket = TokenBucket(qps, max(burst, 1))
        self._waiting: tuple[deque[asyncio.Future[None]], ...] = tuple(deque() for _ in Urgency)
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self, urgency: Urgency = Urgency.URGENT) -> None:
        """Wait for one's turn."""
        bucket = self._bucket
        if not any(self._waiting) and bucket.take(asyncio.get_running_loop().time()):
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting[urgency].append(future)
        self._hand_out()
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                bucket.give_back()  # the caller was cancelled just when its token came
                self._hand_out()
            raise

    def _hand_out(self) -> None:
        bucket = self._bucket
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        now = asyncio.get_running_loop().time()
        for line in self._waiting:
            while line and (line[0].done() or bucket.take(now)):
                future = line.popleft()
                if not future.done():
                    future.set_result(None)
        if any(self._waiting):
            # A little longer than needed, so that rounding does not end the sleep too early.
            delay = bucket.available_at(now) - now + 1e-6
            self._timer = asyncio.get_running_loop().call_later(delay, self._hand_out)


# --- what keeps a process that leads no more from writing ----------------------------------------
# Between deciding on a request and sending it there may be a wait for a turn, for credentials, for a
# connection and its handshake; and a process can be stopped at any time and woken after somebody else took
# over.  So the last look is taken right before a request is written to its connection.


class Fence(Protocol):
    """Decides whether this process may write."""

    def lets_through(self) -> bool:
        """Whether a request may go out right now."""

    async def opened(self) -> bool:
        """Wait until requests may go out; False if they never will again."""
