"""The objects of a resource, kept up to date: listed in pages, then watched, until cancelled.

Three nested steps: forever / until the version expires (then list again) / one connection.  The
consumer is a plain function, called once for every change, in order; after a relist it hears only
of what differs from what it already knows.  A broken or silent connection is resumed from the last
version seen, so no change is lost, and a version that was already delivered is not delivered again.
What a consumer hears of one uid is that it came, changed any number of times, and went.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from berth.kube.api_resources import Resource, versions_of
from berth.kube.objects import Key, ObjectMeta, Pod, key_of
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.live.client import EVERYTHING, PAGE, SILENCE, Client, Selection
from berth.live.errors import ApiError, Expired, NotFound, ServerError, Silent, TooManyRequests, Unreachable
from berth.live.sharing import SharedParts
from berth.live.wire import Frame, ObjectHead, Page
from berth.machines.contract import Event
from berth.machines.rates import Backoff

_log = logging.getLogger(__name__)

# Seconds until a kind that the server does not have is asked for again.
ABSENT = 5.0
_SHORT = 1.0  # seconds: a watch that ends sooner without an event counts as failed


class WatchedView(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


_V = TypeVar("_V", bound=WatchedView)
Consumer = Callable[[Event], None]
Trouble = Callable[[Resource, ApiError | None], None]


class Informer(Generic[_V]):
    """The objects of one resource, as last heard of.

    Attributes:
        objects: The newest known state of every object.
        synced: Set once the first list was delivered.

    `optional` says that the server may not have the resource at all; that is then like having no objects.
    `trouble` is called with every error by which the objects are out of date, and with None afterwards.
    A resource of several versions is taken from the best that the server has, which is looked for whenever
    everything is listed, and when the version that was watched is gone. Its objects say which one it is.
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
        silence: float = SILENCE,
        rng: random.Random | None = None,
        backoff: Backoff | None = None,
        optional: bool = False,
        trouble: Trouble | None = None,
    ) -> None:
        self.resource = resource
        self.objects: dict[Key, _V] = {}
        self.synced = asyncio.Event()
        self._client = client
        self._view = view
        self._decoder = msgspec.json.Decoder(view)
        self._kept: Callable[[Any], Any] | None = SharedParts().pod if issubclass(view, Pod) else None
        self._consumer = consumer
        self._selection = selection
        self._page = page
        self._timeout = timeout
        self._silence = silence
        self._rng = rng or random.Random()  # noqa: S311 - spreads reconnections, guards nothing
        self._backoff = backoff or Backoff(first=0.2, longest=30.0)
        self._failures = 0
        self._version = ""
        self._optional = optional
        self._moved = False  # the same objects come in another API version than before
        self._trouble = trouble

    async def run(self) -> None:
        """Stay in step until cancelled.

        Only a watch that delivers resets the backoff: a version that expires as soon as it was
        listed must not become a hot loop of lists.
        """
        while True:
            listed = False
            try:
                await self._list()
                listed = True
                await self._follow()
            except NotFound as error:
                if self._optional and not listed:
                    self._replace({})  # a kind that the server does not have, yet or any more
                    self.synced.set()
                    await asyncio.sleep(ABSENT * (1 + self._rng.random()))
                else:
                    await self._pause(error)  # then a list tells whether there is another version
            except ApiError as error:
                if isinstance(error, ServerError) and len(versions_of(self.resource)) > 1:
                    self._go_without(error)
                await self._pause(error)
            except msgspec.DecodeError as error:
                await self._pause(Unreachable(f"the server sent something unreadable: {error}"))

    def _go_without(self, error: ApiError) -> None:
        """Count a kind that cannot be listed as listed, so that others need not wait for it."""
        if not self.synced.is_set():
            _log.warning("%s cannot be listed, so nothing is known of them: %s", self.resource.name, error)
            self.synced.set()

    # --- listing ----------------------------------------------------------------------------------

    async def _list(self) -> None:
        pages = await self._all_pages()
        # Pages are of one moment; should they not be, the watch tells what happened since the first.
        self._version = pages[0].resource_version
        self._replace({key_of(item.metadata): item for page in pages for item in page.items})
        self._moved = False
        self.synced.set()

    async def _all_pages(self) -> list[Page[_V]]:
        """The collection, in the best version there is."""
        candidates = versions_of(self.resource)
        if len(candidates) == 1:
            return await self._pages_of_a_moment()
        before = self._client.served.get(self.resource)
        for candidate in candidates:
            self._client.served[self.resource] = candidate
            try:
                pages = await self._pages_of_a_moment()
            except NotFound:
                continue
            if before is not None and before != candidate:
                _log.info("%s: now in %s", self.resource.name, candidate.api_version)
            self._moved = before != candidate
            for page in pages:  # items of a list do not carry apiVersion and kind
                items: list[Any] = page.items
                items[:] = [
                    msgspec.structs.replace(item, api_version=candidate.api_version) for item in items
                ]
            return pages
        raise NotFound(404, "NotFound", f"the server has no {self.resource.name}")

    async def _pages_of_a_moment(self) -> list[Page[_V]]:
        """The collection; if it takes so long that the rest is gone, once more, then in one piece."""
        list_pages = partial(self._client.pages, self.resource, self._view, self._selection)
        for _ in range(2):
            try:
                return [self._shared(page) async for page in list_pages(limit=self._page)]
            except Expired as error:
                _log.info("%s: %s; listing from the start", self.resource.name, error)
        return [self._shared(page) async for page in list_pages(limit=0)]

    def _shared(self, page: Page[_V]) -> Page[_V]:
        if self._kept is not None:
            page.items[:] = map(self._kept, page.items)
        return page

    def _replace(self, found: dict[Key, _V]) -> None:
        for key in [key for key in self.objects if key not in found]:
            self._drop(key, self.objects[key])
        # After a relist changes are told in the order of resource versions, as a watch would have told them.
        for key, item in sorted(found.items(), key=_version) if self.synced.is_set() else found.items():
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
            started = asyncio.get_running_loop().time()
            delivered = False
            connection = self._client.watch(
                self.resource,
                self._selection,
                resource_version=self._version,
                seconds=self._timeout * (1 + self._rng.random()),
                silence=self._silence,
            )
            try:
                async with contextlib.aclosing(connection):
                    async for frames in connection:
                        if not frames:
                            self._tell(None)
                            continue
                        for frame in frames:
                            self._take(frame)
                        errors, delivered = 0, True
                        self._failures = 0
            except (Expired, NotFound):
                raise
            except Silent:
                continue  # probably nothing is wrong: watch anew to be sure
            except (Unreachable, TooManyRequests) as error:
                await self._pause(error)
            except ApiError as error:
                errors += 1
                if errors >= 5:
                    raise  # list again: the error may be told there
                await self._pause(error)
            else:
                errors = 0
                if not delivered and asyncio.get_running_loop().time() - started < _SHORT:
                    await self._pause(Unreachable("the watch ended as soon as it had begun"))

    def _take(self, frame: Frame) -> None:
        if frame.type == "BOOKMARK":
            self._advance(msgspec.json.decode(frame.object, type=ObjectHead).metadata.resource_version)
            return
        item = self._decoded(frame)
        if item is None:
            return
        version = item.metadata.resource_version or ""
        self._advance(version)
        key = key_of(item.metadata)
        known = self.objects.get(key)
        if known is not None and _is_before(version, known.metadata.resource_version or ""):
            return  # the list was newer
        if known is not None and known.metadata.uid != item.metadata.uid:
            self._drop(key, known)
            known = None
        if frame.type != DELETED:
            self._put(key, item, known)
        elif known is not None:
            self._drop(key, item)

    def _decoded(self, frame: Frame) -> _V | None:
        """The object; None if it cannot be decoded, which is then as if it were not there."""
        try:
            item = self._decoder.decode(frame.object)
            return item if self._kept is None else self._kept(item)
        except msgspec.ValidationError as error:
            metadata = msgspec.json.decode(frame.object, type=ObjectHead).metadata
            self._advance(metadata.resource_version)
            key = (metadata.namespace, metadata.name)
            _log.warning("%s: %s/%s is left out: %s", self.resource.name, *key, error)
            known = self.objects.get(key)
            if known is not None:
                self._drop(key, known)
            return None

    def _advance(self, version: str) -> None:
        """Note the newest version that was seen.

        Raises:
            Expired: the version is older than one already seen, as after a restore of etcd.
        """
        if _is_before(version, self._version):
            raise Expired(410, "Expired", f"version {version} came after {self._version}")
        self._version = version or self._version

    def _put(self, key: Key, item: _V, known: _V | None) -> None:
        same = known is not None and known.metadata.resource_version == item.metadata.resource_version
        if same and not self._moved:
            return
        self.objects[key] = item
        self._consumer(Event(self.resource, ADDED if known is None else MODIFIED, item, known))

    def _drop(self, key: Key, last: _V) -> None:
        known = self.objects.pop(key)
        self._consumer(Event(self.resource, DELETED, last, known))

    def _tell(self, error: ApiError | None) -> None:
        if self._trouble is not None:
            self._trouble(self.resource, error)

    async def _pause(self, error: ApiError) -> None:
        self._tell(error)
        self._failures += 1
        delay = max(self._backoff.jittered(self._failures, self._rng), error.retry_after or 0.0)
        _log.info("%s: %s; trying again in %.1f s", self.resource.name, error, delay)
        await asyncio.sleep(delay)


def _is_before(version: str, other: str) -> bool:
    """Whether one resourceVersion is older; never, if they are not numbers."""
    return version.isdecimal() and other.isdecimal() and int(version) < int(other)


def _version(entry: tuple[Key, WatchedView]) -> int:
    version = entry[1].metadata.resource_version or ""
    return int(version) if version.isdecimal() else 0
