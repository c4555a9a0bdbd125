"""How one machine is run: who goes first, what waits, and what is finished in the end."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from berth.kube.api_resources import EVENTS, NODES, PODS, VIEWS, Resource
from berth.kube.objects import Node, PartialObjectMetadata
from berth.live import machine_loop
from berth.live.logs import v
from berth.live.machine_loop import MachineLoop, MachineSettings
from berth.live.runner import Runner
from berth.machines.contract import Action, Bind, Create, Event, Get, Outcome, Patch
from berth.machines.recorder import EVENT
from tests.support.api.fake import FakeApi, serving
from tests.support.waiting import running, until


class Asker:
    """A machine that asks for what it is told to, and hears the answers."""

    name = "asker"

    def __init__(self, *actions: Action, watches: tuple[Resource, ...] = (PODS,)) -> None:
        self.watches = watches
        self.wants = list(actions)
        self.answers: list[Action] = []
        self.heard: list[Event] = []
        self.draining = False

    def handle(self, event: Event) -> None:
        self.heard.append(event)

    def due(self) -> float | None:
        return 0.0 if self.wants else None

    def reconcile(self, now: float) -> list[Action]:
        del now
        wants, self.wants = self.wants, []
        return wants

    def done(self, action: Action, outcome: Outcome) -> None:
        del outcome
        self.answers.append(action)

    def drain(self) -> None:
        self.draining = True


def get(name: str) -> Get:
    return Get(resource=PODS, key=("default", name))


def patch(name: str) -> Patch:
    return Patch(resource=PODS, key=("default", name), body={})


def event(number: int) -> Create:
    body = {"metadata": {"name": f"e{number}", "namespace": "default"}}
    key = ("default", f"e{number}")
    return Create(resource=EVENTS, key=key, at=("default", ""), body=body, purpose=EVENT)


@asynccontextmanager
async def at_work(
    api: FakeApi, machine: Asker, settings: MachineSettings
) -> AsyncIterator[tuple[Runner, asyncio.Task[None]]]:
    async with serving(api) as client:
        runner = Runner(client, [machine], VIEWS, settings=settings)
        async with running(runner.run()) as task:
            yield runner, task


def test_the_urgent_go_first() -> None:
    """Of what is asked for at once, requests are made by their rank, and in order among equals."""
    actions = (patch("a"), get("b"), patch("c"), get("d"))
    machine = Asker(*actions)

    async def story() -> None:
        settings = MachineSettings(concurrency=1, rank=lambda action: int(isinstance(action, Patch)))
        async with at_work(FakeApi(), machine, settings):
            await until(lambda: len(machine.answers) == 4)

    asyncio.run(story())
    assert [action.name for action in machine.answers] == ["b", "d", "a", "c"]


class Gate(FakeApi):
    """Answers to patches when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.open = asyncio.Event(), asyncio.Event()
        self.asking: list[str] = []

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method == "PATCH":
            self.asked.set()
            self.asking.append(request.path)
            await self.open.wait()
        return await super().handle(request)


def test_events_wait_while_requests_are_under_way() -> None:
    """Events trickle at first, and all are written once nothing else is to be done."""
    machine = Asker(patch("p"), *(event(number) for number in range(30)))

    async def story() -> None:
        api = Gate()
        async with at_work(api, machine, MachineSettings()):
            await api.asked.wait()
            await until(lambda: api.names("events") != [])
            assert len(api.names("events")) < 30
            api.open.set()
            await until(lambda: len(api.names("events")) == 30)

    asyncio.run(story())


def test_events_do_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something else is always under way, they are written once the first has waited for a while."""
    monkeypatch.setattr(machine_loop, "LATEST", 0.2)
    machine = Asker(patch("p"), *(event(number) for number in range(300)))

    async def story() -> None:
        api = Gate()
        async with at_work(api, machine, MachineSettings()):
            await api.asked.wait()
            await until(lambda: len(api.names("events")) == 300, timeout=8)  # at twenty a second it takes 15
            assert len(machine.answers) == 300
            api.open.set()

    asyncio.run(story())


@pytest.mark.parametrize(("under_way", "rest"), [(0, []), (1, [0.5]), (2, [0.25])])
def test_who_waits_for_answers_rests(
    monkeypatch: pytest.MonkeyPatch, *, under_way: int, rest: list[float]
) -> None:
    """The process sleeps before the machine is asked, shorter if half of what may be under way is."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    machine = Asker(*(patch(f"p{number}") for number in range(under_way)))

    async def story() -> None:
        api = Gate()
        async with at_work(api, machine, MachineSettings(concurrency=4, rests=(0.5, 0.25))):
            await until(lambda: len(api.asking) == under_way)
            assert slept == []
            machine.wants.append(get("more"))
            await api.put("pods", {"metadata": {"name": "heard-of", "namespace": "default"}})
            await until(lambda: get("more") in machine.answers)
            api.open.set()

    asyncio.run(story())
    assert slept == rest


