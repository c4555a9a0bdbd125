"""Resources that come and go while we run: custom resources are watched as soon as they are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from berth.kube.api_resources import CUSTOM_RESOURCES, Resource
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client
from berth.live.discovery import discover
from berth.live.errors import ApiError
from berth.live.runner import Runner
from berth.machines.contract import Event, Machine

_log = logging.getLogger(__name__)
_SETTLE = 0.5  # seconds between a definition and its resource being served
_TRIES = 10


class LateResources:
    """Hears of definitions; for every new resource asks `learn` which machines want to hear of its objects.

    It has to be among those who hear what a runner is told `first`, and definitions have to be watched there.
    """

    def __init__(
        self,
        client: Client,
        known: Iterable[Resource],
        learn: Callable[[Resource], Sequence[Machine]],
    ) -> None:
        self._client = client
        self._known = set(known)
        self._learn = learn
        self._listeners: dict[Resource, Sequence[Machine]] = {}
        self._changed = asyncio.Event()

    def handle(self, event: Event) -> None:
        if event.resource == CUSTOM_RESOURCES:
            self._changed.set()

    async def run(self, runner: Runner) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            for _ in range(_TRIES):
                await asyncio.sleep(_SETTLE)
                if await self._look(runner):
                    break

    async def _look(self, runner: Runner) -> bool:
        """Take in what the server has now; whether anything changed."""
        try:
            served = set(await discover(self._client))
        except ApiError as error:
            _log.info("discovery: %s", error)
            return False
        new = served - self._known
        gone = set(self._listeners) - served
        for resource in new:
            machines = self._listeners[resource] = self._learn(resource)
            runner.watch(resource, PartialObjectMetadata, machines)
            self._known.add(resource)
        for resource in gone:
            runner.unwatch(resource, self._listeners.pop(resource))
            self._known.discard(resource)
        return bool(new or gone)
