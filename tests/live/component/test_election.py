"""Of several candidates one leads, and when it goes or falls silent another takes over."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from berth.live.client import Client
from berth.live.component.election import Election, ElectionSettings, LeadershipLost, lead
from tests.support.api.client import Client as ServerClient
from tests.support.api.fake import FakeApi, Fault, Raw, serving
from tests.support.api.servers import running_server
from tests.support.waiting import running, until

LEASE = ("leases", "kube-system", "berth-scheduler")
WALL = 1_800_000_000.0


def quick(identity: str) -> ElectionSettings:
    return ElectionSettings(identity=identity, lease=20.0, renew_deadline=15.0, retry=0.1)


class Worker:
    """What a leader does; `drains` is what it waits for when it is cancelled."""

    def __init__(self, drains: asyncio.Event | None = None) -> None:
        self.works = False
        self.starts = 0
        self.seen: list[str] = []
        self._drains = drains

    async def __call__(self) -> None:
        self.works = True
        self.starts += 1
        try:
            await asyncio.Event().wait()
        finally:
            if self._drains is not None:
                await self._drains.wait()
            self.works = False


def spec(api: FakeApi) -> Raw:
    record: Raw = api.objects[LEASE]["spec"]
    return record


# --- the state machine ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_settings", "complaint"),
    [
        ({"lease": 10.0}, "lease duration must be greater than the renew deadline"),
        ({"retry": 9.0}, "renew deadline must be greater than 1.2 times"),
        ({"retry": 0.0}, "retry period must be greater than zero"),
        ({"identity": ""}, "identity"),
    ],
)
def test_settings_are_checked(given_settings: dict[str, float], complaint: str) -> None:
    """Settings are refused on the conditions of client-go."""
    with pytest.raises(ValueError, match=complaint):
        ElectionSettings(**given_settings)  # type: ignore[arg-type]


def test_every_candidate_has_a_name_of_its_own() -> None:
    """Two candidates on one host have different identities."""
    assert ElectionSettings().identity != ElectionSettings().identity


def test_the_record_is_client_gos() -> None:
    """The lease is created, renewed and taken over with client-go's fields."""
    first = Election(ElectionSettings(identity="a"))
    lease = first.claim(WALL)
    assert lease == {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "berth-scheduler", "namespace": "kube-system"},
        "spec": {
            "holderIdentity": "a",
            "leaseDurationSeconds": 15,
            "acquireTime": "2027-01-15T08:00:00.000000Z",
            "renewTime": "2027-01-15T08:00:00.000000Z",
            "leaseTransitions": 0,
        },
    }
    lease["metadata"] |= {"resourceVersion": "5", "labels": {"keep": "me"}}
    first.wrote(lease, 0.0)
    renewed = first.claim(WALL + 2)
    assert renewed["metadata"] == lease["metadata"]
    assert renewed["spec"] == {**lease["spec"], "renewTime": "2027-01-15T08:00:02.000000Z"}
    second = Election(ElectionSettings(identity="b"))
    second.saw({**renewed, "spec": {**renewed["spec"], "strategy": "OldestEmulationVersion"}}, 100.0)
    taken = second.claim(WALL + 20)["spec"]
    assert (taken["holderIdentity"], taken["leaseTransitions"]) == ("b", 1)
    assert taken["acquireTime"] == taken["renewTime"] == "2027-01-15T08:00:20.000000Z"
    assert taken["strategy"] == "OldestEmulationVersion"
    released = first.release(WALL + 3)["spec"]
    assert (released["holderIdentity"], released["leaseDurationSeconds"]) == ("", 1)
    assert released["leaseTransitions"] == 0


def test_only_the_own_clock_counts() -> None:
    """The time runs from when the record was seen to change, whatever it says."""
    candidate = Election(ElectionSettings(identity="b"))
    held = {"spec": {"holderIdentity": "a", "leaseDurationSeconds": 15, "renewTime": "2001-01-01T00:00:00Z"}}
    candidate.saw(held, 100.0)
    candidate.saw(held, 110.0)
    assert candidate.free_at() == 115.0
    candidate.saw({"spec": {**held["spec"], "renewTime": "2001-01-01T00:00:02Z"}}, 112.0)
    assert candidate.free_at() == 127.0
    candidate.saw({"spec": {**held["spec"], "holderIdentity": ""}}, 113.0)
    assert candidate.free_at() < 113.0


def test_a_leader_that_is_stuck_is_unhealthy() -> None:
    """It should have stepped down; one that waits for its turn is fine."""
    election = Election(ElectionSettings(identity="a"))
    assert election.failing(1000.0) is None
    election.wrote(election.claim(WALL), 1000.0)
    assert election.failing(1030.0) is None
    assert election.failing(1036.0) == "failed election to renew leadership on lease berth-scheduler"
    election.lost()
    assert election.failing(1036.0) is None