def test_more_events_than_there_is_room_for_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go, it is counted how many, and the machine hears of each, as of those that are written."""
    monkeypatch.setattr(machine_loop, "MOST_EVENTS", 10)
    machine = Asker(patch("p"), *(event(number) for number in range(30)))

    async def story() -> None:
        api = Gate()
        async with serving(api) as client:
            loop = MachineLoop(client, machine, MachineSettings(), asyncio.Semaphore(1))
            async with running(loop.run(lambda: False)):
                await api.asked.wait()
                api.open.set()
                await until(lambda: len(machine.answers) == 31)
                assert loop.dropped == 20
                assert "e29" in api.names("events")
                assert "e0" not in api.names("events")

    asyncio.run(story())


def ended(*, abandoned: bool) -> Asker:
    """A machine whose request was under way when it was told to end."""
    machine = Asker(patch("p"))

    async def story() -> None:
        api = Gate()
        async with at_work(api, machine, MachineSettings(drain=5)) as (runner, task):
            await api.asked.wait()
            if abandoned:
                runner.abandon()
            task.cancel()
            await asyncio.sleep(0.05)
            api.open.set()

    asyncio.run(story())
    return machine


def test_what_was_begun_is_finished() -> None:
    """A machine that drains hears the answer to what it asked for before the end."""
    machine = ended(abandoned=False)
    assert machine.draining
    assert len(machine.answers) == 1


def test_whoever_lost_the_lead_ends_at_once() -> None:
    """Somebody else decides by now, so that nothing is waited for."""
    machine = ended(abandoned=True)
    assert machine.draining
    assert machine.answers == []


def test_a_machine_hears_of_what_was_known_before() -> None:
    """A resource that others watch already is not listed again for one who comes later."""
    early, late = Asker(watches=(NODES,)), Asker()

    async def story() -> None:
        api = FakeApi()
        await api.put("nodes", {"metadata": {"name": "n"}})
        async with serving(api) as client:
            runner = Runner(client, [early, late], VIEWS)
            async with running(runner.run()):
                await until(lambda: len(early.heard) == 1)
                runner.watch(NODES, PartialObjectMetadata, (late,))
                await api.put("nodes", {"metadata": {"name": "m"}})
                await until(lambda: len(late.heard) == 2)
                runner.unwatch(NODES, (late,))
                await api.put("nodes", {"metadata": {"name": "o"}})
                await until(lambda: len(early.heard) == 3)
                assert api.requests.count(("GET", "/api/v1/nodes")) == 2  # a list and a watch

    asyncio.run(story())
    assert [heard.key[1] for heard in late.heard] == ["n", "m"]


def through(lens: Callable[[Node], Node]) -> Asker:
    machine = Asker(watches=(NODES,))

    async def story() -> None:
        api = FakeApi()
        await api.put("nodes", {"metadata": {"name": "n"}})
        async with at_work(api, machine, MachineSettings(lenses={NODES: lens})) as (runner, _):
            await runner.synced()

    asyncio.run(story())
    return machine


def test_a_machine_may_see_objects_in_its_own_way() -> None:
    """What others see as it was decoded comes to it through its lens."""
    machine = through(lambda node: Node(metadata=node.metadata, kind="seen"))
    assert [heard.object.kind for heard in machine.heard] == ["seen"]


def test_every_binding_is_a_log_line_at_the_default_level(caplog: pytest.LogCaptureFixture) -> None:
    """Every binding is logged with the pod and the node, at the default level."""
    bind = Bind(resource=PODS, key=("default", "web"), node="n1", uid="u")

    async def scenario() -> None:
        api = FakeApi()
        api.objects["pods", "default", "web"] = {
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": "1"},
            "spec": {},
        }
        machine = Asker(bind)
        async with serving(api) as client, running(Runner(client, [machine], VIEWS).run()):
            await until(lambda: bool(machine.answers))

    with caplog.at_level(v(2), "berth.live.machine_loop"):
        asyncio.run(scenario())
    (line,) = [record for record in caplog.records if "bound" in record.getMessage()]
    assert line.__dict__["keys"] == {"pod": "default/web", "node": "n1"}


def test_why_a_request_was_made_is_a_log_line_at_a_high_level(caplog: pytest.LogCaptureFixture) -> None:
    """With what was asked for, of which object, and the reason."""
    machine = Asker(Get(resource=PODS, key=("default", "web"), why="an owner nobody has seen"))

    async def story() -> None:
        api = FakeApi()
        await api.put("pods", {"metadata": {"name": "web", "namespace": "default"}})
        async with at_work(api, machine, MachineSettings()):
            await until(lambda: bool(machine.answers))

    with caplog.at_level(v(4), "berth.live.machine_loop"):
        asyncio.run(story())
    (line,) = [record for record in caplog.records if record.getMessage() == "Request made"]
    assert line.__dict__["keys"] == {
        "what": "Get pods",
        "object": "default/web",
        "why": "an owner nobody has seen",
    }
