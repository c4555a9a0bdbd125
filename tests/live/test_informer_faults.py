"""Whatever happens to lists and connections, a consumer hears of every change once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from berth.kube.api_resources import NODES
from berth.kube.objects import PartialObjectMetadata
from berth.machines.rates import Backoff
from tests.support.api.fake import serving
from tests.support.api.faulty import Ending, FaultyApi
from tests.support.api.histories.event_listener import CountingInformer, Listener
from tests.support.waiting import running, until


def world(api: FaultyApi) -> dict[str, tuple[str, str]]:
    return {
        key[2]: (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        for key, item in api.objects.items()
    }


@asynccontextmanager
async def informed(api: FaultyApi, **options: Any) -> AsyncIterator[tuple[CountingInformer, Listener]]:
    heard = Listener()
    async with serving(api) as client:
        backoff = Backoff(first=0.001, longest=0.01)
        informer = CountingInformer(
            client, NODES, PartialObjectMetadata, heard, page=3, backoff=backoff, **options
        )
        async with running(informer.run()):
            await asyncio.wait_for(informer.synced.wait(), 30)
            await until(lambda: bool(api.opened))
            yield informer, heard


async def put(api: FaultyApi, *names: str, **metadata: Any) -> None:
    for name in names:
        await api.put("nodes", {"metadata": {"name": name, **metadata}})


@pytest.mark.parametrize("ending", ["cut", "cut in a line", "end", "500 in a frame"])
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_watch_that_ends_is_resumed(ending: Ending, after: int) -> None:
    """Wherever it ends: between lines or within one, in good order or not; nothing is listed again."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0", "n1")
        api.endings += [(after, ending), (1, ending)]
        async with informed(api) as (informer, heard):
            await put(api, "a", "b", "n0", "c", "d")
            await api.remove("nodes", "a")
            await until(lambda: world(api) == heard.world)
            assert informer.relists == 1
            assert api.watches >= 3
            heard.check()

    asyncio.run(story())


def test_an_expired_version_is_listed_again() -> None:
    """If the server says so in a frame of the watch."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0", "n1")
        api.endings.append((1, "410 in a frame"))
        async with informed(api) as (informer, heard):
            await put(api, "a", "b")
            await until(lambda: world(api) == heard.world and informer.relists == 2)
            await put(api, "c")
            await until(lambda: world(api) == heard.world)
            heard.check()

    asyncio.run(story())


def test_an_object_made_again_while_nobody_watched() -> None:
    """Is a deletion and an addition, told by a list (410 as a status) or by the watch."""

    async def story(*, expired: bool) -> None:
        api = FaultyApi()
        await put(api, "n0", "n1")
        api.endings += [(0, "cut"), (0, "refuse"), (0, "refuse")]
        async with informed(api) as (informer, heard):
            api.endings += [(0, "refuse")] * 2
            if expired:
                api.oldest = 10**9
            await api.remove("nodes", "n0")
            await put(api, "n0")
            if expired:
                await until(lambda: informer.relists >= 2)
                api.oldest = 0
            await until(lambda: world(api) == heard.world)
            changes = [(change, uid) for change, name, uid in heard.told if name == "n0"]
            assert changes == [("ADDED", "uid-1"), ("DELETED", "uid-1"), ("ADDED", "uid-3")]
            heard.check()

    for expired in (False, True):
        asyncio.run(story(expired=expired))


def test_what_is_delivered_again_is_not_told_again() -> None:
    """A server that begins too early is not believed."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0", "n1", "n2")
        await api.remove("nodes", "n1")
        api.endings.append((2, "cut"))
        async with informed(api) as (_, heard):
            api.replay = 5
            await put(api, "n0", "n2", "a")
            await until(lambda: len(api.opened) >= 2 and world(api) == heard.world)
            await put(api, "b")
            await until(lambda: world(api) == heard.world)
            heard.check()

    asyncio.run(story())


def test_a_silent_watch_is_made_again() -> None:
    """A connection that nobody serves any more looks like one on which nothing happens."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0")
        api.endings.append((1, "silence"))
        async with informed(api, silence=0.3) as (informer, heard):
            await put(api, "a", "b")
            await until(lambda: world(api) == heard.world)
            assert informer.relists == 1
            assert len(api.opened) >= 2
            heard.check()

    asyncio.run(story())


def test_a_quiet_server_is_not_a_failing_one() -> None:
    """Where nothing happens watches are silent; reconnecting must not become ever slower."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0")
        api.endings += [(0, "silence")] * 4
        async with informed(api, silence=0.1) as (informer, heard):
            await until(lambda: len(api.opened) >= 4)
            assert informer._failures == 0
            await put(api, "a")
            await until(lambda: world(api) == heard.world)

    asyncio.run(story())


def test_an_object_that_is_not_what_it_should_be_is_left_out() -> None:
    """In a list and in a watch; the others are not kept from anybody."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "good")
        await api.put("nodes", {"metadata": {"name": "odd"}, "kind": 7})
        async with informed(api) as (_, heard):
            assert set(heard.world) == {"good"}
            await api.put("nodes", {"metadata": {"name": "odder"}, "kind": 7})
            await put(api, "better")
            await until(lambda: set(heard.world) == {"good", "better"})
            await api.put("nodes", {"metadata": {"name": "good"}, "kind": 7})
            await until(lambda: set(heard.world) == {"better"})

    asyncio.run(story())


def test_a_watch_that_always_ends_at_once_is_not_a_hot_loop() -> None:
    """The pauses grow; a change still comes through."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, "n0")
        api.endings += [(0, "end")] * 4
        async with informed(api) as (informer, heard):
            await until(lambda: not api.endings)
            await until(lambda: informer._failures >= 4)
            await put(api, "a")
            await until(lambda: world(api) == heard.world)
            await until(lambda: informer._failures == 0)

    asyncio.run(story())


def test_changes_during_a_slow_list_are_not_lost() -> None:
    """The pages are of one moment; what came since is told by the watch."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, *(f"n{number}" for number in range(8)))
        uid = api.objects["nodes", "", "n1"]["metadata"]["uid"]
        api.slow += [{"metadata": {"name": "n1", "uid": uid}}, {"metadata": {"name": "zz"}}]
        async with informed(api) as (informer, heard):
            await until(lambda: world(api) == heard.world)
            assert informer.relists == 1
            assert ("MODIFIED", "n1", uid) in heard.told
            heard.check()

    asyncio.run(story())


@pytest.mark.parametrize(("stale", "limits"), [(1, [3, 3, 3, 3, 3]), (2, [3, 3, 3, 3, 0])])
def test_a_list_that_takes_too_long_begins_again(stale: int, limits: list[int]) -> None:
    """The list is begun again in pages first, and then all at once."""

    async def story() -> None:
        api = FaultyApi()
        await put(api, *(f"n{number}" for number in range(8)))
        api.stale_tokens = stale
        async with informed(api) as (informer, heard):
            assert world(api) == heard.world
            assert api.limits == limits
            assert informer.relists == 1
            heard.check()

    asyncio.run(story())
