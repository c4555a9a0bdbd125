"""Two schedulers put the pods of one group into one domain, however late they hear of each other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from berth.engine.state.options import Options
from berth.kube.api_resources import NODES, PODS
from berth.kube.objects import Node, Pod, PodStatus, UntimedCondition
from berth.kube.well_known import ADDED, MODIFIED
from berth.machines.contract import Action, Bind, Create, Event, Get, Outcome, Patch
from berth.scheduler.groups import AWAITED, FIRST_OF_GROUP, VALID
from berth.scheduler.machine import Scheduler
from berth.scheduler.queue import SchedulerPurpose
from berth.scheduler.state import SchedulerSettings
from tests.support.builders import ZONE, PodBuilder, make_node, make_pod, where


@dataclass
class Candidate:
    """A scheduler, how far its watch has come, and its requests that have not reached the server."""

    machine: Scheduler
    heard: int = 0
    asked: list[Action] = field(default_factory=list)
    answers: list[tuple[Action, Outcome]] = field(default_factory=list)


class Shared:
    """One server, and schedulers whose events and requests take their time."""

    def __init__(self, *names: str, **options: Any) -> None:
        self.now = 1000.0
        self.pods: dict[str, Pod] = {}
        self.events: list[Event] = []
        self.bound: list[str] = []
        self.announced = 0
        for number in range(4):
            node = make_node(f"n{number}").labels({ZONE: f"z{number % 2}"}).allocatable(cpu="64", pods=500)
            self._tell(NODES, ADDED, node.build())
        options = {"announce_groups": True, **options}
        self.schedulers = {
            name: Candidate(
                Scheduler(
                    SchedulerSettings(profiles={name: Options()}, **options),
                    clock=lambda: self.now,
                    timer=lambda: 0.0,
                    identity=name,
                )
            )
            for name in names
        }

    def _tell(self, resource: Any, change: str, item: Node | Pod) -> None:
        self.events.append(Event(resource, change, item))

    def create(self, builder: PodBuilder) -> None:
        pod = builder.build()
        self.pods[pod.metadata.name or ""] = pod
        self._tell(PODS, ADDED, pod)

    def _store(self, pod: Pod) -> Outcome:
        self.pods[pod.metadata.name or ""] = pod
        self._tell(PODS, MODIFIED, pod)
        return Outcome(at=self.now)

    # --- steps --------------------------------------------------------------------------------------

    def hear(self, name: str, most: int = 1) -> None:
        one = self.schedulers[name]
        for event in self.events[one.heard : one.heard + most]:
            one.machine.handle(event)
            one.heard += 1
        one.machine.validate()

    def decide(self, name: str) -> None:
        one = self.schedulers[name]
        one.asked += one.machine.reconcile(self.now)
        one.machine.validate()

    def send(self, name: str, which: int = 0) -> None:
        one = self.schedulers[name]
        if one.asked:
            action = one.asked.pop(which % len(one.asked))
            meant = one.machine.confirms(action)
            one.answers.append(
                (action, self._answer(action) if meant else Outcome(self.now, 409, "Conflict"))
            )

    def answer(self, name: str) -> None:
        one = self.schedulers[name]
        if one.answers:
            one.machine.done(*one.answers.pop(0))
            one.machine.validate()

    def step(self, name: str) -> None:
        self.hear(name, 1000)
        self.decide(name)
        while self.schedulers[name].asked:
            self.send(name)
        while self.schedulers[name].answers:
            self.answer(name)

    def settle(self) -> None:
        """Everything is heard and answered, for as long as it takes."""
        for _ in range(60):
            for name in self.schedulers:
                self.step(name)
            self.now += 1.0

    # --- the server ---------------------------------------------------------------------------------

    def _answer(self, action: Action) -> Outcome:
        pod = self.pods.get(action.name)
        if pod is None:
            return Outcome(at=self.now)  # an Event
        match action:
            case Bind() if pod.spec.node_name:
                return Outcome(self.now, 409, "Conflict")
            case Bind():
                self.bound.append(action.name)
                return self._store(replace(pod, spec=replace(pod.spec, node_name=action.node)))
            case Patch(purpose=SchedulerPurpose.ANNOUNCEMENT, body=dict() as body):
                self.announced += 1
                condition = body["status"]["conditions"][0]
                stated = UntimedCondition(
                    type=condition["type"], status=condition["status"], message=condition["message"]
                )
                return self._store(replace(pod, status=PodStatus(conditions=[stated])))
            case Get():
                return Outcome(self.now, body=msgspec.json.encode(pod))
        return Outcome(at=self.now)

    def zones(self, app: str) -> set[str]:
        found = [pod for pod in self.pods.values() if (pod.metadata.labels or {}).get("app") == app]
        return {f"z{int((pod.spec.node_name or 'n9')[1:]) % 2}" for pod in found if pod.spec.node_name}

    @property
    def unbound(self) -> list[str]:
        return [name for name, pod in self.pods.items() if not pod.spec.node_name]


def member(name: str, scheduler: str, app: str = "x") -> PodBuilder:
    """A pod that wants its like, and prefers another zone than those of the other scheduler."""
    zone = "z0" if scheduler == "a" else "z1"
    pod = make_pod(name).labels(app=app).scheduler(scheduler).affinity_to(app=app, topology=ZONE)
    return pod.prefers_nodes(where(ZONE, "In", zone), weight=100)


def test_without_agreement_the_group_is_split() -> None:
    """The corner case is real, and the switch switches it off."""
    world = Shared("a", "b", announce_groups=False)
    world.create(member("one", "a"))
    world.create(member("two", "b"))
    for name in ("a", "b"):
        world.hear(name, 1000)
        world.decide(name)
    world.settle()
    assert world.zones("x") == {"z0", "z1"}


def test_whoever_announced_first_starts_the_group() -> None:
    """Both announce, both see both announcements in one order, and the second one follows the first."""
    world = Shared("a", "b")
    world.create(member("one", "a"))
    world.create(member("two", "b"))
    for _ in range(2):
        for name in ("a", "b"):
            world.hear(name, 1000)
            world.decide(name)
        for name in ("a", "b"):
            world.send(name)
    world.settle()
    assert world.announced == 2
    assert world.bound == ["one", "two"]
    assert world.zones("x") == {"z0"}


def test_only_the_first_of_a_group_pays() -> None:
    """There is one announcement for a group, and none for pods without affinity to their like."""
    world = Shared("a")
    for number in range(30):
        world.create(member(f"x{number}", "a"))
        world.create(make_pod(f"plain{number}").scheduler("a"))
        world.create(make_pod(f"near{number}").scheduler("a").affinity_to(app="x", topology=ZONE))
    world.settle()
    assert world.unbound == []
    assert world.announced == 1


def test_a_scheduler_that_died_is_waited_for_and_then_replaced() -> None:
    """Its pod was announced and never bound: after a while another one starts the group."""
    world = Shared("a", "b")
    world.create(member("one", "a"))
    world.hear("a", 1000)
    world.decide("a")
    world.send("a")
    world.create(member("two", "b"))
    for _ in range(int(AWAITED) - 1):
        world.step("b")
        world.now += 1.0
    assert world.bound == []
    for _ in range(4):
        world.step("b")
        world.now += 1.0
    assert world.bound == ["two"]
    world.settle()
    assert world.zones("x") == {"z1"}


def test_one_that_slept_does_not_start_a_group_when_it_wakes() -> None:
    """Its binding is not sent after its time, nor repeated: the pod is decided on anew."""
    world = Shared("a", "b")
    world.create(member("one", "a"))
    world.hear("a", 1000)
    world.decide("a")
    world.send("a")
    world.hear("a", 1000)
    world.decide("a")
    assert any(isinstance(action, Bind) for action in world.schedulers["a"].asked)
    world.create(member("two", "b"))
    for _ in range(int(AWAITED) + 3):
        world.step("b")
        world.now += 1.0
    assert world.bound == ["two"]
    assert world.now > VALID
    world.settle()
    assert world.bound == ["two", "one"]
    assert world.zones("x") == {"z1"}


def test_an_announcement_that_fails_is_made_again() -> None:
    """An announcement that failed is made again after a pause."""
    world = Shared("a")
    world.create(member("one", "a"))
    world.hear("a", 1000)
    world.decide("a")
    one = world.schedulers["a"]
    action = next(found for found in one.asked if found.purpose is SchedulerPurpose.ANNOUNCEMENT)
    one.asked.clear()
    one.machine.done(action, Outcome(world.now, 500, "InternalError"))
    world.step("a")
    assert world.bound == []
    world.settle()
    assert world.bound == ["one"]
    assert world.now > 0


def test_people_hear_why_a_pod_waits_that_may_not_be_announced() -> None:
    """Without the right to write its status it is not bound, and an event says what is missing."""
    world = Shared("a")
    world.create(member("one", "a"))
    one = world.schedulers["a"]
    told, refused = [], 0
    for _ in range(120):
        world.hear("a", 1000)
        world.decide("a")
        for action in one.asked:
            if action.purpose is SchedulerPurpose.ANNOUNCEMENT:
                refused += 1
                one.machine.done(action, Outcome(world.now, 403, "Forbidden", "pods/status is forbidden"))
            elif isinstance(action, Create):
                told.append(str(action.body))
        one.asked.clear()
        world.now += 1.0
    assert world.bound == []
    assert 4 < refused < 10
    assert "FailedScheduling" in told[0]
    assert "the first of the group of its pod affinity" in told[0]
    assert "pods/status is forbidden" in told[0]


def test_what_is_announced_is_a_condition() -> None:
    """People can read it in the pod's status, and who said so."""
    world = Shared("a")
    world.create(member("one", "a"))
    world.settle()
    status = world.pods["one"].status
    assert status is not None
    conditions = status.conditions or ()
    assert [found.type for found in conditions] == [FIRST_OF_GROUP]
    assert "starts the group of its pod affinity" in (conditions[0].message or "")


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from("ab"),
            st.sampled_from(
                ["look"] * 4 + ["send all"] * 4 + ["hear", "send", "answer", "step", "wait", "restart"]
            ),
            st.integers(0, 5),
        ),
        max_size=60,
    )
)
def test_a_group_is_never_split(steps: list[tuple[str, str, int]]) -> None:
    """Whatever the order of events, decisions, requests and answers, also over restarts."""
    world = Shared("a", "b")
    for number in range(6):
        world.create(member(f"p{number}", "ab"[number % 2], app=f"app{number // 2}"))
    for who, what, number in steps:
        match what:
            case "hear":
                world.hear(who, number + 1)
            case "look":
                world.hear(who, 1000)
                world.decide(who)
            case "send all":
                while world.schedulers[who].asked:
                    world.send(who, number)
            case "send":
                world.send(who, number)
            case "answer":
                world.answer(who)
            case "wait":
                world.now += number
            case "restart":
                fresh = Shared(who).schedulers[who]
                fresh.machine._clock = lambda: world.now
                world.schedulers[who] = fresh
            case _:
                world.step(who)
    world.settle()
    for app in ("app0", "app1", "app2"):
        assert len(world.zones(app)) <= 1
    assert world.unbound == []
