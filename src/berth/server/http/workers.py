"""Threads for what would keep the event loop: requests whose bodies or objects are large.

Everything between reading a body and proposing the write is synchronous.  For most requests that takes
less than a millisecond and is done at once.  What may take longer is done in one of a few threads, with
the loop answering others meanwhile; only the proposal itself is made in the loop (`Store.in_turn`), where
it is refused if another write came first, and then everything is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from berth.server import errors
from berth.server.registry.writes import OvertakenError, Write

_T = TypeVar("_T")

_LIGHT = 32 * 1024  # bytes that are looked at in no time
_THREADS = 2
_TRIES = 5


class Workers:
    """The threads; they end with the process."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="berth-worker")

    async def run(self, size: int, work: Callable[[], _T]) -> _T:
        """Do what takes time by `size` bytes."""
        if size < _LIGHT:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._pool, work)

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
        self._pool.shutdown(wait=False, cancel_futures=True)
