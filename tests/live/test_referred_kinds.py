"""Bindings without labels are placed by the labels of their workloads, which are watched for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from berth.fleet.scheduler import FleetScheduler, FleetSettings
from berth.fleet.scheduler.fleet_cache import VIEWS, referred_kind, unlisted_kind
from berth.live import referred_kinds as module
from berth.live.listing import list_fleet
from berth.live.referred_kinds import ReferredKinds
from berth.live.runner import Runner
from tests.support.api.fake import FakeApi, Fault, Raw, serving
from tests.support.fleet.builders import BindingBuilder, make_binding, make_cluster, peers
from tests.support.waiting import running, until

NAMES = frozenset(("default-scheduler",))
KINDS = {
    "/apis/apps/v1": [("deployments", "Deployment")],
    "/apis/x.io/v1": [("things", "Thing")],
}


class Discovering(FakeApi):
    """Says which kinds there are, too, and hears in which form Deployments are wanted.

    Attributes:
        things: The connection of the newest watch of things.
    """

    def __init__(self) -> None:
        super().__init__()
        self.accepted: set[str] = set()
        self.things: asyncio.Transport | None = None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in KINDS:
            resources = [
                {"name": name, "kind": kind, "namespaced": True, "verbs": ["list", "watch"]}
                for name, kind in KINDS[request.path]
            ]
            return web.json_response({"resources": resources})
        if request.path.startswith("/apis/") and request.path.count("/") == 3:
            raise Fault(404, "NotFound")
        if request.path.endswith("/deployments"):
            self.accepted.add(request.headers["Accept"].partition(";g=")[0])
        if request.path.endswith("/things") and request.query.get("watch"):
            self.things = request.transport
        return await super()._answer(request)

    async def deploy(self, name: str, **labels: str) -> None:
        await self.put("deployments", {"metadata": {"name": name, "namespace": "default", "labels": labels}})

    async def bind(self, builder: BindingBuilder) -> None:
        await self.put("resourcebindings", msgspec.to_builtins(builder.build()))

    def places(self, name: str) -> list[str]:
        (found,) = [item for key, item in self.objects.items() if key[2] == name]
        return [target["name"] for target in found["spec"].get("clusters") or ()]

    def scheduled(self) -> list[Raw]:
        return [
            item
            for key, item in self.objects.items()
            if key[0] == "resourcebindings" and item.get("status", {}).get("conditions")
        ]


def flink(name: str, **kind: str) -> BindingBuilder:
    """One of those that must be on different clusters, by labels that its binding does not have."""
    return make_binding(name, **kind).spread("cluster", 1, 1).apart_from(peers({"app": "flink"}))


async def prepared() -> Discovering:
    """A server with two clusters."""
    made = Discovering()
    for name in ("m1", "m2"):
        cluster = make_cluster(name).apis("x.io/v1", "Thing").apis("y.io/v1", "Absent").build()
        await made.put("clusters", msgspec.to_builtins(cluster))
    return made


@asynccontextmanager
async def scheduling(api: FakeApi) -> AsyncIterator[Runner]:
    async with serving(api) as client:
        machine = FleetScheduler(FleetSettings(scheduler_names=NAMES))
        watching = ReferredKinds(client, machine, referred_kind, machine.cache.watched, unlisted_kind)
        runner = Runner(client, [machine], VIEWS, first=(watching,))

        async def act() -> None:
            await watching.settled(runner)
            await runner.act()

        async with running(runner.follow()), running(watching.follow(runner)), running(act()):
            yield runner
            # Who is cancelled while it connects leaves a socket behind: a fault of the HTTP library.
            await until(lambda: api.watches >= len(runner.informers))


def test_labels_of_workloads_decide() -> None:
    """Nothing is decided before the labels of the workloads that are there are known."""

    async def story() -> None:
        api = await prepared()
        for name in ("a", "b"):
            await api.deploy(name, app="flink")
            await api.bind(flink(name))
        async with scheduling(api):
            await until(lambda: len(api.scheduled()) == 2)
        assert sorted(api.places("a-deployment") + api.places("b-deployment")) == ["m1", "m2"]
        assert api.accepted == {
            "application/json;as=PartialObjectMetadataList",
            "application/json;as=PartialObjectMetadata",
        }

    asyncio.run(story())


def test_a_workload_may_be_seen_later_than_its_binding() -> None:
    """A binding waits a moment for the labels of its workload, while others are placed."""

    async def story() -> None:
        api = await prepared()
        await api.deploy("a", app="flink")
        await api.deploy("c")
        await api.bind(flink("a"))
        async with scheduling(api):
            await until(lambda: len(api.scheduled()) == 1)
            await api.bind(make_binding("b").spread("cluster", 1, 1))
            await api.bind(make_binding("c").spread("cluster", 1, 1))
            await until(lambda: len(api.scheduled()) == 2)
            assert api.places("b-deployment") == []
            await api.deploy("b", app="flink")
            await until(lambda: len(api.scheduled()) == 3)
        assert api.places("b-deployment") != api.places("a-deployment")

    asyncio.run(story())


def test_a_kind_is_watched_from_its_first_binding_on() -> None:
    """A workload kind is watched only once a binding refers to it."""

    async def story() -> None:
        api = await prepared()
        async with scheduling(api) as runner:
            await until(lambda: runner.unsynced() is None)
            assert not any("things" in path for _, path in api.requests)
            await api.put(
                "things", {"metadata": {"name": "t", "namespace": "default", "labels": {"app": "flink"}}}
            )
            await api.bind(flink("t", kind="Thing", api_version="x.io/v1"))
            await until(lambda: len(api.scheduled()) == 1)
            assert any("things" in path for _, path in api.requests)

    asyncio.run(story())


@pytest.mark.parametrize("code", [403, 404])
def test_a_kind_that_cannot_be_listed_is_told_once(code: int, caplog: pytest.LogCaptureFixture) -> None:
    """Its bindings are placed by what they say themselves, without waiting."""

    async def story() -> None:
        api = await prepared()

        def refuse(_: str, path: str) -> None:
            if path.endswith("/things"):
                raise Fault(code, "Forbidden" if code == 403 else "NotFound")

        api.before = refuse
        with caplog.at_level(logging.WARNING, module.__name__):
            async with scheduling(api):
                for name in ("s", "t"):
                    await api.bind(make_binding(name, kind="Thing", api_version="x.io/v1"))
                await until(lambda: len(api.scheduled()) == 2, timeout=1.9)
        assert [record.__dict__["keys"]["kind"] for record in caplog.records] == ["Thing"]

    asyncio.run(story())


def test_rules_about_labels_that_may_not_be_seen_are_not_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """The condition and an event name the missing right; once it is granted, placing goes on by itself."""
    monkeypatch.setattr(module, "_AGAIN", 0.05)
    right = "(cannot list things.x.io: Forbidden)"

    async def story() -> None:
        api = await prepared()
        allowed: list[bool] = []

        def refuse(_: str, path: str) -> None:
            if path.endswith("/things") and not allowed:
                raise Fault(403, "Forbidden")

        api.before = refuse
        for name in ("s", "t"):
            labels = {"app": "flink"}
            await api.put("things", {"metadata": {"name": name, "namespace": "default", "labels": labels}})
        async with scheduling(api):
            for name in ("s", "t"):
                await api.bind(flink(name, kind="Thing", api_version="x.io/v1"))
            await until(lambda: len(api.scheduled()) == 2)
            assert api.places("s-thing") == api.places("t-thing") == []
            for binding in api.scheduled():
                (condition,) = binding["status"]["conditions"]
                assert (condition["status"], condition["reason"]) == ("False", "SchedulerError")
                assert "Thing of x.io/v1" in condition["message"]
                assert right in condition["message"]
            await until(lambda: any(right in item.get("message", "") for item in api.objects.values()))
            allowed.append(True)
            await until(lambda: bool(api.places("s-thing") and api.places("t-thing")), timeout=20)
        assert sorted(api.places("s-thing") + api.places("t-thing")) == ["m1", "m2"]

    asyncio.run(story())


THING = {"kind": "Thing", "api_version": "x.io/v1"}


def thing(name: str) -> Raw:
    return {"metadata": {"name": name, "namespace": "default", "labels": {"app": "flink"}}}


@pytest.mark.parametrize("code", [403, 500, 503])
def test_a_kind_that_fails_later_holds_up_rules_about_it(code: int) -> None:
    """A right is revoked, or the server fails, after all went well; placing goes on when it is back."""

    async def story() -> None:
        api = await prepared()
        failing: list[bool] = []

        def refuse(_: str, path: str) -> None:
            if path.endswith("/things") and failing:
                raise Fault(code, f"fault {code}")

        api.before = refuse
        await api.put("clusters", msgspec.to_builtins(make_cluster("m3").apis("x.io/v1", "Thing").build()))
        await api.put("things", thing("s"))
        async with scheduling(api):
            await api.bind(flink("s", **THING))
            await until(lambda: bool(api.places("s-thing")))
            await until(lambda: api.things is not None)
            failing.append(True)
            assert api.things is not None
            api.things.abort()
            await api.put("things", thing("t"))
            await api.bind(flink("t", **THING))
            await api.bind(flink("web"))
            await api.bind(make_binding("free", **THING).namespace("elsewhere"))
            await until(lambda: len(api.scheduled()) == 4)
            assert api.places("t-thing") == api.places("web-deployment") == []
            assert api.places("free-thing")
            said = f"(cannot list or watch things.x.io: fault {code})"
            for binding in api.scheduled():
                (condition,) = binding["status"]["conditions"]
                assert condition["status"] == "True" or said in condition["message"]
            await until(lambda: any(said in item.get("message", "") for item in api.objects.values()))
            failing.clear()
            await until(lambda: bool(api.places("t-thing") and api.places("web-deployment")))
        placed = [api.places(name) for name in ("s-thing", "t-thing", "web-deployment")]
        assert sorted(placed) == [["m1"], ["m2"], ["m3"]]

    asyncio.run(story())


def test_a_kind_that_fails_from_the_start_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has no rule about it is placed; who has one is refused until it can be listed."""
    monkeypatch.setattr(module, "_RETRY", 0.05)
    monkeypatch.setattr(module, "_LONGEST_START", 0.2)

    async def story() -> None:
        api = await prepared()
        failing = [True]

        def refuse(_: str, path: str) -> None:
            if path.endswith("/things") and failing:
                raise Fault(503, "busy")

        api.before = refuse
        for name in ("s", "t"):
            await api.put("things", thing(name))
            await api.bind(flink(name, **THING))
        await api.deploy("a", app="web")
        await api.bind(make_binding("a").apart_from(peers({"app": "other"})))
        async with scheduling(api):
            await until(lambda: len(api.scheduled()) == 3)
            assert api.places("s-thing") == api.places("t-thing") == []
            assert api.places("a-deployment")
            failing.clear()
            await until(lambda: bool(api.places("s-thing") and api.places("t-thing")))
        assert sorted(api.places("s-thing") + api.places("t-thing")) == ["m1", "m2"]

    asyncio.run(story())


