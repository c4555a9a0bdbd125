"""The client against the embedded API server, which dies in the middle of things."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from berth.kube.api_resources import Resource
from berth.kube.objects import PartialObjectMetadata
from berth.live.client import Client, Selection
from berth.live.errors import Expired
from berth.live.informer import Informer
from berth.machines.rates import Backoff
from tests.support.api.histories.event_listener import CountingInformer, Heard
from tests.support.api.servers import Backend, running_backend
from tests.support.waiting import running, until

CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")


@asynccontextmanager
async def connected(backend: Backend) -> AsyncIterator[Client]:
    context = ssl.create_default_context(cafile=str(backend.prepared.ca_file))
    async with Client.with_token(backend.url, backend.prepared.token, context, timeout=30) as client:
        yield client


async def create(client: Client, *names: str) -> None:
    for name in names:
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default")


async def actual(client: Client) -> dict[str, str]:
    found = await client.list_all(CONFIG_MAPS, PartialObjectMetadata)
    return {item.metadata.name or "": item.metadata.resource_version or "" for item in found}


def test_a_watch_survives_kill_9_of_the_server() -> None:
    """It resumes where it was: nothing is lost, nothing is told twice, nothing is listed again."""

    async def story(backend: Backend) -> None:
        heard = Heard()
        async with connected(backend) as client:
            informer = CountingInformer(
                client, CONFIG_MAPS, PartialObjectMetadata, heard, backoff=Backoff(first=0.01, longest=0.1)
            )
            async with running(informer.run()):
                await create(client, "before")
                await asyncio.wait_for(informer.synced.wait(), 10)
                await create(client, *(f"m{number}" for number in range(20)))
                backend.kill()
                await asyncio.to_thread(backend.restart)
                await create(client, "after")
                await client.delete(CONFIG_MAPS, "m3", namespace="default")
                expected = await actual(client)
                await until(lambda: expected == heard.world)
                assert len(heard.events) == len(set(heard.events))
                assert informer.relists == 1

    with running_backend(real=False) as backend:
        asyncio.run(story(backend))


def test_an_ancient_version_is_gone() -> None:
    """The server says 410, and the client raises what the informer lists again on."""

    async def story(backend: Backend) -> None:
        async with connected(backend) as client:
            await create(client, *(f"m{number}" for number in range(40)))
            with pytest.raises(Expired):
                async for _ in client.watch(CONFIG_MAPS, resource_version="1", seconds=1):
                    pass

    with running_backend(real=False, event_limit=5) as backend:
        asyncio.run(story(backend))


class Whole(PartialObjectMetadata, frozen=True):
    """A ConfigMap with what is in it."""

    data: dict[str, str] | None = None


def test_metadata_alone_is_listed_and_watched() -> None:
    """What is in the objects stays on the server."""

    async def story(backend: Backend) -> None:
        async with connected(backend) as client:
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

    with running_backend(real=False) as backend:
        asyncio.run(story(backend))
