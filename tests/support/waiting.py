"""Bounded waiting: the only way a test may let time pass."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from typing import Any


async def until(condition: Callable[[], bool], timeout: float = 60.0) -> None:  # noqa: ASYNC109
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110 - conditions are about anything
            await asyncio.sleep(0.005)


@asynccontextmanager
async def running(coroutine: Coroutine[Any, Any, None]) -> AsyncIterator[asyncio.Task[None]]:
    """A task that is cancelled in the end, and whose errors are not lost."""
    task = asyncio.create_task(coroutine)
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def polls(seconds: float) -> Iterator[None]:
    """Turns of a bounded wait, a few milliseconds apart at first."""
    deadline = time.monotonic() + seconds
    pause = 0.005
    while time.monotonic() < deadline:
        yield
        time.sleep(pause)
        pause = min(pause * 1.3, 0.1)


def wait_for(condition: Callable[[], bool], what: str, seconds: float = 120.0) -> None:
    """What `until` does, for tests that are not coroutines."""
    for _ in polls(seconds):
        if condition():
            return
    raise AssertionError(f"it never came about: {what}")
