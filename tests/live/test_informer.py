"""Informers lose no change and tell none twice, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from berth.kube.api_resources import NODES
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client
from berth.machines.rates import Backoff
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.api.histories.event_listener import CountingInformer, Heard
from tests.support.waiting import running, until


def actual(api: FakeApi) -> dict[str, str]:
    return {key[2]: item["metadata"]["resourceVersion"] for key, item in api.objects.items()}


@asynccontextmanager
async def informed(
    api: FakeApi, before: Callable[[Client], Any] | None = None
) -> AsyncIterator[tuple[CountingInformer, Heard]]:
    heard = Heard()
    async with serving(api) as client:
        if before is not None:
            before(client)
        informer = CountingInformer(
            client,
            NODES,
            PartialObjectMetadata,
            heard,
            page=3,
            backoff=Backoff(first=0.001, longest=0.01),
            timeout=60,
        )
        async with running(informer.run()):
            await asyncio.wait_for(informer.synced.wait(), 10)
            await until(lambda: api.watches > 0)
            yield informer, heard


async def fill(api: FakeApi, count: int = 7) -> None:
    for number in range(count):
        await api.put("nodes", {"metadata": {"name": f"n{number}"}})


def test_lists_then_watches() -> None:
    """What was there is added, later changes follow in order, each once."""

    async def story() -> None:
        api = FakeApi()
        await fill(api)
        async with informed(api) as (informer, heard):
            assert actual(api) == heard.world
            await api.put("nodes", {"metadata": {"name": "n0", "labels": {"a": "b"}}})
            await api.remove("nodes", "n1")
            await until(lambda: actual(api) == heard.world)
            assert len(heard.events) == len(set(heard.events))
            assert set(heard.world) == {key[1] for key in informer.objects}

    asyncio.run(story())


def test_a_connection_cut_in_mid_watch_is_resumed() -> None:
    """A watch that is cut resumes without a list, a gap or a repetition."""

    async def story() -> None:
        api = FakeApi()
        await fill(api, 2)
        async with informed(api) as (informer, heard):
            api.cut_after = 2
            for number in range(10):
                await api.put("nodes", {"metadata": {"name": f"m{number}"}})
            await until(lambda: actual(api) == heard.world)
            assert api.watches >= 2
            assert informer.relists == 1
            assert len(heard.events) == len(set(heard.events)) == 12

    asyncio.run(story())


def test_what_was_missed_is_told_in_the_order_in_which_it_happened() -> None:
    """The order is that of the changes, which others may rely on, not that of names, as it is listed."""

    async def story() -> None:
        api = FakeApi()
        await fill(api, 3)
        async with informed(api) as (informer, heard):
            known = len(heard.events)
            api.oldest = 10**9
            api.cut_after = 0
            for name in ("n2", "n9", "n0", "n5", "n1"):
                await api.put("nodes", {"metadata": {"name": name, "labels": {"a": "b"}}})
            await until(lambda: informer.relists >= 2 and actual(api) == heard.world)
            api.oldest = 0
            assert [name for _, name, _ in heard.events[known:]] == ["n2", "n9", "n0", "n5", "n1"]

    asyncio.run(story())


def test_an_expired_version_is_listed_again_and_only_differences_are_told() -> None:
    """Objects that went, came or changed meanwhile are; the rest is not mentioned."""

    async def story() -> None:
        api = FakeApi()
        await fill(api, 3)
        async with informed(api) as (informer, heard):
            before = len(heard.events)
            api.oldest = 10**9  # whatever version is asked for is too old
            api.cut_after = 0
            await api.put("nodes", {"metadata": {"name": "new"}})
            await until(lambda: informer.relists >= 2)
            await api.remove("nodes", "n0")
            await until(lambda: actual(api) == heard.world)
            api.oldest = 0
            await until(lambda: api.watches >= 2)
            changes = [(change, name) for change, name, _ in heard.events[before:]]
            # Pages of the fake server are of different moments, so one list may miss what the next one has.
            assert {("ADDED", "new"), ("DELETED", "n0")} <= set(changes)
            assert {name for _, name in changes} == {"new", "n0"}

    asyncio.run(story())


def test_an_object_made_again_under_its_name_is_a_deletion_and_an_addition() -> None:
    """A recreated object is told as deleted and added, also when only a list shows it."""

    async def story() -> None:
        api = FakeApi()
        await fill(api, 1)
        async with informed(api) as (_, heard):
            await api.put("nodes", {"metadata": {"name": "n0", "uid": "another"}})
            await until(lambda: actual(api) == heard.world)
            assert [change for change, _, _ in heard.events] == ["ADDED", "DELETED", "ADDED"]

    asyncio.run(story())


def test_errors_and_overload_are_waited_out() -> None:
    """500 and 429 on lists and watches delay, and nothing is lost."""

    async def story() -> None:
        api = FakeApi()
        await fill(api, 4)
        faults = iter([500, 429, 500, 503, 429, 500])

        def trouble(method: str, path: str) -> None:
            del method, path
            code = next(faults, None)
            if code is not None:
                raise Fault(code, "trouble", "0")

        api.before = trouble
        async with informed(api) as (_, heard):
            await api.put("nodes", {"metadata": {"name": "late"}})
            await until(lambda: actual(api) == heard.world)

    asyncio.run(story())
