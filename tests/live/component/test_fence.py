"""A leader that was stopped sends nothing when it wakes, unless the lease is still its own."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import pytest
import uvloop
from prometheus_client import CollectorRegistry

from berth.kube.api_resources import NODES, PODS
from berth.live.client import Client
from berth.live.component.election import (
    Election,
    ElectionSettings,
    LeaderFence,
    LeadershipLost,
    lead,
)
from berth.live.component.lifecycle import ComponentSettings, Work, run_component
from berth.live.errors import NotSent
from berth.live.machine_loop import perform
from berth.live.rate_limit import Limiter
from berth.machines.contract import Bind, Get, Outcome
from berth.machines.rates import boottime
from tests.live.kubeconfigs import kubeconfig
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.waiting import running, until

LEASE = ("leases", "kube-system", "berth-scheduler")
LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth-scheduler"
BINDING = ("POST", "/api/v1/namespaces/default/pods/p/binding")
BIND = Bind(resource=PODS, key=("default", "p"), node="n")
SETTINGS = ElectionSettings(identity="a", lease=20.0, renew_deadline=15.0, retry=0.5)


class Clock:
    """Time that goes on, and can go on while nobody looks."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Gate:
    """A fence that answers as it is told: when asked whether to wait, and when asked right before sending."""

    def __init__(self, *answers: bool, opens: bool = True) -> None:
        self._answers, self._opens = list(answers), opens

    def lets_through(self) -> bool:
        return self._answers.pop(0)

    async def opened(self) -> bool:
        return self._opens


async def bound(client: Client) -> Outcome:
    return await perform(client, BIND, lambda: 7.0)


async def with_a_pod() -> FakeApi:
    api = FakeApi()
    await api.put("pods", {"metadata": {"namespace": "default", "name": "p"}, "spec": {}})
    return api


async def stolen(api: FakeApi, *, released: bool = False) -> None:
    """Somebody else takes the lease, and perhaps gives it back."""
    lease = api.objects[LEASE]
    holder = "" if released else "b"
    await api.put("leases", {**lease, "spec": {**lease["spec"], "holderIdentity": holder}})


# --- how long a lease lasts -------------------------------------------------------------------------


def test_a_lease_lasts_until_the_renew_deadline() -> None:
    """Counted from when it was asked for, and not for one who does not hold it."""
    election = Election(ElectionSettings(identity="a", retry=2.0, renew_deadline=10.0))
    assert not election.lasts(100.0)
    election.runs(100.0)
    election.wrote(election.claim(0.0), 100.0)
    for now in range(101, 110):
        assert election.runs(now)
        assert election.lasts(now)
    assert election.runs(110.0)
    assert not election.lasts(110.0)
    election.wrote(election.claim(0.0), 110.0)
    assert election.lasts(111.0)
    election.saw({"spec": {"holderIdentity": "b"}}, 111.0)
    assert not election.lasts(111.0)


def test_after_a_pause_the_lease_counts_only_once_it_was_renewed() -> None:
    """Within the deadline, too, only an answer to what was asked after the pause renews the lease."""
    election = Election(ElectionSettings(identity="a", retry=2.0, renew_deadline=10.0))
    election.runs(100.0)
    election.wrote(election.claim(0.0), 100.0)
    assert not election.runs(103.0)
    assert not election.lasts(103.0)
    election.wrote(election.claim(0.0), 102.9)
    assert not election.lasts(103.1)
    election.wrote(election.claim(0.0), 103.0)
    assert election.runs(103.2)
    assert election.lasts(103.2)


def test_the_clock_goes_on_while_the_machine_sleeps() -> None:
    """It never goes back, and is at least as far as the one that stands still meanwhile."""
    assert boottime() >= time.monotonic() - 1.0
    assert boottime() <= boottime()


# --- what is sent -----------------------------------------------------------------------------------