class _Server:
    def __init__(self) -> None:
        self.lease: Raw | None = None
        self.version = 0

    def write(self, body: Raw) -> Raw | None:
        given_version = body["metadata"].get("resourceVersion")
        current = self.lease["metadata"]["resourceVersion"] if self.lease else None
        if given_version != current:
            return None
        self.version += 1
        self.lease = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return self.lease


@dataclass
class _Simulated:
    """A candidate in virtual time: it reads, may dawdle, and writes what it decided."""

    election: Election
    decided: Raw | None = None
    asked: float = 0.0

    def read(self, server: _Server, now: float) -> None:
        if server.lease is None:
            self.election.forget()
        else:
            self.election.saw(server.lease, now)
        if self.election.free_at() <= now:
            self.decided, self.asked = self.election.claim(WALL + now), now

    def write(self, server: _Server, *, hears: bool) -> None:
        if self.decided is not None:
            answer = server.write(self.decided)
            if answer is not None and hears:
                self.election.wrote(answer, self.asked)
            self.decided = None

    def works(self, now: float) -> bool:
        """A shell stops the work when it could not renew until the deadline."""
        election = self.election
        return election.leads and now < election.renewed + election.settings.renew_deadline


@settings(max_examples=300)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 1),
            st.sampled_from(["try"] * 6 + ["read", "write", "lose answer", "release", "die"]),
            st.sampled_from([0.0, 1.0, 9.0, 16.0]),
        ),
        min_size=10,
        max_size=40,
    )
)
def test_there_are_never_two_leaders(steps: list[tuple[int, str, float]]) -> None:
    """However candidates are interleaved, delayed, killed and cut off, no two lead at once."""
    server, now, names = _Server(), 0.0, iter(range(1000))

    def candidate() -> _Simulated:
        return _Simulated(Election(ElectionSettings(identity=f"c{next(names)}")))

    candidates = [candidate() for _ in range(2)]
    for who, what, delay in steps:
        now += delay
        one = candidates[who]
        if what == "die":
            candidates[who] = candidate()
        elif what == "release" and one.election.leads and not one.decided:
            answer = server.write(one.election.release(WALL + now))
            if answer is not None:
                one.election.wrote(answer, now)
        if what in ("try", "read"):
            one.read(server, now)
        if what in ("try", "write", "lose answer"):
            one.write(server, hears=what != "lose answer")
        assert sum(each.works(now) for each in candidates) <= 1


# --- against a server -------------------------------------------------------------------------------


def test_the_first_leads_and_the_second_takes_over_when_it_leaves() -> None:
    """The work ends first, then the lease is released, then the other one starts."""

    async def story() -> None:
        api = FakeApi()
        drains = asyncio.Event()
        first, second = Worker(drains), Worker()
        async with serving(api) as client:
            leader = asyncio.create_task(lead(client, quick("a"), first, on_change=first.seen.append))
            await until(lambda: first.works)
            standby = lead(client, quick("b"), second, on_change=second.seen.append)
            async with running(standby):
                await until(lambda: second.seen == ["a"])
                leader.cancel()
                renewed = spec(api)["renewTime"]
                await until(lambda: spec(api)["renewTime"] > renewed)
                assert (first.works, second.works) == (True, False)
                assert spec(api)["holderIdentity"] == "a"
                drains.set()
                await until(lambda: second.works)
                assert not first.works
                with pytest.raises(asyncio.CancelledError):
                    await leader
                assert spec(api)["holderIdentity"] == "b"
                assert spec(api)["leaseTransitions"] == 1
            assert spec(api)["holderIdentity"] == ""
            assert first.seen == ["a", ""]
            assert [seen for seen in second.seen if seen] == ["a", "b"]

    asyncio.run(story())


def test_a_leader_that_falls_silent_is_replaced() -> None:
    """After the lease has ended, and only by one."""

    async def story() -> None:
        api = FakeApi()
        await api.put(
            "leases",
            {
                "metadata": {"name": LEASE[2], "namespace": LEASE[1]},
                "spec": {"holderIdentity": "dead", "leaseDurationSeconds": 1, "leaseTransitions": 7},
            },
        )
        workers = [Worker() for _ in range(3)]
        async with serving(api) as client, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(lead(client, quick(f"c{number}"), worker))
                for number, worker in enumerate(workers)
            ]
            await until(lambda: any(worker.works for worker in workers))
            before = spec(api)["renewTime"]
            await until(lambda: spec(api)["renewTime"] > before)
            assert sum(worker.starts for worker in workers) == 1
            assert spec(api)["leaseTransitions"] == 8
            for task in tasks:
                task.cancel()

    asyncio.run(story())


def test_two_that_try_at_once_do_not_both_win() -> None:
    """The server refuses the second write; nobody leads twice."""

    async def story() -> None:
        api = FakeApi()
        workers = [Worker() for _ in range(8)]
        async with serving(api) as client, asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(lead(client, quick(f"c{number}"), worker))
                for number, worker in enumerate(workers)
            ]
            for turn in range(len(tasks)):
                await until(lambda: any(worker.works for worker in workers))
                assert sum(worker.works for worker in workers) == 1
                assert sum(worker.starts for worker in workers) == turn + 1
                number = next(number for number, worker in enumerate(workers) if worker.works)
                assert spec(api)["holderIdentity"] == f"c{number}"
                tasks[number].cancel()
                await asyncio.wait({tasks[number]})

    asyncio.run(story())


