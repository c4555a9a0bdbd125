"""Large objects are judged in a thread; what is written meanwhile is not lost."""

from __future__ import annotations

import threading

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


def test_applying_what_another_creates_meanwhile(client: Client, space: str) -> None:
    """Who applies an object that was not there when he began changes it if it is there when he is done."""
    answers: list[tuple[int, str]] = []

    def applying(writer: int) -> None:
        own = Client(client.prepared)
        applied = config_map("applied", **{f"by{writer}": TEXT[:100_000]})
        answer = own.send(
            "PATCH",
            f"{space}/configmaps/applied",
            applied,
            content_type="application/apply-patch+yaml",
            fieldManager=f"writer{writer}",
        )
        answers.append((answer.status, answer.json.get("reason", "")))
        own.close()

    threads = [threading.Thread(target=applying, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(answers) == 4
    assert (409, "AlreadyExists") not in answers
    assert {status for status, _ in answers} <= {200, 201, 409}
    assert [status for status, _ in answers].count(201) == 1