def test_a_kind_that_is_not_served(caplog: pytest.LogCaptureFixture) -> None:
    """A workload kind that is not served, or is no kind, is not asked for."""

    async def story() -> None:
        api = await prepared()
        with caplog.at_level(logging.WARNING, module.__name__):
            async with scheduling(api):
                await api.bind(make_binding("s", kind="Absent", api_version="y.io/v1"))
                await api.bind(make_binding("t", kind="Odd", api_version="../../version"))
                await until(lambda: len(api.scheduled()) == 2, timeout=1.9)
        assert {record.__dict__["keys"]["kind"] for record in caplog.records} == {"Absent", "Odd"}
        assert not any("version" in path for _, path in api.requests)

    asyncio.run(story())


def test_everything_can_be_listed_at_once() -> None:
    """A fleet is listed with the workloads its bindings refer to; what is not served is noted."""

    async def story() -> None:
        api = await prepared()
        await api.deploy("a", app="flink")
        await api.bind(flink("a"))
        await api.bind(make_binding("s", kind="Absent", api_version="y.io/v1"))
        async with serving(api) as client:
            listing = await list_fleet(client)
        assert {(manifest.kind, manifest.name) for manifest in listing.manifests} == {
            ("Cluster", "m1"),
            ("Cluster", "m2"),
            ("ResourceBinding", "a-deployment"),
            ("ResourceBinding", "s-absent"),
            ("Deployment", "a"),
        }
        assert listing.notes == ["Absent of y.io/v1 is not served, so their labels are those of the bindings"]

    asyncio.run(story())
