"""A bad disk: what is damaged or missing is noticed and told, and no version is used twice."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
from pathlib import Path

import pytest

from berth.server.errors import DataDirError
from berth.server.storage.journal import AHEAD
from berth.server.storage.store import Store
from tests.server.storage.disk import opened


async def _write(store: Store, count: int) -> list[int]:
    """Write; the versions that were acknowledged."""
    store.start(asyncio.get_running_loop())
    bucket, versions = store.bucket("things"), []
    for i in range(count):
        obj = {"metadata": {"name": f"n{i}", "uid": str(i)}, "value": "x" * 300}
        record, done = store.put(bucket, ("", f"n{i}"), obj)
        await done
        versions.append(record.rv)
    return versions


def killed(folder: Path, copy: Path, count: int = 50) -> list[int]:
    """Write in one folder, and leave in another what a server killed at that moment would leave."""

    async def story() -> list[int]:
        store = opened(folder)
        versions = await _write(store, count)
        shutil.copytree(folder, copy)
        store.close()
        return versions

    return asyncio.run(story())


def test_nothing_is_said_without_reason(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After a kill everything that was acknowledged is there, and versions go on after all that might be."""
    versions = killed(tmp_path / "a", tmp_path / "b")

    store = opened(tmp_path / "b")
    assert len(store.bucket("things").records) == 50
    assert store.rv == versions[-1]
    (first,) = asyncio.run(_write(store, 1))
    store.close()
    assert versions[-1] < first <= versions[-1] + AHEAD + 1
    assert caplog.records == []


def test_a_clean_end_leaves_no_gap(tmp_path: Path) -> None:
    """After a stop in order the next version is the next number."""
    versions = killed(tmp_path / "a", tmp_path / "b")

    store = opened(tmp_path / "a")
    assert asyncio.run(_write(store, 1)) == [versions[-1] + 1]
    store.close()


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_lost_writes_are_noticed(tmp_path: Path, caplog: pytest.LogCaptureFixture, at: float) -> None:
    """One wrong byte in the write-ahead log loses what follows it: that is told, and watchers look again."""
    versions = killed(tmp_path / "a", tmp_path / "b")
    log = tmp_path / "b" / "state.db-wal"
    content = bytearray(log.read_bytes())
    content[int(len(content) * at)] ^= 1
    log.write_bytes(content)

    with caplog.at_level(logging.ERROR):
        store = opened(tmp_path / "b")
    bucket = store.bucket("things")
    left = len(bucket.records)
    assert left < 50
    assert f"{50 - left} acknowledged writes are lost (versions {left + 1} to 50)" in caplog.text
    assert not bucket.history.reaches(versions[-1])
    (first,) = asyncio.run(_write(store, 1))
    assert first > versions[-1]
    store.close()
    caplog.clear()
    opened(tmp_path / "b").close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("state.db", b"", "state.db is empty, though version 50 was in it: put back a copy of"),
        ("state.db", None, "state.db is missing, though version 50 was in it: put back a copy of"),
        (
            "state.db",
            b"nonsense" * 1000,
            r"state.db is damaged \(file is not a database\): put back a copy of",
        ),
        ("versions", b"50 4146 00000000\n", "versions is damaged: put back a copy, or remove it"),
        ("versions", b"", "versions is damaged: put back a copy, or remove it"),
    ],
)
def test_damaged_files_are_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    """A file that cannot be used is told with what to do about it."""
    killed(tmp_path / "a", tmp_path / "b")
    path = tmp_path / "a" / name
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataDirError, match=message):
        opened(tmp_path / "a")


@pytest.mark.parametrize("change", ["data = CAST('{}' AS BLOB)", "data = '{}'", "name = 'other'", "rv = 999"])
def test_damaged_rows_are_named(tmp_path: Path, change: str) -> None:
    """A row that is not what was written is told, with the object it was."""
    killed(tmp_path / "a", tmp_path / "b")
    connection = sqlite3.connect(tmp_path / "a" / "state.db")
    connection.execute(f"UPDATE changes SET {change} WHERE rv = 7")  # noqa: S608
    connection.commit()
    connection.close()
    with pytest.raises(DataDirError, match=r"version (7|999) \(things (n6|other)\) is not what was written"):
        opened(tmp_path / "a")


def test_older_databases_are_taken_over(tmp_path: Path) -> None:
    """One that a release without sums and marks has left is read, and continued."""
    killed(tmp_path / "a", tmp_path / "b")
    (tmp_path / "a" / "versions").unlink()
    connection = sqlite3.connect(tmp_path / "a" / "state.db")
    connection.execute("ALTER TABLE changes DROP COLUMN sum")
    connection.commit()
    connection.close()

    store = opened(tmp_path / "a")
    assert len(store.bucket("things").records) == 50
    assert asyncio.run(_write(store, 1)) == [51]
    store.close()
    opened(tmp_path / "a").close()


def test_the_journal_survives_whatever_a_write_meets(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error of any kind fails the write, is told, and does not keep later ones from being made."""

    async def story() -> None:
        store = opened(tmp_path)
        await _write(store, 1)
        bucket = store.bucket("things")
        for error in (
            OSError(28, "No space left on device"),
            MemoryError(),
            ValueError("odd"),
            RecursionError(),
        ):

            def failing(_version: int, error: Exception = error) -> None:
                raise error

            monkeypatch.setattr(store._journal.marks, "reserve", failing)
            _, done = store.put(bucket, ("", "a"), {"metadata": {"name": "a", "uid": "a"}})
            with pytest.raises(RuntimeError):
                await done
            monkeypatch.undo()
            _, done = store.put(bucket, ("", "a"), {"metadata": {"name": "a", "uid": "a"}})
            await done
        store.close()

    asyncio.run(story())
    assert caplog.text.count("1 write failed (things a)") == 4
    assert "No space left on device" in caplog.text
