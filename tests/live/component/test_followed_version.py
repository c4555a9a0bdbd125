"""Components follow their server as the version it says, also once it was upgraded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, Counter, generate_latest

from berth.kube.versions import NEWEST, OLDEST, VERSIONS, KubernetesVersion
from berth.live.client import Client
from berth.live.component.election import ElectionSettings
from berth.live.component.lifecycle import ComponentSettings, FollowedVersion, Work, run_component
from tests.live.kubeconfigs import kubeconfig
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.waiting import running, until

LEASE = ("leases", "kube-system", "berth-scheduler")
ELECTION = ElectionSettings(identity="a", lease=20.0, renew_deadline=15.0, retry=0.05)


def server(says: str = NEWEST.release) -> FakeApi:
    api = FakeApi()
    api.documents |= {"/version": {"gitVersion": says}, "/api": {}}
    return api


class Component:
    """Work that notes which version it is made for, and what becomes of it."""

    def __init__(self) -> None:
        self.version = FollowedVersion(again=0.01)
        self.story: list[str] = []
        self.registry: CollectorRegistry | None = None
        self.client: Client | None = None

    def make(self, client: Client, registry: CollectorRegistry) -> Work:
        name = self.version.version.name
        self.registry, self.client = registry, client
        count = Counter("rounds", "Of work.", registry=registry)

        async def act() -> None:
            count.inc()
            self.story.append(f"act {name}")
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0.01)  # finish something
                self.story.append(f"acted {name}")

        async def follow() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                self.story.append(f"followed {name}")

        return Work(follow=follow, act=act, unsynced=lambda: None)

    def counted(self) -> bytes:
        assert self.registry is not None
        return generate_latest(self.registry)


Story = Callable[[Component], Awaitable[None]]


def run(folder: Path, api: FakeApi, story: Story, election: ElectionSettings | None = None) -> Component:
    component = Component()

    async def told() -> None:
        async with serving(api) as outside:
            file = kubeconfig(folder, outside.url)
            settings = ComponentSettings(kubeconfig=str(file), election=election)
            async with running(run_component(settings, component.make, version=component.version)):
                await until(lambda: bool(component.story))
                await story(component)

    asyncio.run(told())
    return component


def upgrade(api: FakeApi, release: str) -> None:
    api.documents["/version"] = {"gitVersion": release}


async def asked(api: FakeApi, times: int = 3) -> None:
    before = len(api.requests)
    await until(lambda: api.requests[before:].count(("GET", "/version")) >= times)


@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_the_server_is_followed_as_what_it_says(tmp_path: Path, version: KubernetesVersion) -> None:
    """Work is made for its version, and goes on while that does not change."""
    api = server(version.release)

    async def story(component: Component) -> None:
        await asked(api)
        upgrade(api, f"v{version.name}.99")
        await asked(api)
        assert component.story == [f"act {version.name}"]

    run(tmp_path, api, story)


@pytest.mark.parametrize("election", [None, ELECTION], ids=["alone", "elected"])
def test_an_upgraded_server(tmp_path: Path, election: ElectionSettings | None) -> None:
    """What was begun is finished, then everything begins anew, and counts anew; a lease is held again."""
    api = server(OLDEST.release)

    async def story(component: Component) -> None:
        await asked(api)
        upgrade(api, NEWEST.release)
        await until(lambda: f"act {NEWEST.name}" in component.story)
        assert component.story == [
            f"act {OLDEST.name}",
            f"acted {OLDEST.name}",
            f"followed {OLDEST.name}",
            f"act {NEWEST.name}",
        ]
        assert b"rounds_total 1.0" in component.counted()
        if election is not None:
            assert api.objects[LEASE]["spec"]["holderIdentity"] == "a"
            assert component.client is not None
            assert component.client.fence is not None

    run(tmp_path, api, story, election)


def test_a_server_that_does_not_answer_now(tmp_path: Path) -> None:
    """While it is away, or does not tell, it is followed as before."""
    api = server(OLDEST.release)

    async def story(component: Component) -> None:
        for code in (500, 403, 429):

            def refuse(method: str, path: str, code: int = code) -> None:
                if (method, path) == ("GET", "/version"):
                    raise Fault(code, "no")

            api.before = refuse
            await asked(api)
        assert component.story == [f"act {OLDEST.name}"]

    run(tmp_path, api, story)


def test_a_server_newer_than_all(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is followed as the newest, which is told once, and once more when it is another one."""
    api = server("v1.99.0")

    async def story(component: Component) -> None:
        await asked(api)
        upgrade(api, "v1.100.0")
        await asked(api)
        assert component.story == [f"act {NEWEST.name}"]

    with caplog.at_level(logging.WARNING, "berth"):
        run(tmp_path, api, story)
    told = [record.getMessage() for record in caplog.records if "newer" in record.getMessage()]
    assert ["v1.99.0" in told[0], "v1.100.0" in told[1]] == [True, True]
    assert len(told) == 2
