"""Kinds to watch that become known while we run: those that objects refer to, and custom resources.

Every kind that some object refers to is watched, from the first such object on.  A kind that the server
does not have, or does not let us list, is said so once and asked for again from time to time.  The machine
hears of every kind whose objects are not up to date, and why (new, forbidden, failing): it cannot follow
rules about what it cannot see.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec

from berth.kube.api_resources import CUSTOM_RESOURCES, Resource
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client, Selection
from berth.live.discovery import discover, find
from berth.live.errors import ApiError, Forbidden, NotFound, Unauthorized
from berth.live.informer import Informer
from berth.live.logs import say
from berth.live.runner import Runner
from berth.machines.contract import Event, Machine

Kind = tuple[str, str]  # apiVersion and kind

# Only metadata is needed, and the content may be a secret.
_METADATA = Selection(metadata_only=True)
_RETRY = 1.0  # seconds until a server that did not answer is asked again
_AGAIN = 10.0  # seconds until it is asked again for kinds that it did not have or let us list
# Until every kind was listed nothing is decided; but one that cannot be listed must not stop the rest.
_LONGEST_START = 30.0
_NOT_YET = "they were not listed yet"

_log = logging.getLogger(__name__)


class ReferredKinds:
    """Hears of objects before the machine does, and brings it what they refer to.

    Args:
        client: The server to ask.
        machine: Who wants to know of the workloads.
        kind_of: The kind that an event's object refers to; None if it refers to none.
        watched: Where the machine looks up which kinds it will hear of; kept up to date.
        unlisted: Makes the event that tells the machine why a kind is not up to date; None: it is.
    """

    def __init__(
        self,
        client: Client,
        machine: Machine,
        kind_of: Callable[[Event], Kind | None],
        watched: set[Kind],
        unlisted: Callable[[Kind, str | None], Event],
    ) -> None:
        self._client = client
        self._machine = machine
        self._kind_of = kind_of
        self._watched = watched
        self._unlisted = unlisted
        self._own = {(resource.api_version, resource.kind) for resource in machine.watches}
        self._seen: set[Kind] = set()
        self._new: dict[Kind, None] = {}
        self._missing: set[Kind] = set()  # not there, or not to be listed
        self._told: dict[Kind, str] = {}
        self._runner: Runner | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._informers: list[Informer[Any]] = []

    def handle(self, event: Event) -> None:
        kind = self._kind_of(event)
        if kind is not None and kind not in self._seen and kind not in self._own:
            self._seen.add(kind)
            self._new[kind] = None
            self._watched.add(kind)
            self._tell(kind, _NOT_YET)
            self._idle.clear()
            self._wake.set()

    def troubled(self, resource: Resource, error: ApiError | None) -> None:
        """A kind is no longer up to date, or is again."""
        kind = (resource.api_version, resource.kind)
        if kind in self._seen or kind in self._own:
            self._tell(kind, None if error is None else f"cannot list or watch {resource.name}: {error}")

    async def follow(self, runner: Runner) -> None:
        """Watch the kinds that are referred to, until cancelled."""
        self._runner = runner
        while True:
            delay = _RETRY if self._new else _AGAIN
            try:
                async with asyncio.timeout(delay if self._new or self._missing else None):
                    await self._wake.wait()
            except TimeoutError:
                self._new |= dict.fromkeys(self._missing)
            self._wake.clear()
            for kind in list(self._new):
                if await self._look(runner, kind):
                    del self._new[kind]
            if not self._new:
                self._idle.set()

    async def settled(self, runner: Runner) -> None:
        """Wait until what the machine watches was listed, and all that it refers to."""
        for resource in self._machine.watches:
            await runner.informers[resource].synced.wait()
        try:
            async with asyncio.timeout(_LONGEST_START):
                await self._idle.wait()
                for informer in list(self._informers):
                    await informer.synced.wait()
        except TimeoutError:
            late = [informer.resource.name for informer in self._informers if not informer.synced.is_set()]
            missing = ",".join((*late, *(kind for _, kind in self._new)))
            say(_log, logging.WARNING, "Starting without all workloads", missing=missing)

    async def _look(self, runner: Runner, kind: Kind) -> bool:
        """Watch a kind, or say why not; False if the server has to be asked again soon."""
        what = f"{kind[1]} of {kind[0]}"
        try:
            resource = await find(self._client, *kind)
            if resource is None:
                return self._miss(kind, None)
            what = resource.name
            await self._client.page(resource, msgspec.Raw, _METADATA, limit=1)
        except NotFound:
            return self._miss(kind, None)
        except (Forbidden, Unauthorized) as error:
            return self._miss(kind, f"cannot list {what}: {error}")
        except ApiError as error:
            why = f"cannot list {what}: {error}"
            if self._told.get(kind) != why:
                say(_log, logging.WARNING, "Cannot look for workloads yet", kind=kind[1], err=str(error))
            self._tell(kind, why)
            return False
        self._watched.add(kind)
        informer = runner.watch(resource, PartialObjectMetadata, (self._machine,), _METADATA)
        if informer not in self._informers:
            self._informers.append(informer)
        if kind in self._missing:
            self._missing.remove(kind)
            say(_log, logging.INFO, "Workloads are watched now", apiVersion=kind[0], kind=kind[1])
        return True

    def _miss(self, kind: Kind, why: str | None) -> bool:
        self._watched.discard(kind)
        if kind not in self._missing:
            self._missing.add(kind)
            what = "Workloads are not watched: rules about their labels see those of the bindings only"
            told = why or "the server has no such kind that can be watched"
            say(_log, logging.WARNING, what, apiVersion=kind[0], kind=kind[1], why=told)
        self._tell(kind, why)
        return True

    def _tell(self, kind: Kind, why: str | None) -> None:
        """Tell the machine whether a kind is up to date, if that has changed."""
        if self._told.get(kind) == why:
            return
        if why is None:
            del self._told[kind]
        else:
            self._told[kind] = why
        event = self._unlisted(kind, why)
        if self._runner is None:
            self._machine.handle(event)
        else:
            self._runner.tell(event, (self._machine,))


# --- resources that come and go: custom resources are watched as soon as they are served ----------

_SETTLE = 0.5  # seconds until a new CustomResourceDefinition is served
_TRIES = 10


class LateResources:
    """Hears of CustomResourceDefinitions, and asks `learn` which machines watch each new resource.

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