def test_not_a_byte_is_sent_when_the_fence_closed_on_the_way() -> None:
    """Nothing is sent on a connection that is there already: the head of a request waits for its body."""

    async def story() -> None:
        received: list[bytes] = []

        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            received.append(await reader.read())
            writer.close()
            await writer.wait_closed()

        server = await asyncio.start_server(take, "127.0.0.1", 0)
        async with server:
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            async with Client.with_token(url, "token", context=False) as client:
                client.fence = Gate(False, False, False)
                with pytest.raises(NotSent) as refused:
                    await client.bind("p", "default", "n")
                with pytest.raises(NotSent):
                    await client.delete(PODS, "p", namespace="default")
                with pytest.raises(NotSent):
                    await client.patch(PODS, "p", {}, namespace="default")
            assert (refused.value.code, refused.value.reason) == (409, "Conflict")
            await until(lambda: bool(received))
        assert set(received) == {b""}

    asyncio.run(story())


def test_what_was_held_back_is_sent_when_it_may_be() -> None:
    """A request that was held back is sent once, when it may be."""

    async def story() -> None:
        api = await with_a_pod()
        async with serving(api) as client:
            client.fence = Gate(False, False, True)
            assert (await bound(client)).ok
        assert api.requests.count(BINDING) == 1

    asyncio.run(story())


def test_one_who_leads_no_more_is_told_that_nothing_was_sent() -> None:
    """A conflict: nothing happened, and it will not by this request."""

    async def story() -> None:
        api = await with_a_pod()
        async with serving(api) as client:
            client.fence = Gate(False, opens=False)
            outcome = await bound(client)
        assert outcome.conflict
        assert "not sent" in outcome.message
        assert api.requests == []

    asyncio.run(story())


def test_reading_and_renewing_are_not_held_back() -> None:
    """A standby reads, and the lease must be renewed for the fence to open."""

    async def story() -> None:
        api = await with_a_pod()
        async with serving(api) as client:
            client.fence = Gate(opens=False)
            get = Get(resource=PODS, key=("default", "p"))
            assert (await perform(client, get, lambda: 7.0)).ok
            await client.unlimited().create(NODES, {"metadata": {"name": "n"}})

    asyncio.run(story())


def test_it_is_asked_after_the_wait_for_a_turn() -> None:
    """A client that may make few requests makes them late."""

    async def story() -> None:
        api = await with_a_pod()
        async with serving(api) as client:
            client.fence, client.limiter = Gate(True), Limiter(20.0, 1)
            await client.limiter.acquire()
            waiting = asyncio.create_task(bound(client))
            await asyncio.sleep(0)
            client.fence = Gate(False, opens=False)
            assert (await waiting).conflict
        assert api.requests == []

    asyncio.run(story())


def test_what_is_let_through_leaves_at_once() -> None:
    """Nothing waits in the process between the look at the clock and the network, whatever else it does."""
    listener = socket.create_server(("127.0.0.1", 0))
    arrived: list[float] = []

    def take() -> None:
        connection, _ = listener.accept()
        with connection:
            while not connection.recv(65536).endswith(b"}"):
                pass
            arrived.append(time.monotonic())
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

    class Busy(Gate):
        def lets_through(self) -> bool:
            asyncio.get_running_loop().call_soon(time.sleep, 0.5)
            asked.append(time.monotonic())
            return True

    async def story() -> None:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with Client.with_token(url, "token", context=False) as client:
            client.fence = Busy()
            await client.bind("p", "default", "n")

    asked: list[float] = []
    thread = threading.Thread(target=take)
    thread.start()
    uvloop.run(story())
    thread.join()
    listener.close()
    assert arrived[0] - asked[0] < 0.4


# --- with an election -------------------------------------------------------------------------------


