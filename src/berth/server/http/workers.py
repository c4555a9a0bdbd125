"""Threads for what would keep the event loop: requests whose bodies or objects are large, or hard to judge.

Everything between reading a body and proposing the write is synchronous.  For most requests that takes
less than a millisecond and is done at once.  What may take longer is done in one of a few threads, with
the loop answering others meanwhile; only the proposal itself is made in the loop (`Store.in_turn`), where
it is refused if another write came first, and then everything is done again.

How long it takes cannot always be told from the size.  So what is done at once, or in the threads for what
is large, is given up after a while (:mod:`berth.kube.schema.budget`) and done again where it keeps nobody
else waiting; and there until kube-apiserver would have given it up.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from berth.kube.schema import budget
from berth.server import errors
from berth.server.registry.writes import OvertakenError, Write

_T = TypeVar("_T")

_LIGHT = 32 * 1024  # bytes that are looked at in no time
_THREADS = 2
_AT_ONCE = 0.05  # seconds of work that others are kept waiting for
_LARGE = 1.0  # seconds of work that only those of large requests are
_PATIENCE = 34.0  # seconds until a request is given up; upstream: requestTimeoutUpperBound
_TRIES = 5


class Workers:
    """The threads; they end with the process."""

    def __init__(self) -> None:
        self._large = ThreadPoolExecutor(_THREADS, thread_name_prefix="berth-worker")
        self._endless = ThreadPoolExecutor(1, thread_name_prefix="berth-patient-worker")

    async def run(self, size: int, work: Callable[[], _T]) -> _T:
        """Do what takes time by `size` bytes; it may be done several times.

        Raises:
            StatusError: it takes too long (504).
        """
        end = time.monotonic() + _PATIENCE
        try:
            if size < _LIGHT:
                return _within(_AT_ONCE, work)
        except budget.BudgetError:
            pass
        with contextlib.suppress(budget.BudgetError):
            return await _by(end, self._large, lambda: _within(_LARGE, work))
        with contextlib.suppress(budget.BudgetError):
            return await _by(end, self._endless, lambda: _until(end, work))
        raise errors.timeout()

    async def write(self, size: int, propose: Callable[[], Write]) -> Write:
        """The same for what proposes a write; it is called again if another write came first.

        Raises:
            StatusError: others came first again and again (409).
        """
        for _ in range(_TRIES):
            try:
                return await self.run(size, propose)
            except OvertakenError:
                continue
        raise errors.StatusError(409, "Conflict", errors.MODIFIED)

    def close(self) -> None:
        for pool in (self._large, self._endless):
            pool.shutdown(wait=False, cancel_futures=True)


async def _by(end: float, pool: ThreadPoolExecutor, work: Callable[[], _T]) -> _T:
    """What a thread finds out until then: nobody waits longer, though work that asks no budget goes on.

    Raises:
        StatusError: it takes too long, or no thread was free in time (504).
    """
    later = asyncio.get_running_loop().run_in_executor(pool, work)
    try:
        return await asyncio.wait_for(later, max(0, end - time.monotonic()))
    except TimeoutError:
        raise errors.timeout() from None


def _within(seconds: float, work: Callable[[], _T]) -> _T:
    """Do something that may keep a processor so long.

    The clock of a thread costs a call of the system. It is not read before somebody asks: no more was spent
    until then than has passed by the other clock.
    """
    started, end = time.perf_counter(), 0.0

    def spent() -> bool:
        nonlocal end
        end = end or time.thread_time() + seconds - (time.perf_counter() - started)
        return time.thread_time() > end

    with budget.limited(spent):
        return work()


def _until(end: float, work: Callable[[], _T]) -> _T:
    with budget.limited(lambda: time.monotonic() > end):
        return work()
