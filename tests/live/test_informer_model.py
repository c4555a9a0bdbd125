"""Any mixture of changes and disconnections leaves a consumer with the server's state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.kube.api_resources import NODES
from berth.kube.objects import ObjectMeta, PartialObjectMetadata
from berth.live.errors import Expired, ServerError, TooManyRequests, Unreachable
from berth.live.informer import Informer
from berth.live.wire import Frame, Page
from berth.machines.rates import Backoff
from tests.support.api.histories.event_listener import Listener

NAMES = ("a", "b", "c", "d")


class World:
    """A server's state with its history, and a client for it in the same process."""

    def __init__(self, *, drifting: bool = False) -> None:
        self._drifting = drifting  # whether later pages of a list are of a later moment
        self.objects: dict[str, tuple[str, str]] = {}  # name -> uid, version
        self.history: list[tuple[int, str, str, str]] = []  # version, change, name, uid
        self.version = 0
        self.oldest = 0
        self.connections = 0  # those with a smaller number are broken
        self.broken_by = "cut"
        self.trouble: list[str] = []  # for the coming connections
        self._changed = asyncio.Event()

    # --- what happens -------------------------------------------------------------------------------

    def happen(self, what: str, name: str) -> None:
        match what:
            case "put":
                known = self.objects.get(name)
                self._change("MODIFIED" if known else "ADDED", name, known[0] if known else "")
            case "delete" | "replace":
                if name in self.objects:
                    self._change("DELETED", name, self.objects[name][0])
                if what == "replace":
                    self._change("ADDED", name, "")
            case "cut" | "end" | "error":
                self.connections, self.broken_by = self.connections + 1, what
                self._changed.set()
            case "expire":
                self.oldest = self.version
            case trouble:
                self.trouble.append(trouble)

    def _change(self, change: str, name: str, uid: str) -> None:
        self.version += 1
        uid = uid or f"{name}-{self.version}"
        if change == "DELETED":
            del self.objects[name]
        else:
            self.objects[name] = (uid, str(self.version))
        self.history.append((self.version, change, name, uid))
        self._changed.set()

    # --- the client ---------------------------------------------------------------------------------

    async def pages(self, *_: object, limit: int) -> AsyncIterator[Page[Any]]:
        moment, version = sorted(self.objects.items()), self.version
        step = limit or 1000
        for start in range(0, max(len(moment), 1), step):
            if start and version < self.oldest:
                raise Expired(410, "Expired", "the continue token is too old")
            if self._drifting and start:
                last = moment[start - 1][0]
                moment[start:] = [entry for entry in sorted(self.objects.items()) if entry[0] > last]
            yield Page([_view(*entry) for entry in moment[start : start + step]], str(version), "")
            await asyncio.sleep(0)

    async def watch(
        self, *_: object, resource_version: str, **__: object
    ) -> AsyncGenerator[list[Frame], None]:
        await asyncio.sleep(0)
        since, connection = int(resource_version), self.connections
        match self.trouble.pop(0) if self.trouble else "":
            case "refuse":
                raise ServerError(500, "InternalError", "no")
            case "busy":
                raise TooManyRequests(429, "TooManyRequests", "not now")
            case "repeat":
                since = max(since - 3, 0)
            case "bookmark":
                yield [_frame("BOOKMARK", ObjectMeta(resource_version=str(since)))]
        if since < self.oldest and since == int(resource_version):
            raise Expired(410, "Expired", "too old")
        while True:
            self._changed.clear()
            for version, change, name, uid in [entry for entry in self.history if entry[0] > since]:
                if connection != self.connections:
                    break
                since = version
                yield [_frame(change, ObjectMeta(name=name, uid=uid, resource_version=str(version)))]
                await asyncio.sleep(0)
            if connection != self.connections:
                if self.broken_by == "end":
                    return
                if self.broken_by == "error":
                    raise ServerError(500, "InternalError", "in a frame")
                raise Unreachable("cut")
            await self._changed.wait()


def _view(name: str, entry: tuple[str, str]) -> PartialObjectMetadata:
    return msgspec.convert(
        {"metadata": {"name": name, "uid": entry[0], "resourceVersion": entry[1]}}, PartialObjectMetadata
    )


def _frame(change: str, metadata: ObjectMeta) -> Frame:
    return Frame(change, msgspec.Raw(msgspec.json.encode({"metadata": metadata})))


async def _settled(world: World, heard: Listener) -> None:
    for _ in range(2000):
        if heard.world == world.objects:
            break
        await asyncio.sleep(0)


server_events = st.tuples(
    st.sampled_from(
        ["put"] * 4
        + ["delete"] * 2
        + ["replace"] * 2
        + ["cut", "cut", "end", "error", "expire", "refuse", "busy", "repeat", "bookmark"]
    ),
    st.sampled_from(NAMES),
    st.integers(0, 6),  # how far the informer comes until the next
)


@settings(max_examples=400, deadline=None)
@given(st.lists(server_events, max_size=50), st.booleans())
def test_the_consumer_ends_up_with_the_servers_state(
    script: list[tuple[str, str, int]], drifting: bool
) -> None:
    """The consumer ends with the server's state, and hears of every UID in order."""

    async def story() -> None:
        world, heard = World(drifting=drifting), Listener()
        world.happen("put", "a")
        backoff = Backoff(first=0.0, longest=0.0)
        informer = Informer(world, NODES, PartialObjectMetadata, heard, page=2, backoff=backoff)  # type: ignore[arg-type]
        task = asyncio.create_task(informer.run())
        for what, name, steps in script:
            world.happen(what, name)
            for _ in range(steps):
                await asyncio.sleep(0)
        await _settled(world, heard)
        if task.done():
            task.result()
        task.cancel()
        assert heard.world == world.objects
        known = {key[1]: item.metadata for key, item in informer.objects.items()}
        assert {name: (each.uid, each.resource_version) for name, each in known.items()} == world.objects
        heard.check()

    asyncio.run(story())


def test_pages_of_different_moments() -> None:
    """What a later page knew already is not taken back by the watch, whenever it happened."""

    async def story(steps: int) -> None:
        world, heard = World(drifting=True), Listener()
        for name in NAMES:
            world.happen("put", name)
        informer = Informer(world, NODES, PartialObjectMetadata, heard, page=2)  # type: ignore[arg-type]
        task = asyncio.create_task(informer.run())
        for _ in range(steps):
            await asyncio.sleep(0)
        world.happen("replace", "d")
        world.happen("put", "d")
        await _settled(world, heard)
        for _ in range(20):
            await asyncio.sleep(0)
        task.cancel()
        assert heard.world == world.objects
        heard.check()

    for steps in range(8):
        asyncio.run(story(steps))
