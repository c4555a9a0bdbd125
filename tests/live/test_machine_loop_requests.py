"""Actions become requests, unless they are not meant any more."""

from __future__ import annotations

import asyncio

from berth.kube.api_resources import PODS
from berth.live.machine_loop import perform
from berth.live.rate_limit import Limiter
from berth.machines.contract import Evict
from tests.support.api.fake import FakeApi, serving

POST = ("POST", "/api/v1/namespaces/default/pods/p/eviction")


async def put_pod(api: FakeApi) -> None:
    await api.put("pods", {"metadata": {"namespace": "default", "name": "p"}, "spec": {}})


EVICTION = Evict(resource=PODS, key=("default", "p"))


def test_an_eviction_that_is_not_meant_any_more_is_not_sent() -> None:
    """An eviction withdrawn while it waits is a conflict and never sent."""

    async def story() -> None:
        api = FakeApi()
        await put_pod(api)
        async with serving(api) as client:
            outcome = await perform(client, EVICTION, lambda: 7.0, lambda _: False)
        assert outcome.conflict
        assert outcome.at == 7.0
        assert POST not in api.requests

    asyncio.run(story())


def test_one_that_is_meant_is_sent_once() -> None:
    """An eviction that is still meant is sent once."""

    async def story() -> None:
        api = FakeApi()
        await put_pod(api)
        async with serving(api) as client:
            client.limiter = Limiter(100.0, 1)
            assert (await perform(client, EVICTION, lambda: 7.0, lambda _: True)).ok
        assert api.requests.count(POST) == 1

    asyncio.run(story())


def test_it_is_asked_after_the_wait_for_a_turn() -> None:
    """A client that may make few requests makes them late."""

    async def story() -> None:
        api, known = FakeApi(), [True]
        await put_pod(api)
        async with serving(api) as client:
            client.limiter = Limiter(20.0, 1)
            await client.limiter.acquire()
            waiting = asyncio.create_task(perform(client, EVICTION, lambda: 7.0, lambda _: known[0]))
            await asyncio.sleep(0)
            known[0] = False
            assert (await waiting).conflict
        assert POST not in api.requests

    asyncio.run(story())
