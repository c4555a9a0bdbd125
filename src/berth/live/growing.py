"""Resources that come and go while we run: custom resources are watched as soon as they are served."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence

from berth.kube.api_resources import CUSTOM_RESOURCES, Resource
from berth.kube.objects import ObjectMeta, RawObject, Struct
from berth.live.client import Client
from berth.live.discovery import discover
from berth.live.errors import ApiError
from berth.live.informer import Informer
from berth.live.runner import Runner
from berth.machines.contract import Event, Machine

_log = logging.getLogger(__name__)
_SETTLE = 0.5  # seconds between a definition and its resource being served
_TRIES = 10


class Definition(Struct, frozen=True):
    """A CustomResourceDefinition, of which only the fact that it changed matters."""

    metadata: ObjectMeta = ObjectMeta()
    spec: RawObject | None = None


class Bare(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


Learn = Callable[[Resource], Sequence[Machine]]


class Growing:
    """Watches definitions; for every new resource asks `learn` which machines want to hear of its objects."""

    def __init__(
        self,
        client: Client,
        runner: Runner,
        known: Iterable[Resource],
        learn: Learn,
        view: type = Bare,
    ) -> None:
        self._client = client
        self._runner = runner
        self._known = set(known)
        self._grown: dict[Resource, asyncio.Task[None]] = {}
        self._learn = learn
        self._view = view
        self._changed = asyncio.Event()
        self._informer = Informer(client, CUSTOM_RESOURCES, Definition, self._note)

    def _note(self, event: Event) -> None:
        del event
        self._changed.set()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run())
            while True:
                await self._changed.wait()
                self._changed.clear()
                for _ in range(_TRIES):
                    await asyncio.sleep(_SETTLE)
                    if await self._look(group):
                        break

    async def _look(self, group: asyncio.TaskGroup) -> bool:
        """Take in what the server has now; whether anything changed."""
        try:
            served = set(await discover(self._client))
        except ApiError as error:
            _log.info("discovery: %s", error)
            return False
        new = served - self._known
        gone = set(self._grown) - served
        for resource in new:
            informer = self._runner.add(resource, self._view, self._learn(resource))
            self._known.add(resource)
            self._grown[resource] = group.create_task(informer.run())
        for resource in gone:
            self._grown.pop(resource).cancel()
            self._known.discard(resource)
            self._runner.remove(resource)
        return bool(new or gone)
