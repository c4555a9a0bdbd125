"""The machine loses its power: what was synced stays, what was not stays in parts, sector by sector."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import resource
import shutil
from pathlib import Path

import pytest

from berth.server.storage.store import Store
from tests.server.storage.test_damage import opened

_SECTOR = 512
_FILES = ("state.db", "state.db-wal", "versions")
# `make soak` asks for more of everything.
ROUNDS = int(os.environ.get("BERTH_SOAK_ROUNDS", "1"))

Image = dict[str, bytes]


def image_of(folder: Path) -> Image:
    return {name: (folder / name).read_bytes() for name in _FILES if (folder / name).exists()}


async def _change(store: Store, step: int) -> None:
    """Several objects of different sizes in one commit; every tenth step one goes."""
    bucket, done = store.bucket("things"), None
    for i in range(1 + step % 4):
        key = ("", f"n{step}-{i}")
        obj = {"metadata": {"name": key[1], "uid": key[1]}, "value": "x" * (step * 97 % 9000)}
        _, done = store.put(bucket, key, obj)
    if step % 10 == 9:
        key = ("", f"n{step - 1}-0")
        _, done = store.remove(bucket, key, {"metadata": {"name": key[1], "uid": key[1]}})
    assert done is not None
    await done


def recorded(folder: Path, steps: int) -> tuple[list[Image], list[dict[str, int]], list[int]]:
    """What was on disk, stored and the newest version after every acknowledged commit."""

    async def story() -> tuple[list[Image], list[dict[str, int]], list[int]]:
        store = opened(folder)
        store.start(asyncio.get_running_loop())
        # What SQLite syncs before a commit returns, and only then, is what the images below rest upon.
        connection = store._journal._connection
        assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
        images, states, versions = [], [], []
        for step in range(steps):
            await _change(store, step)
            images.append(image_of(folder))
            records = store.bucket("things").records
            states.append({key[1]: record.rv for key, record in records.items()})
            versions.append(store.rv)
        store.close()
        return images, states, versions

    return asyncio.run(story())


def torn(before: Image, after: Image, chance: random.Random) -> Image:
    """A disk on which some of the sectors written since the last sync have arrived.

    What was acknowledged is noted once the database is synced: a database in parts has the note of before.
    """
    found = {"versions": before["versions"]}
    for name, new in after.items():
        if name in found:
            continue
        old = before.get(name, b"")
        sectors = []
        for start in range(0, len(new), _SECTOR):
            fresh, stale = new[start : start + _SECTOR], old[start : start + _SECTOR]
            lost = stale.ljust(len(fresh), b"\0")
            sectors.append(fresh if fresh == stale or chance.random() < 0.5 else lost)
        found[name] = b"".join(sectors)
    return found


def test_what_was_acknowledged_survives(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a loss of power during a commit all before it is there, and it itself whole or not at all."""
    steps = 25 * ROUNDS
    images, states, versions = recorded(tmp_path / "a", steps)
    chance = random.Random(7)  # noqa: S311
    for step in range(1, steps):
        for _ in range(2):
            folder = tmp_path / "b"
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name, content in torn(images[step - 1], images[step], chance).items():
                (folder / name).write_bytes(content)
            with caplog.at_level(logging.ERROR):
                store = opened(folder)
            found = {key[1]: record.rv for key, record in store.bucket("things").records.items()}
            assert found in (states[step - 1], states[step]), step
            assert store._newest >= versions[step]
            assert caplog.records == []
            store.close()


def test_a_disk_that_is_full_at_any_moment(tmp_path: Path) -> None:
    """Wherever writing stops, what was acknowledged is there, the rest fails, and later writes work again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def story(folder: Path, limit: int) -> tuple[int, int]:
        store = opened(folder)
        store.start(asyncio.get_running_loop())
        failed, kept = 0, {}
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
        try:
            for step in range(15):
                try:
                    await _change(store, step)
                except RuntimeError:
                    failed += 1
                records = store.bucket("things").records
                kept = {key: record.rv for key, record in records.items()}
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        await _change(store, 1000)
        store.close()
        again = opened(folder)
        found = {key: record.rv for key, record in again.bucket("things").records.items()}
        again.close()
        assert kept.items() <= found.items()
        return failed, len(found)

    outcomes = [
        asyncio.run(story(tmp_path / str(limit), limit)) for limit in range(4096, 200_000, 24_000 // ROUNDS)
    ]
    assert outcomes[0][0] > 0
    assert outcomes[-1][0] == 0 or outcomes[-1][1] > outcomes[0][1]
