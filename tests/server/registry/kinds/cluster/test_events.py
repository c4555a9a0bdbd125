"""Events: one object in two shapes, which goes when it is old."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from berth.certificates import new_key
from berth.kube.times import stamp
from berth.server.credentials import TokenSigner
from berth.server.http.state import make_state, open_store
from berth.server.registry import bootstrap, writes
from berth.server.registry.kinds.cluster.events import expire_once
from berth.server.registry.strategy import Credentials
from berth.server.registry.users import Intent
from berth.server.settings import ServerSettings
from tests.support.api.client import Client

EVENT: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": {"kind": "Pod", "name": "p"},
    "reason": "Scheduled",
    "message": "assigned",
}


def test_an_event_has_two_shapes(client: Client, space: str) -> None:
    """What is created in one group is read, selected and deleted in the other, under that group's names."""
    client.made(f"{space}/events", EVENT)
    newer = space.replace("/api/v1", "/apis/events.k8s.io/v1")
    read = client.get(f"{newer}/events/e").json
    assert (read["apiVersion"], read["note"], read["regarding"]["name"]) == (
        "events.k8s.io/v1",
        "assigned",
        "p",
    )
    selected = client.get(f"{newer}/events", fieldSelector="regarding.name=p").json["items"]
    assert [item["metadata"]["name"] for item in selected] == ["e"]
    assert client.delete(f"{newer}/events/e").status == 200
    assert client.get(f"{space}/events/e").status == 404


def test_old_events_go(tmp_path: Path) -> None:
    """An Event that has not been seen since the limit is removed, one that has is kept."""
    kept = asyncio.run(_kept_since(tmp_path, {"old": -7200.0, "again": -60.0}, -3600.0))
    assert kept == ["again"]


async def _kept_since(data_dir: Path, seen: dict[str, float], limit: float) -> list[str]:
    """The names of the Events last seen at some moments that outlive a limit, all relative to now."""
    settings, now = ServerSettings(data_dir=data_dir), time.time()
    store = open_store(settings)
    try:
        registry = make_state(settings, store, Credentials("token", TokenSigner(new_key()), "ca")).registry
        store.start(asyncio.get_running_loop())
        await bootstrap.fill(registry, settings)
        endpoint = registry.builtin("", "events")
        for name, moment in seen.items():
            event = {**EVENT, "metadata": {"name": name}, "lastTimestamp": stamp(now + moment)}
            write = writes.create(registry, endpoint, event, "default", Intent("test"))
            assert write.done is not None
            await write.done
        await expire_once(registry, now + limit)
        return sorted(record.key[1] for record in endpoint.bucket.newest_in(""))
    finally:
        store.close()
