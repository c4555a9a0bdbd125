"""Large objects are judged in a thread; what is written meanwhile is not lost."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from berth.server import patch
from tests.support.api.client import Client
from tests.support.api.objects import config_map

TEXT = "x" * 300_000


def test_every_patch_of_a_large_object_counts(client: Client, space: str) -> None:
    """Patches of one large object from several sides are all in it in the end, none in place of another."""
    client.made(f"{space}/configmaps", config_map("large", text=TEXT))

    def patching(writer: int) -> None:
        own = Client(client.prepared)
        for i in range(8):
            answer = own.patch(f"{space}/configmaps/large", {"data": {f"w{writer}-{i}": "v"}})
            while answer.status == 409:  # others came first five times
                answer = own.patch(f"{space}/configmaps/large", {"data": {f"w{writer}-{i}": "v"}})
            assert answer.status == 200, answer.body
        own.close()

    threads = [threading.Thread(target=patching, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    data = client.get(f"{space}/configmaps/large").json["data"]
    assert set(data) == {"text", *(f"w{writer}-{i}" for writer in range(4) for i in range(8))}


def test_only_one_creates_a_large_object(client: Client, space: str) -> None:
    """Of several who create it one is told that it did, the others that it is there."""
    statuses: list[int] = []

    def creating(writer: int) -> None:
        own = Client(client.prepared)
        statuses.append(own.post(f"{space}/configmaps", config_map("one", text=TEXT, by=str(writer))).status)
        own.close()

    threads = [threading.Thread(target=creating, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert sorted(statuses) == [201, 409, 409, 409, 409, 409]


def test_applying_what_another_creates_meanwhile(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who applies an object that was not there when he began changes it if it is there when he is done."""
    other, merged = Client(client.prepared), patch.apply
    begun: list[object] = []

    def apply(*given: Any, **more: Any) -> Any:
        if not begun:
            begun.append(other.made(f"{space}/configmaps", config_map("applied", mine="x")))
        return merged(*given, **more)

    monkeypatch.setattr(patch, "apply", apply)
    answer = client.send(
        "PATCH",
        f"{space}/configmaps/applied",
        config_map("applied", text=TEXT),
        content_type="application/apply-patch+yaml",
        fieldManager="me",
    )
    other.close()

    assert (answer.status, begun != []) == (200, True)
    assert answer.json["data"] == {"mine": "x", "text": TEXT}
