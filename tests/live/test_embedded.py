"""The client against the embedded API server, which dies in the middle of things."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from berth.kube.api_resources import Resource
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client, Selection
from berth.live.errors import ApiError, Expired
from berth.live.informer import Informer
from berth.machines.backoff import Backoff
from berth.server import ServerSettings, prepare
from tests.live.test_informer import Heard
from tests.support.control_plane import free_port
from tests.support.waiting import running, until

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


async def _start(settings: ServerSettings) -> Process:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "berth.cli.up.server", stdin=PIPE, stdout=DEVNULL, stderr=DEVNULL
    )
    given = {
        "dataDir": str(settings.data_dir),
        "host": settings.host,
        "port": settings.port,
        "kubeconfigOut": "",
        "featureGates": "",
        "eventLimit": settings.event_limit,
    }
    if process.stdin is not None:
        process.stdin.write(msgspec.json.encode(given) + b"\n")
    return process


@asynccontextmanager
async def server(settings: ServerSettings, client: Client) -> AsyncIterator[Process]:
    """The API server, ready; killed in the end if it still runs."""
    process = await _start(settings)
    try:
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.request("GET", "/readyz")
                    break
                except ApiError:
                    await asyncio.sleep(0.05)
        yield process
    finally:
        if process.returncode is None:
            os.kill(process.pid, signal.SIGKILL)
        await process.wait()


@asynccontextmanager
async def connected(folder: Path) -> AsyncIterator[tuple[ServerSettings, Client]]:
    settings = ServerSettings(data_dir=folder, port=free_port())
    prepared = prepare(settings)
    context = ssl.create_default_context(cafile=str(prepared.ca_file))
    async with Client.with_token(prepared.url, prepared.token, context, timeout=30) as client:
        yield settings, client


async def create(client: Client, *names: str) -> None:
    for name in names:
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")


async def actual(client: Client) -> dict[str, str]:
    found = await client.list_all(CONFIG_MAPS, PartialObjectMetadata)
    return {item.metadata.name or "": item.metadata.resource_version or "" for item in found}


def test_a_watch_survives_kill_9_of_the_server(tmp_path: Path) -> None:
    """It resumes where it was: nothing is lost, nothing is told twice, nothing is listed again."""

    async def story() -> None:
        heard = Heard()
        async with connected(tmp_path / "d") as (settings, client):
            informer = Informer(
                client, CONFIG_MAPS, PartialObjectMetadata, heard, backoff=Backoff(first=0.01, longest=0.1)
            )
            async with running(informer.run()):
                async with server(settings, client) as process:
                    await create(client, "before")
                    await asyncio.wait_for(informer.synced.wait(), 10)
                    await create(client, *(f"m{number}" for number in range(20)))
                    process.kill()
                    await process.wait()
                async with server(settings, client):
                    await create(client, "after")
                    await client.delete(CONFIG_MAPS, "m3", namespace="default")
                    expected = await actual(client)
                    await until(lambda: expected == heard.world)
                    assert len(heard.events) == len(set(heard.events))
                    assert informer.relists == 1

    asyncio.run(story())


def test_an_ancient_version_is_gone(tmp_path: Path) -> None:
    """The server says 410, and the client raises what the informer lists again on."""

    async def story() -> None:
        async with (
            connected(tmp_path / "d") as (settings, client),
            server(replace(settings, event_limit=5), client),
        ):
            await create(client, *(f"m{number}" for number in range(40)))
            with pytest.raises(Expired):
                await anext(client.watch(CONFIG_MAPS, resource_version="1", seconds=1))

    asyncio.run(story())


class Whole(PartialObjectMetadata, frozen=True):
    data: dict[str, str] | None = None


def test_metadata_alone_is_listed_and_watched(tmp_path: Path) -> None:
    """What is in the objects stays on the server."""

    async def story() -> None:
        async with connected(tmp_path) as (settings, client), server(settings, client):
            body = {"metadata": {"name": "a", "labels": {"app": "x"}}, "data": {"password": "p"}}
            await client.create(CONFIG_MAPS, body, "default")
            heard = Heard()
            only = Selection(namespace="default", metadata_only=True)
            informer = Informer(client, CONFIG_MAPS, Whole, heard, selection=only)
            async with running(informer.run()):
                await informer.synced.wait()
                await client.create(CONFIG_MAPS, {**body, "metadata": {"name": "b"}}, "default")
                await until(lambda: ("default", "b") in informer.objects)
            found = informer.objects["default", "a"]
            assert found.metadata.labels == {"app": "x"}
            assert [item.data for item in informer.objects.values()] == [None, None]

    asyncio.run(story())
