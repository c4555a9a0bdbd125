"""Workloads that other objects refer to, watched for their labels and annotations.

Every kind that some object refers to is watched, from the first such object on.  A kind that the server
does not have, or does not let us list, is said so once and asked for again from time to time; of one that
may not be listed the machine hears, because it cannot follow rules about what it cannot see.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client, Selection
from berth.live.discovery import find
from berth.live.errors import ApiError, Forbidden, NotFound, Unauthorized
from berth.live.informer import Informer
from berth.live.logs import say
from berth.live.runner import Runner
from berth.machines.contract import Event, Machine

Kind = tuple[str, str]  # apiVersion and kind

# What workloads contain is nobody's business here, and may be a secret.
_METADATA = Selection(metadata_only=True)
_RETRY = 1.0  # seconds until a server that did not answer is asked again
_AGAIN = 10.0  # seconds until it is asked again for kinds that it did not have or let us list
# Until every kind was listed nothing is decided; but one that cannot be listed must not stop the rest.
_LONGEST_START = 30.0

_log = logging.getLogger(__name__)


class ReferredKinds:
    """Hears of objects before the machine does, and brings it what they refer to.

    Args:
        client: The server to ask.
        machine: Who wants to know of the workloads.
        kind_of: The kind that an event's object refers to; None if it refers to none.
        watched: Where the machine looks up which kinds it will hear of; kept up to date.
        unlisted: The event by which the machine hears why a kind may not be listed, or with None that it may.
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
        self._missing: dict[Kind, str] = {}  # and why, if it is there and may not be listed
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
            self._idle.clear()
            self._wake.set()

    async def follow(self, runner: Runner) -> None:
        """Watch what there is to be watched, until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_AGAIN if self._missing else None):
                    await self._wake.wait()
            except TimeoutError:
                for kind in list(self._missing):
                    await self._look(runner, kind)
            self._wake.clear()
            while self._new:
                kind = next(iter(self._new))
                await self._look(runner, kind)
                del self._new[kind]
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
            late = ",".join(i.resource.name for i in self._informers if not i.synced.is_set())
            say(_log, logging.WARNING, "Starting without all workloads", missing=late)

    async def _look(self, runner: Runner, kind: Kind) -> None:
        """Watch a kind, or say why not."""
        resource, why = await self._find(kind)
        if resource is not None:
            self._watched.add(kind)
            informer = runner.watch(resource, PartialObjectMetadata, (self._machine,), _METADATA)
            if informer not in self._informers:
                self._informers.append(informer)
            if kind in self._missing and await _listed(informer):
                del self._missing[kind]
                say(_log, logging.INFO, "Workloads are watched now", apiVersion=kind[0], kind=kind[1])
                runner.tell(self._unlisted(kind, None), (self._machine,))
            return
        self._watched.discard(kind)
        if kind not in self._missing:
            _say_missing(kind, why or "the server has no such kind that can be watched")
        if self._missing.get(kind, "") != why:
            runner.tell(self._unlisted(kind, why or None), (self._machine,))
        self._missing[kind] = why

    async def _find(self, kind: Kind) -> tuple[Resource | None, str]:
        """Where a kind is served, or why we may not list it; neither if it is not served."""
        while True:
            what = f"{kind[1]} of {kind[0]}"
            try:
                resource = await find(self._client, *kind)
                if resource is not None:
                    what = resource.name
                    await self._client.page(resource, msgspec.Raw, _METADATA, limit=1)
            except NotFound:
                return None, ""
            except (Forbidden, Unauthorized) as error:
                return None, f"cannot list {what}: {error}"
            except ApiError as error:
                say(_log, logging.WARNING, "Cannot look for workloads yet", kind=kind[1], err=str(error))
                await asyncio.sleep(_RETRY)
            else:
                return resource, ""


async def _listed(informer: Informer[Any]) -> bool:
    """Wait until everything there is was told: before that, rules would be followed on a part of it."""
    try:
        async with asyncio.timeout(_LONGEST_START):
            await informer.synced.wait()
    except TimeoutError:
        return False
    return True


def _say_missing(kind: Kind, why: str) -> None:
    say(
        _log,
        logging.WARNING,
        "Workloads are not watched: rules about their labels see those of the bindings only",
        apiVersion=kind[0],
        kind=kind[1],
        why=why,
    )