def test_a_leader_that_cannot_renew_stops() -> None:
    """After the deadline, with the work cancelled; errors before that are waited out."""

    async def story() -> None:
        api = FakeApi()
        worker = Worker()
        failures = 0
        broken = False

        def trouble(method: str, path: str) -> None:
            nonlocal failures
            del method, path
            if broken:
                failures += 1
                if failures <= 2 or failures > 4:
                    raise Fault(503, "ServiceUnavailable")

        api.before = trouble
        async with serving(api) as client:
            hasty = replace(quick("a"), renew_deadline=1.5)
            leader = asyncio.create_task(lead(client, hasty, worker, on_change=worker.seen.append))
            await until(lambda: worker.works)
            broken = True
            await until(lambda: failures >= 4)
            assert worker.works
            with pytest.raises(LeadershipLost, match=r"was not renewed for 1\.5 seconds"):
                await leader
            assert not worker.works
            assert worker.seen == ["a", ""]
            assert spec(api)["holderIdentity"] == "a"  # it was not ours to release any more

    asyncio.run(story())


def test_a_leader_that_was_replaced_stops_at_once() -> None:
    """It does not wait for its deadline, and leaves the lease to the other one."""

    async def story() -> None:
        api = FakeApi()
        worker = Worker()
        async with serving(api) as client:
            leader = asyncio.create_task(lead(client, quick("a"), worker))
            await until(lambda: worker.works)
            lease = api.objects[LEASE]
            await api.put("leases", {**lease, "spec": {**lease["spec"], "holderIdentity": "b"}})
            with pytest.raises(LeadershipLost, match="is held by 'b'"):
                await leader
            assert not worker.works
            assert spec(api)["holderIdentity"] == "b"

    asyncio.run(story())


def test_a_lease_that_was_deleted_is_made_again() -> None:
    """The leader goes on, and makes the lease again that was deleted."""

    async def story() -> None:
        api = FakeApi()
        worker = Worker()
        async with serving(api) as client, running(lead(client, quick("a"), worker)):
            await until(lambda: worker.works)
            await api.remove(*(LEASE[0], LEASE[2], LEASE[1]))
            await until(lambda: LEASE in api.objects)
            assert worker.works

    asyncio.run(story())


def test_work_that_ends_or_breaks_gives_the_lease_back() -> None:
    """Work that ends or raises gives the lease back, and the error comes through."""

    async def ends() -> None:
        pass

    async def breaks() -> None:
        raise LookupError

    async def story() -> None:
        api = FakeApi()
        async with serving(api) as client:
            await lead(client, quick("a"), ends)
            assert spec(api)["holderIdentity"] == ""
            with pytest.raises(LookupError):
                await lead(client, quick("b"), breaks)
            assert spec(api)["holderIdentity"] == ""

    asyncio.run(story())


def test_cancelled_while_waiting() -> None:
    """A candidate that never led leaves the lease alone."""

    async def story() -> None:
        api = FakeApi()
        worker, waiting = Worker(), Worker()
        async with serving(api) as client, running(lead(client, quick("a"), worker)):
            await until(lambda: worker.works)
            async with running(lead(client, quick("b"), waiting, on_change=waiting.seen.append)):
                await until(lambda: waiting.seen == ["a"])
            assert spec(api)["holderIdentity"] == "a"
            assert waiting.starts == 0

    asyncio.run(story())


def test_renewals_do_not_wait_for_the_limiter() -> None:
    """A leader with a long line of bindings stays the leader."""

    async def story() -> None:
        api = FakeApi()
        worker = Worker()

        class Never:
            async def acquire(self, _: object) -> None:
                await asyncio.Event().wait()

        async with serving(api) as client:
            client.limiter = Never()  # type: ignore[assignment]
            async with running(lead(client, quick("a"), worker)):
                await until(lambda: worker.works)

    asyncio.run(story())


def test_on_the_embedded_server(tmp_path: Path) -> None:
    """The same with a server that checks and stores leases as Kubernetes does."""

    async def story(server: ServerClient) -> None:
        context = ssl.create_default_context(cafile=str(server.prepared.ca_file))
        first, second = Worker(), Worker()
        async with Client.with_token(server.prepared.url, server.prepared.token, context) as client:
            leader = asyncio.create_task(lead(client, quick("a"), first))
            await until(lambda: first.works)
            async with running(lead(client, quick("b"), second, on_change=second.seen.append)):
                await until(lambda: second.seen == ["a"])
                leader.cancel()
                await until(lambda: second.works)
                with pytest.raises(asyncio.CancelledError):
                    await leader

    with running_server(tmp_path) as server:
        asyncio.run(story(server))
        path = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/berth-scheduler"
        record = server.get(path).json["spec"]
        assert (record["holderIdentity"], record["leaseTransitions"]) == ("", 1)
