"""A resource of several versions is watched, listed and written in the best one that the server has."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from berth.kube.api_resources import POD_GROUPS, versions_of
from berth.kube.objects import PodGroup
from berth.live.client import Client
from berth.live.informer import Informer
from berth.live.listing import Lister
from berth.machines.contract import Event
from berth.machines.rates import Backoff
from tests.support.api.fake import FakeApi, Fault, serving
from tests.support.waiting import running, until

KNOWN = [resource.version for resource in versions_of(POD_GROUPS)]
GROUP = {"metadata": {"namespace": "default", "name": "train"}, "spec": {}}


class Server(FakeApi):
    """One that has PodGroups in some versions."""

    def __init__(self, *versions: str) -> None:
        super().__init__()
        self.served = versions
        self.before = self._refuse

    def _refuse(self, method: str, path: str) -> None:
        del method
        if "/scheduling.k8s.io/" in path and path.split("/")[3] not in self.served:
            raise Fault(404, "NotFound")

    async def upgrade(self, *versions: str) -> None:
        """Be restarted with others: whoever watches has to connect again."""
        self.served = versions
        self.cut_after = 0
        await self.put("podgroups", {"metadata": {"namespace": "default", "name": "tick"}, "spec": {}})

    def asked(self, version: str) -> list[str]:
        return [method for method, path in self.requests if f"/{version}/" in path]


@asynccontextmanager
async def informed(api: Server) -> AsyncIterator[tuple[Client, list[Event]]]:
    events: list[Event] = []
    async with serving(api) as client:
        backoff = Backoff(first=0.001, longest=0.01)
        informer = Informer(client, POD_GROUPS, PodGroup, events.append, backoff=backoff, optional=True)
        async with running(informer.run()):
            await asyncio.wait_for(informer.synced.wait(), 10)
            yield client, events


def heard(events: list[Event]) -> list[tuple[str, str]]:
    assert {event.resource for event in events} <= {POD_GROUPS}
    return [(event.change, event.key[1]) for event in events]


@pytest.mark.parametrize("served", [*([each] for each in KNOWN), KNOWN], ids="+".join)
def test_the_best_that_is_served(served: list[str]) -> None:
    """Whichever versions there are, the newest of them is watched and written, under one name."""

    async def story() -> None:
        api = Server(*served)
        await api.put("podgroups", dict(GROUP))
        async with informed(api) as (client, events):
            await until(lambda: api.watches == 1)
            await client.patch(POD_GROUPS, "train", {"status": {}}, namespace="default", subresource="status")
            assert heard(events)[0] == ("ADDED", "train")
            assert "PATCH" in api.asked(served[0])
            lister = Lister(client, None)
            assert len(await lister.items(POD_GROUPS) or ()) == 1
            assert lister.notes == []

    asyncio.run(story())


def test_a_server_that_has_none() -> None:
    """A server without a resource is like one without its objects, and those who list are told."""

    async def story() -> None:
        api = Server()
        async with informed(api) as (client, events):
            assert events == []
            lister = Lister(client, None)
            assert await lister.items(POD_GROUPS) is None
            assert [note.partition(",")[0] for note in lister.notes] == [f"{POD_GROUPS.name} are left out"]

    asyncio.run(story())


def test_objects_that_the_server_cannot_read() -> None:
    """What another version left behind holds nobody up: nothing is known of them until they can be listed."""

    async def story() -> None:
        api = Server("v1beta1")
        await api.put("podgroups", dict(GROUP))
        refuse, broken = api.before, True

        def corrupt(method: str, path: str) -> None:
            refuse(method, path)
            if broken:
                raise Fault(500, "InternalError")

        api.before = corrupt
        async with informed(api) as (_, events):
            assert events == []
            broken = False
            await until(lambda: heard(events) == [("ADDED", "train")])

    asyncio.run(story())


@pytest.mark.parametrize(("before", "after"), [("v1alpha2", "v1beta1"), ("v1beta1", "v1alpha2")])
def test_an_upgraded_server(before: str, after: str) -> None:
    """The watch changes over: nothing that was known goes, and what comes later is heard there."""

    async def story() -> None:
        api = Server(before)
        await api.put("podgroups", dict(GROUP))
        async with informed(api) as (client, events):
            await until(lambda: api.watches == 1)
            await api.upgrade(after)
            await until(lambda: api.watches == 2)
            await api.put("podgroups", {"metadata": {"namespace": "default", "name": "late"}, "spec": {}})
            await until(lambda: ("ADDED", "late") in heard(events))
            assert heard(events) == [
                ("ADDED", "train"),
                ("MODIFIED", "train"),  # the same, but of another version
                ("ADDED", "tick"),
                ("ADDED", "late"),
            ]
            versions = [event.object.api_version for event in events if event.key[1] == "train"]
            assert versions == [f"scheduling.k8s.io/{each}" for each in (before, after)]
            await client.patch(POD_GROUPS, "late", {"status": {}}, namespace="default", subresource="status")
            assert api.asked(after)[-1] == "PATCH"

    asyncio.run(story())
