"""What a component does first, and what it puts off until everything was listed."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from berth.live.client import Client
from berth.live.component import lifecycle
from berth.live.component.endpoint import ServingSettings
from berth.live.component.lifecycle import ComponentSettings, Work, run_component
from berth.live.kubeconfig import tls_context
from berth.sockets import listen
from tests.live.kubeconfigs import kubeconfig
from tests.support.api.fake import FakeApi, serving
from tests.support.waiting import running, until


class Listing:
    """Work that has listed everything when it is told so."""

    def __init__(self) -> None:
        self.listed = self.acts = False

    def make(self, client: Client, registry: CollectorRegistry) -> Work:
        del client, registry

        async def act() -> None:
            self.acts = True
            await asyncio.Event().wait()

        async def follow() -> None:
            await asyncio.Event().wait()

        return Work(follow=follow, act=act, unsynced=lambda: None if self.listed else "not listed yet: pods")


def settings(folder: Path, url: str, serving: ServingSettings | None = None) -> ComponentSettings:
    return ComponentSettings(kubeconfig=str(kubeconfig(folder, url)), serving=serving)


@pytest.mark.parametrize(("qps", "limited"), [(-1.0, False), (0.0, False), (5.0, True)])
def test_no_rate_is_no_limit(qps: float, tmp_path: Path, *, limited: bool) -> None:
    """Without a rate, or with a negative one, nobody waits."""
    clients: list[Client] = []

    def make(client: Client, registry: CollectorRegistry) -> Work:
        clients.append(client)
        return Listing().make(client, registry)

    async def story() -> None:
        async with serving(server()) as client:
            limits = replace(settings(tmp_path, client.url), qps=qps)
            async with running(run_component(limits, make)):
                await until(lambda: bool(clients))
        assert (clients[0].limiter is not None) == limited

    asyncio.run(story())


def server() -> FakeApi:
    api = FakeApi()
    api.documents["/api"] = {}
    return api


def test_garbage_is_looked_for_once_everything_was_listed(tmp_path: Path) -> None:
    """Lists make none; and what they make is not gone through again."""

    async def story() -> None:
        work = Listing()
        before = gc.get_threshold()
        try:
            async with (
                serving(server()) as client,
                running(run_component(settings(tmp_path, client.url), work.make)),
            ):
                await until(lambda: work.acts)
                assert not gc.isenabled()
                work.listed = True
                await until(gc.isenabled)
                assert gc.get_freeze_count() > 0
            assert gc.isenabled()
        finally:
            gc.set_threshold(*before)
            gc.unfreeze()

    asyncio.run(story())


@pytest.mark.parametrize("listed", [True, False])
def test_health_is_told_once_everything_was_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, listed: bool
) -> None:
    """Who asks for the health waits until all was listed, or for a while, and is not turned away."""
    monkeypatch.setattr(lifecycle, "_UNANSWERED", 60.0 if listed else 0.2)

    async def story() -> None:
        work = Listing()
        free = listen("127.0.0.1", 0)
        port = free.getsockname()[1]
        free.close()
        given = ServingSettings(port=port)
        async with (
            serving(server()) as client,
            running(run_component(settings(tmp_path, client.url, given), work.make)),
        ):
            await until(lambda: work.acts)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if listed:
                assert not reader.at_eof()
                work.listed = True
            await writer.start_tls(tls_context(verified=False))
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()

    asyncio.run(story())
    gc.unfreeze()