def test_a_leader_that_was_replaced_in_its_sleep_sends_nothing() -> None:
    """It wakes with something to send, finds that another one leads, and ends."""

    async def story() -> None:
        api, clock = await with_a_pod(), Clock()
        fence = LeaderFence(Election(SETTINGS), clock)
        async with serving(api) as client:
            client.fence = fence

            async def work() -> None:
                await stolen(api)
                clock.ahead += 60.0
                await bound(client)

            with pytest.raises(LeadershipLost, match="is held by 'b'"):
                await lead(client, SETTINGS, work, fence=fence)
            assert not await fence.opened()
            assert (await bound(client)).conflict
        assert BINDING not in api.requests

    asyncio.run(story())


def test_a_leader_whose_sleep_nobody_noticed_goes_on() -> None:
    """It renews at once, then sends what it had to."""

    async def story() -> None:
        api, clock = await with_a_pod(), Clock()
        fence = LeaderFence(Election(SETTINGS), clock)
        async with serving(api) as client:
            client.fence = fence

            async def work() -> None:
                clock.ahead += 60.0
                api.requests.clear()
                assert (await bound(client)).ok

            await lead(client, SETTINGS, work, fence=fence)
        assert api.requests[:2] == [("PUT", LEASE_PATH), BINDING]

    asyncio.run(story())


def test_a_lease_that_another_one_had_meanwhile_is_not_taken_back() -> None:
    """A lease that is free again is not taken back: what was decided before may be wrong by now."""

    async def story() -> None:
        api, clock = await with_a_pod(), Clock()
        fence = LeaderFence(Election(SETTINGS), clock)
        async with serving(api) as client:
            client.fence = fence

            async def work() -> None:
                await stolen(api, released=True)
                clock.ahead += 60.0
                await bound(client)

            with pytest.raises(LeadershipLost, match="was held by somebody else"):
                await lead(client, SETTINGS, work, fence=fence)
        assert BINDING not in api.requests

    asyncio.run(story())


def test_one_that_cannot_renew_stops_sending_before_it_stops_working() -> None:
    """Nothing goes out after the renew deadline, however long the work takes to end."""

    async def story() -> None:
        api = await with_a_pod()
        settings = ElectionSettings(identity="a", lease=2.0, renew_deadline=0.6, retry=0.1)
        fence = LeaderFence(Election(settings))
        outcomes: list[Outcome] = []
        broken = asyncio.Event()

        def silent(method: str, path: str) -> None:
            if broken.is_set() and "leases" in path and method in {"GET", "PUT"}:
                raise ConnectionResetError

        api.before = silent
        async with serving(api) as client:
            client.fence = fence

            async def work() -> None:
                broken.set()
                try:
                    await asyncio.Event().wait()
                finally:
                    outcomes.append(await bound(client))

            with pytest.raises(LeadershipLost, match=r"was not renewed for 0\.6 seconds"):
                await lead(client, settings, work, fence=fence)
        assert [outcome.conflict for outcome in outcomes] == [True]
        assert BINDING not in api.requests

    asyncio.run(story())


@pytest.mark.parametrize("elects", [True, False])
def test_every_component_that_elects_is_fenced(tmp_path: Path, *, elects: bool) -> None:
    """Every component that elects is fenced, and one that runs alone is not."""

    def no_discovery(method: str, path: str) -> None:
        if (method, path) == ("GET", "/api"):
            raise Fault(403, "Forbidden")

    async def story() -> None:
        api = await with_a_pod()
        api.before = no_discovery
        async with serving(api) as outside:
            file = kubeconfig(tmp_path, outside.url)
            outcomes: list[Outcome] = []

            def make(client: Client, registry: CollectorRegistry) -> Work:
                del registry

                async def act() -> None:
                    assert (client.fence is not None) == elects
                    outcomes.append(await bound(client))

                async def follow() -> None:
                    await asyncio.Event().wait()

                return Work(follow=follow, act=act, unsynced=lambda: None)

            settings = ComponentSettings(kubeconfig=str(file), election=SETTINGS if elects else None)
            async with running(run_component(settings, make)):
                await until(lambda: bool(outcomes))
            assert outcomes[0].ok

    asyncio.run(story())
