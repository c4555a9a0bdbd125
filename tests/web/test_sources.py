"""A live cluster and a dump as the page sees them: kept in step, told what is missing, never written to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from berth.engine.offline.lookup import NotFoundError
from berth.engine.state.options import Options
from berth.live.client import Client
from berth.live.errors import Forbidden
from berth.web import sources
from berth.web.sources import LiveSource
from tests.support.api.fake import FakeApi, Fault, serving

Script = Callable[[FakeApi, LiveSource], Awaitable[None]]


def node(name: str, zone: str = "a") -> dict[str, Any]:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def pod(name: str, on: str = "", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x"}], **({"nodeName": on} if on else {})}
    return {
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


async def eventually(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not holds():  # noqa: ASYNC110 - it is told of nothing
            await asyncio.sleep(0.01)


@contextlib.asynccontextmanager
async def followed(client: Client) -> AsyncIterator[LiveSource]:
    source = LiveSource(client, Options())
    task = asyncio.create_task(source.run())
    try:
        yield source
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, BaseExceptionGroup):
            await task


def play(script: Script, before: Callable[[str, str], None] | None = None) -> FakeApi:
    api = FakeApi()

    async def run() -> None:
        async with serving(api) as client:
            await api.put("nodes", node("n1"))
            await api.put("pods", pod("p1", "n1"))
            if before is not None:
                api.before = before
            async with followed(client) as source:
                await script(api, source)

    asyncio.run(run())
    return api


def test_nothing_is_read_before_somebody_looks() -> None:
    """A page that nobody opened costs the API server nothing; once wanted, everything is there."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        await asyncio.sleep(0.2)
        assert api.requests == []
        source.want()
        await eventually(lambda: not source.loading)
        assert (list(source.board.nodes), list(source.board.pods)) == (["n1"], [("default", "p1")])

    play(script)


def test_only_reading_requests_are_ever_sent() -> None:
    """Whatever is asked of the page, the cluster sees lists and watches."""

    async def script(_: FakeApi, source: LiveSource) -> None:
        source.want()
        await eventually(lambda: not source.loading)
        snapshot = source.snapshot()
        assert [entry.key for entry in snapshot.running] == ["default/p1"]

    assert {method for method, _ in play(script).requests} == {"GET"}


def test_a_node_and_events_have_every_field_that_kubectl_prints() -> None:
    """Fields that nothing here judges are shown, too, but not who wrote which, as kubectl does."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        made = node("n2")
        made["metadata"]["managedFields"] = [{"manager": "kubelet"}]
        made["status"]["nodeInfo"] = {"kernelVersion": "6.1"}
        await api.put("nodes", made)
        about = {"kind": "Node", "name": "n2"}
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": about, "action": "X"}
        await api.put("events", event)
        source.want()
        await eventually(lambda: not source.loading)
        found = await source.node("n2")
        assert found["status"]["nodeInfo"] == {"kernelVersion": "6.1"}
        assert "managedFields" not in found["metadata"]
        (told,) = await source.events()
        assert (told["apiVersion"], told["kind"], told["action"]) == ("v1", "Event", "X")
        for name in ("n9", "..", "?watch=1", "n2/status"):
            with pytest.raises(NotFoundError):
                await source.node(name)

    assert {method for method, _ in play(script).requests} == {"GET"}


def test_pages_hear_of_what_has_no_row_of_its_own() -> None:
    """A budget or a binding changes answers, so that whoever shows one asks again."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        source.want()
        await eventually(lambda: not source.loading)
        await asyncio.sleep(0.3)  # what was read at the start is told by now
        position = source.stream.position
        budget = {"metadata": {"name": "b", "namespace": "default"}, "spec": {"minAvailable": 1}}
        await api.put("poddisruptionbudgets", budget)
        await eventually(lambda: source.stream.position != position)
        told = await anext(source.stream.follow(position))
        assert b"event: change" in told

    play(script)


