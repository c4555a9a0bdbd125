"""The store against a model: random writes, small logs, many restarts."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from berth.kube.objects import Key
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.server.storage.bucket import Bucket, Record, decode
from berth.server.storage.store import Store

_BUCKETS = ("apples", "pears")


@dataclass
class _Model:
    """What should be there: the state, and every change there ever was."""

    state: dict[str, dict[Key, int]] = field(default_factory=lambda: {name: {} for name in _BUCKETS})
    changes: dict[str, list[tuple[int, str, Key]]] = field(
        default_factory=lambda: {name: [] for name in _BUCKETS}
    )
    version: int = 0

    def write(self, name: str, key: Key, *, remove: bool) -> None:
        self.version += 1
        kind = DELETED if remove else MODIFIED if key in self.state[name] else ADDED
        self.changes[name].append((self.version, kind, key))
        if remove:
            del self.state[name][key]
        else:
            self.state[name][key] = self.version

    def at(self, name: str, version: int) -> dict[Key, int]:
        state: dict[Key, int] = {}
        for rv, kind, key in self.changes[name]:
            if rv > version:
                break
            if kind == DELETED:
                del state[key]
            else:
                state[key] = rv
        return state


def _check(store: Store, model: _Model, chance: random.Random) -> None:
    assert store.rv == model.version
    for name in _BUCKETS:
        bucket = store.bucket(name)
        assert {key: record.rv for key, record in bucket.records.items()} == model.state[name]
        assert bucket.keys == sorted(model.state[name])
        assert all(decode(record.data)["value"] == record.rv for record in bucket.records.values())
        start = chance.randint(0, model.version)
        if bucket.history.reaches(start):
            seen = [(event.record.rv, event.type, event.record.key) for event in bucket.history.after(start)]
            assert seen == [change for change in model.changes[name] if change[0] > start]
        _check_past(bucket, model.at(name, start), start)


def _check_past(bucket: Bucket, wanted: dict[Key, int], version: int) -> None:
    """Either the state of that moment, exactly, or the admission that it is not known any more."""
    for space in ("", "one"):
        page = bucket.page_at(version, space)
        found = page[0] if page is not None else None
        if found is not None:
            expected = {key: rv for key, rv in wanted.items() if not space or key[0] == space}
            assert {record.key: record.rv for record in found} == expected
            assert [record.key for record in found] == sorted(expected)
        for limit in (1, 3, 7):
            assert _paged(bucket, version, space, limit) == found


def _paged(bucket: Bucket, version: int, space: str, limit: int) -> list[Record] | None:
    """The same page by page, each of which says how many more there are."""
    found: list[Record] = []
    left = None
    while left is None or left:
        page = bucket.page_at(version, space, found[-1].key if found else None, limit)
        if page is None:
            return None
        assert 0 < len(page[0]) <= limit or not page[1]
        assert left is None or len(page[0]) + page[1] == left
        found += page[0]
        left = page[1]
    return found


async def _session(path: Path, model: _Model, chance: random.Random, limit: int) -> None:
    store = Store(path, event_limit=limit, fields={})
    store.start(asyncio.get_running_loop())
    _check(store, model, chance)
    done: asyncio.Future[None] | None = None
    for _ in range(chance.choice((0, 3, 60, 400))):
        name = chance.choice(_BUCKETS)
        bucket = store.bucket(name)
        key = (chance.choice(("one", "two")), f"n{chance.randint(0, 5)}")
        remove = key in model.state[name] and chance.random() < 0.3
        obj: dict[str, Any] = {"metadata": {"uid": "u"}, "value": model.version + 1}
        _, done = store.remove(bucket, key, obj) if remove else store.put(bucket, key, obj)
        model.write(name, key, remove=remove)
        if chance.random() < 0.2:
            await done
    if done is not None:
        await done
    _check(store, model, chance)
    store.close()


@pytest.mark.parametrize("seed", range(6))
def test_against_a_model(tmp_path: Path, seed: int) -> None:
    """Random writes, watches and restarts agree with a simple model."""
    chance = random.Random(seed)  # noqa: S311 - not for secrets
    model = _Model()
    for _ in range(12):
        asyncio.run(_session(tmp_path, model, chance, limit=chance.choice((3, 20, 20, 100))))


def test_history_is_bounded_in_bytes(tmp_path: Path) -> None:
    """Large changes leave the history early, those of small resources stay, and so it is after a restart."""
    limit = 1_000_000

    async def write(count: int) -> tuple[int, int, int]:
        store = Store(tmp_path, event_limit=10_000, fields={}, history_bytes=limit)
        large, small = store.bucket("large"), store.bucket("small")
        store.start(asyncio.get_running_loop())
        for i in range(count):
            obj = {"metadata": {"name": "a", "uid": "a"}, "value": str(i) + "x" * 50_000}
            _, done = store.put(large, ("", "a"), obj)
            if i % 10 == 0:
                store.put(small, ("", str(i)), {"metadata": {"name": str(i), "uid": str(i)}})
            await done
        held = sum(len(event.record.data) for event in large.history.events)
        assert store._history_size == large.history.size + small.history.size
        result = held, len(large.history.events), len(small.history.events)
        assert not large.history.reaches(1)
        assert large.page_at(store.rv, "") == ([large.records["", "a"]], 0)
        store.close()
        return result

    held, events, small = asyncio.run(write(200))
    assert held < limit
    assert 0 < events < 20
    assert small == 20
    held, events, small = asyncio.run(write(0))
    assert held < limit
    assert 0 < events < 20
    assert small == 20
    assert (tmp_path / "state.db").stat().st_size < 4 * limit
