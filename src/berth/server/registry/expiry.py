"""The life of a running store, and Events that go after an hour, as they do upstream."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from berth.kube.times import stamp
from berth.server.registry.core import Core
from berth.server.storage.store import decode

_SWEEP = 60.0
_STEP = 200  # Events removed between two looks at other requests


@contextlib.asynccontextmanager
async def running(core: Core) -> AsyncIterator[None]:
    """The store takes writes inside this block."""
    core.store.start(asyncio.get_running_loop())
    sweeper = asyncio.create_task(_sweep(core))
    try:
        yield
    finally:
        sweeper.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sweeper
        core.store.close()


async def _sweep(core: Core) -> None:
    while True:
        await asyncio.sleep(_SWEEP)
        await sweep_once(core, time.time())


async def sweep_once(core: Core, now: float) -> None:
    """Remove the Events that have not changed for as long as they are kept."""
    bucket = core.catalog.core("events").bucket
    limit = stamp(now - core.settings.event_ttl)
    for count, record in enumerate(list(bucket.records.values())):
        if count % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        event = decode(record.data)
        last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
        series = (event.get("series") or {}).get("lastObservedTime") or ""
        if max(str(last), str(series)) < limit and bucket.newest(record.key) is record:
            core.store.remove(bucket, record.key, event)
