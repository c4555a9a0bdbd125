"""A resource kept in step: listed in pages, then watched, for as long as it is wanted.

Three nested steps: forever / until the version expires (then list again) / one connection.  The
consumer is a plain function, called once for every change, in order; after a relist it hears only
of what differs from what it already knows.  A broken connection is resumed from the last version
seen, so no change is lost, and a version that was already delivered is not delivered again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

import msgspec

from berth.kube.objects import ObjectMeta
from berth.live.backoff import Backoff
from berth.live.client import EVERYTHING, PAGE, Client, Frame, Selection
from berth.live.errors import ApiError, Expired, TooManyRequests, Unreachable
from berth.machinery.contract import ADDED, DELETED, MODIFIED, Event, Key, Resource

_log = logging.getLogger(__name__)


class View(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


_V = TypeVar("_V", bound=View)
Consumer = Callable[[Event], None]


class _BookmarkMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""


class _Bookmark(msgspec.Struct):
    metadata: _BookmarkMeta


class Informer(Generic[_V]):
    """One resource, known object by object.

    Attributes:
        objects: The newest known state of every object.
        synced: Set once the first list was delivered.
        relists: How often everything was listed, for tests and metrics.
    """

    def __init__(  # noqa: PLR0913 - all but three are optional
        self,
        client: Client,
        resource: Resource,
        view: type[_V],
        consumer: Consumer,
        *,
        selection: Selection = EVERYTHING,
        page: int = PAGE,
        timeout: float = 300.0,
        rng: random.Random | None = None,
        backoff: Backoff | None = None,
    ) -> None:
        self.resource = resource
        self.objects: dict[Key, _V] = {}
        self.synced = asyncio.Event()
        self.relists = 0
        self._client = client
        self._view = view
        self._decoder = msgspec.json.Decoder(view)
        self._consumer = consumer
        self._selection = selection
        self._page = page
        self._timeout = timeout
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self._backoff = backoff or Backoff(rng=self._rng)
        self._version = ""

    async def run(self) -> None:
        """Stay in step until cancelled.

        Only a watch that delivers resets the backoff: a version that expires as soon as it was
        listed must not become a hot loop of lists.
        """
        while True:
            try:
                await self._list()
                await self._follow()
            except ApiError as error:
                await self._pause(error)

    # --- listing ----------------------------------------------------------------------------------

    async def _list(self) -> None:
        found: dict[Key, _V] = {}
        version = ""
        async for page in self._client.pages(self.resource, self._view, self._selection, limit=self._page):
            for item in page.items:
                found[_key(item)] = item
            version = page.resource_version or version
        self.relists += 1
        self._version = version
        self._replace(found)
        self.synced.set()

    def _replace(self, found: dict[Key, _V]) -> None:
        for key in [key for key in self.objects if key not in found]:
            self._drop(key, self.objects[key])
        for key, item in found.items():
            known = self.objects.get(key)
            if known is not None and known.metadata.uid != item.metadata.uid:
                self._drop(key, known)
                known = None
            self._put(key, item, known)

    # --- watching ---------------------------------------------------------------------------------

    async def _follow(self) -> None:
        """Watch, connection after connection, until the version expires or the server misbehaves."""
        errors = 0
        while True:
            timeout = self._timeout * (1 + self._rng.random())
            try:
                async for frames in self._client.watch(
                    self.resource, self._selection, resource_version=self._version, seconds=timeout
                ):
                    errors = 0
                    self._backoff.reset()
                    for frame in frames:
                        self._take(frame)
            except Expired:
                raise
            except (Unreachable, TooManyRequests) as error:
                await self._pause(error)
            except ApiError as error:
                errors += 1
                if errors >= 5:
                    raise  # a list may tell what is wrong
                await self._pause(error)
            else:
                await asyncio.sleep(
                    0.01
                )  # the server ended it in good order; do not spin if it does so at once

    def _take(self, frame: Frame) -> None:
        if frame.type == "BOOKMARK":
            self._version = msgspec.json.decode(frame.object, type=_Bookmark).metadata.resource_version
            return
        item = self._decoder.decode(frame.object)
        key = _key(item)
        known = self.objects.get(key)
        if frame.type == DELETED:
            if known is not None:
                self._drop(key, item)
        else:
            if known is not None and known.metadata.uid != item.metadata.uid:
                self._drop(key, known)
                known = None
            self._put(key, item, known)
        self._version = item.metadata.resource_version or self._version

    def _put(self, key: Key, item: _V, known: _V | None) -> None:
        if known is not None and known.metadata.resource_version == item.metadata.resource_version:
            return
        self.objects[key] = item
        self._consumer(Event(self.resource, ADDED if known is None else MODIFIED, item, known))

    def _drop(self, key: Key, last: _V) -> None:
        known = self.objects.pop(key)
        self._consumer(Event(self.resource, DELETED, last, known))

    async def _pause(self, error: ApiError) -> None:
        delay = self._backoff.next(error.retry_after)
        _log.info("%s: %s; trying again in %.1f s", self.resource.name, error, delay)
        await asyncio.sleep(delay)


def _key(item: View) -> Key:
    metadata = item.metadata
    return (metadata.namespace or "", metadata.name or "")
