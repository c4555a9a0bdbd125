"""Requests take turns: as many as allowed, in order, the urgent first."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from berth.kube.api_resources import EVENTS, NODES, PODS
from berth.kube.objects import PartialObjectMetadata
from berth.live.rate_limit import Limiter, Urgency
from tests.support.api.fake import FakeApi, serving

URGENT, BACKGROUND = Urgency.URGENT, Urgency.BACKGROUND


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop whose time jumps to the next timer, so that waits take none."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        return self._now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self._now = max(self._now, self._scheduled[0]._when)  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(coroutine)


def now() -> float:
    return asyncio.get_running_loop().time()


def test_a_burst_then_the_rate() -> None:
    """Five at once, then ten a second; what was not used is saved up, but no more than the burst."""

    async def story() -> None:
        limiter = Limiter(10, 5)
        times = []
        for _ in range(10):
            await limiter.acquire()
            times.append(round(now(), 3))
        assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5]
        await asyncio.sleep(100)
        start = now()
        for _ in range(7):
            await limiter.acquire()
        assert round(now() - start, 3) == 0.2

    run(story())


def test_first_come_first_served_and_the_urgent_before_the_rest() -> None:
    """Whatever was asked for first, bindings go before events."""

    async def story() -> None:
        limiter = Limiter(10, 1)
        order: list[str] = []

        async def ask(name: str, urgency: Urgency) -> None:
            await limiter.acquire(urgency)
            order.append(name)

        await limiter.acquire()
        async with asyncio.TaskGroup() as group:
            for number in range(3):
                group.create_task(ask(f"event {number}", BACKGROUND))
            await asyncio.sleep(0)
            for number in range(3):
                group.create_task(ask(f"bind {number}", URGENT))
        assert order == ["bind 0", "bind 1", "bind 2", "event 0", "event 1", "event 2"]
        assert round(now(), 3) == 0.6

    run(story())


def test_who_leaves_the_line_takes_no_token() -> None:
    """A waiter that is cancelled takes no token, not even in the moment it is handed one."""

    async def story() -> None:
        limiter = Limiter(1, 1)
        await limiter.acquire()
        leaving = asyncio.create_task(limiter.acquire())
        staying = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0.5)
        leaving.cancel()
        await staying
        assert round(now(), 3) == 1.0

        late = asyncio.create_task(limiter.acquire())
        after = asyncio.create_task(limiter.acquire())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(2.0, limiter._hand_out)
        asyncio.get_running_loop().call_at(2.0, late.cancel)
        with pytest.raises(asyncio.CancelledError):
            await late
        await after
        assert now() < 2.1

    run(story())


def test_waiting_does_not_poll() -> None:
    """There is one wake-up a token, however many wait."""

    async def story() -> None:
        limiter = Limiter(1, 1)
        calls = 0
        original = limiter._hand_out

        def counted() -> None:
            nonlocal calls
            calls += 1
            original()

        limiter._hand_out = counted  # type: ignore[method-assign]
        await asyncio.gather(*(limiter.acquire() for _ in range(50)))
        assert now() >= 49
        assert calls <= 2 * 50

    run(story())


def test_the_client_waits_for_its_turn() -> None:
    """Events are in the background, a watch counts once, and `unlimited` does not wait."""

    class Noting(Limiter):
        def __init__(self) -> None:
            super().__init__(0, 1)
            self.asked: list[Urgency] = []

        async def acquire(self, urgency: Urgency = URGENT) -> None:
            self.asked.append(urgency)

    async def story() -> None:
        api = FakeApi()
        async with serving(api) as client:
            client.limiter = limiter = Noting()
            await client.create(EVENTS, {"metadata": {"name": "e"}}, "default")
            await client.patch(EVENTS, "e", {"count": 2}, namespace="default")
            await client.create(PODS, {"metadata": {"name": "p"}, "spec": {}}, "default")
            await client.bind("p", "default", "n")
            assert limiter.asked == [BACKGROUND, BACKGROUND, URGENT, URGENT]
            limiter.asked.clear()
            version = (await client.page(NODES, PartialObjectMetadata)).resource_version
            stream = client.watch(NODES, resource_version=version)
            for number in range(3):
                await api.put("nodes", {"metadata": {"name": f"n{number}"}})
                await anext(stream)
            await stream.aclose()
            assert limiter.asked == [URGENT, URGENT]
            await client.unlimited().list_all(NODES, PartialObjectMetadata)
            assert len(limiter.asked) == 2

    asyncio.run(story())
