"""Durability: the SQLite file behind the store, written by one thread in groups.

A group is everything that was queued while the previous one was being committed, so that a
hundred concurrent requests cost one sync to disk, not a hundred.  `synchronous=FULL`: a commit
that returned survives the process and the machine.
"""

from __future__ import annotations

import fcntl
import os
import queue
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, NamedTuple

# One row a change, appended. The newest row of a key is its state; the others are its history and go
# when they fall out of it. `expired` says up to where a bucket's history has gone (or is about to).
_SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (
  rv INTEGER PRIMARY KEY, bucket TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  type TEXT NOT NULL, data BLOB NOT NULL, prev BLOB);
CREATE TABLE IF NOT EXISTS expired (bucket TEXT PRIMARY KEY, rv INTEGER NOT NULL) WITHOUT ROWID;
"""
_GROUP_LIMIT = 64  # batches in one commit


class DataDirInUseError(RuntimeError):
    """Another server holds the data directory."""


class JournalError(RuntimeError):
    """The file cannot be written; nothing of the batch took effect."""


class Row(NamedTuple):
    """One change, as it goes to disk. `prev`: what selectors saw before, if that changed."""

    rv: int
    bucket: str
    namespace: str
    name: str
    type: str
    data: bytes
    prev: bytes | None


@dataclass(slots=True)
class Batch:
    """Changes that are committed together; `epoch` tells those that built upon a failed one."""

    epoch: int
    rows: list[Row] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # rows that are neither state nor history any more
    expired: dict[str, int] = field(default_factory=dict)
    ticket: object = None


Outcome = Callable[[list[Batch], Exception | None], None]


class Journal:
    """The file and the thread that writes it; holds the data directory until it is closed."""

    def __init__(self, data_dir: Path) -> None:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _lock(data_dir / "lock")
        path = data_dir / "state.db"
        self._connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        path.chmod(0o600)
        self._connection.execute("PRAGMA locking_mode=EXCLUSIVE")
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.executescript(_SCHEMA)
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._refused = -1  # batches of this epoch and earlier ones stand on a failed commit

    # --- loading

    def rows(self) -> Iterator[Row]:
        """Every change that is kept, oldest first."""
        found = self._connection.execute(
            "SELECT rv, bucket, namespace, name, type, data, prev FROM changes ORDER BY rv"
        )
        for row in found:
            yield Row(*row)

    def expired(self) -> dict[str, int]:
        return dict(self._connection.execute("SELECT bucket, rv FROM expired"))

    # --- writing

    def start(self, outcome: Outcome) -> None:
        """Begin to write; `outcome` is called in the writing thread after every group."""
        self._thread = threading.Thread(target=self._run, args=(outcome,), name="berth-journal")
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        self._queue.put(batch)

    def close(self) -> None:
        """Write what is queued, then let go of the directory."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        self._connection.close()
        self._lock.close()

    def _run(self, outcome: Outcome) -> None:
        while True:
            group, last = self._next_group()
            accepted = [batch for batch in group if batch.epoch > self._refused]
            refused = [batch for batch in group if batch.epoch <= self._refused]
            if accepted:
                error = self._commit(accepted)
                if error is not None:
                    self._refused = max(batch.epoch for batch in accepted)
                outcome(accepted, error)
            if refused:
                outcome(refused, JournalError("an earlier write failed"))
            if last:
                return

    def _next_group(self) -> tuple[list[Batch], bool]:
        group: list[Batch] = []
        batch = self._queue.get()
        while batch is not None:
            group.append(batch)
            if len(group) >= _GROUP_LIMIT:
                return group, False
            try:
                batch = self._queue.get_nowait()
            except queue.Empty:
                return group, False
        return group, True

    def _commit(self, group: list[Batch]) -> Exception | None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for batch in group:
                connection.executemany("INSERT INTO changes VALUES (?, ?, ?, ?, ?, ?, ?)", batch.rows)
                if batch.dropped:
                    connection.executemany(
                        "DELETE FROM changes WHERE rv = ?", [(rv,) for rv in batch.dropped]
                    )
                if batch.expired:
                    connection.executemany(
                        "INSERT OR REPLACE INTO expired VALUES (?, ?)", batch.expired.items()
                    )
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            return error
        return None


def _lock(path: Path) -> IO[str]:
    file = path.open("a+")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.seek(0)
        owner = file.read().strip()
        file.close()
        by = f" (process {owner})" if owner else ""
        message = f"{path.parent}: another server{by} uses this data directory"
        raise DataDirInUseError(message) from None
    file.seek(0)
    file.truncate()
    file.write(str(os.getpid()))
    file.flush()
    return file