def test_changes_reach_the_board_and_the_stream() -> None:
    """What comes, changes and goes is told once each, and the version that answers depend on moves on."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        source.want()
        await eventually(lambda: not source.loading)
        version = source.version
        await api.put("nodes", node("n2", "b"))
        await api.remove("pods", "p1", "default")
        await eventually(lambda: "n2" in source.board.nodes and not source.board.pods)
        assert source.version > version
        messages = source.stream.follow(source.stream.position)
        text = ""
        await api.put("pods", pod("p2", "n2"))
        while "p2" not in text:
            text += (await asyncio.wait_for(anext(messages), 20)).decode()
        assert "event: change" in text

    play(script)


def test_pods_are_named_by_their_deployment() -> None:
    """A ReplicaSet's pods are their Deployment's, also where the pod carries no hash."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        await api.put(
            "replicasets",
            {"metadata": {"name": "web-abc", "namespace": "default", "ownerReferences": [owner]}},
        )
        mine = [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-abc", "uid": "r", "controller": True}
        ]
        await api.put("pods", pod("web-abc-1", "n1", ownerReferences=mine))
        source.want()
        await eventually(lambda: not source.loading)
        assert source.board.pods["default", "web-abc-1"].workload == "Deployment/web"

    play(script)


def test_replica_sets_that_are_gone_are_forgotten() -> None:
    """Who controls a ReplicaSet is not kept for ever: a pod that comes after it is the ReplicaSet's own."""

    async def script(api: FakeApi, source: LiveSource) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}
        mine = {**owner, "kind": "ReplicaSet", "name": "web-abc", "uid": "r"}
        kept = {"name": "web-abc", "namespace": "default", "ownerReferences": [owner]}
        await api.put("replicasets", {"metadata": kept})
        source.want()
        await eventually(lambda: not source.loading)
        version = source.version
        await api.remove("replicasets", "web-abc", "default")
        await eventually(lambda: source.version > version)
        await api.put("pods", pod("web-abc-1", "n1", ownerReferences=[mine]))
        await eventually(lambda: ("default", "web-abc-1") in source.board.pods)
        assert source.board.pods["default", "web-abc-1"].workload == "ReplicaSet/web-abc"

    play(script)


def test_what_may_not_be_read_is_named_and_the_rest_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right for some kinds the page says which, and has them as soon as the right is given."""
    forbidden = {"/apis/policy/v1/poddisruptionbudgets"}

    def before(_: str, path: str) -> None:
        if path in forbidden:
            raise Fault(403, "Forbidden")

    async def script(_: FakeApi, source: LiveSource) -> None:
        source.want()
        await eventually(lambda: not source.loading)
        assert [missing["resource"] for missing in source.missing] == ["poddisruptionbudgets.policy"]
        assert "n1" in source.board.nodes
        forbidden.clear()
        await eventually(lambda: not source.missing)

    monkeypatch.setattr(sources, "_CHECK", 0.05)
    monkeypatch.setattr(sources, "_ASK_AGAIN", 0.1)
    play(script, before)


def test_without_pods_there_is_nothing_to_show() -> None:
    """Who may not list nodes or pods is told so, instead of an empty cluster."""

    def before(_: str, path: str) -> None:
        if path == "/api/v1/pods":
            raise Fault(403, "Forbidden")

    async def run() -> None:
        api = FakeApi()
        async with serving(api) as client:
            api.before = before
            source = LiveSource(client, Options())
            source.want()
            with pytest.raises(BaseExceptionGroup) as refused:
                await asyncio.wait_for(source.run(), 20)
            assert refused.group_contains(Forbidden)

    asyncio.run(run())


def test_a_server_that_is_away_is_trouble_until_it_is_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the server cannot be asked, the page says that what it shows may be old."""
    down = False

    def before(_: str, __: str) -> None:
        if down:
            raise Fault(503, "ServiceUnavailable")

    async def script(api: FakeApi, source: LiveSource) -> None:
        nonlocal down
        source.want()
        await eventually(lambda: not source.loading)
        assert source.trouble is None
        down, api.cut_after = True, 0
        await api.put("nodes", node("n3"))
        await eventually(lambda: source.trouble is not None)
        down, api.cut_after = False, None
        await eventually(lambda: source.trouble is None and "n3" in source.board.nodes)

    monkeypatch.setattr(sources, "_CHECK", 0.05)
    play(script, before)
