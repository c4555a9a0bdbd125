"""Durability: the SQLite file behind the store, written by one thread in groups.

A group is everything that was queued while the previous one was being committed, so that a
hundred concurrent requests cost one sync to disk, not a hundred.  `synchronous=FULL`: a commit
that returned survives the process and the machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import queue
import sqlite3
import threading
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

from berth.files import sync_folder, write_private
from berth.kube.text.words import count, first_of
from berth.server.errors import DataDirError

_T = TypeVar("_T")

_log = logging.getLogger(__name__)

# One row a change, appended. The newest row of a key is its state; the others are its history and go
# when they fall out of it. `expired` says up to where a bucket's history has gone (or is about to). `sum` is
# what the row was when it was written; rows of earlier releases have none.
_SCHEMA = """
CREATE TABLE IF NOT EXISTS changes (
  rv INTEGER PRIMARY KEY, bucket TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL,
  type TEXT NOT NULL, data BLOB NOT NULL, prev BLOB, sum INTEGER);
CREATE TABLE IF NOT EXISTS expired (bucket TEXT PRIMARY KEY, rv INTEGER NOT NULL) WITHOUT ROWID;
"""
_GROUP_LIMIT = 64  # most batches in one commit
_STATEMENT_LIMIT = 64  # most rows in one statement
_NAMED = 5  # most objects that a message names
_LOG_LIMIT = 64 * 1024 * 1024  # most bytes that the file of an empty write-ahead log keeps
_ADVICE = "put back a copy of {0}, or remove it to begin anew"
_LENGTH = 64  # bytes in the line that marks versions
AHEAD = 4096  # how many versions are reserved at once


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

    def __str__(self) -> str:
        return f"{self.bucket} {self.namespace}/{self.name}".replace(" /", " ")

    @property
    def is_typed(self) -> bool:
        """Whether its objects are bytes, as they were written; a database does not see to that."""
        return isinstance(self.data, bytes) and isinstance(self.prev or b"", bytes)

    @property
    def sum(self) -> int:
        """Tells this row from what a bad disk makes of it."""
        head = f"{self.rv} {self.bucket} {self.namespace} {self.name} {self.type} "
        return zlib.crc32(self.prev or b"", zlib.crc32(self.data, zlib.crc32(head.encode())))


@dataclass(slots=True)
class Batch:
    """Changes that are committed together; `epoch` tells those that built upon a failed one."""

    epoch: int
    done: asyncio.Future[None]
    rows: list[Row] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)  # rows that are neither state nor history any more
    expired: dict[str, int] = field(default_factory=dict)
    events: list[Any] = field(default_factory=list)  # what the store takes in once they are on disk


TellWritten = Callable[[list[Batch], Exception | None], None]


class Journal:
    """The file and the thread that writes it; holds the data directory until it is closed."""

    def __init__(self, data_dir: Path) -> None:
        _make_folder(data_dir)
        self._path = data_dir / "state.db"
        with contextlib.ExitStack() as opening:
            opening.callback(_lock(data_dir / "lock").close)
            self.marks = VersionMarks(data_dir / "versions")
            opening.callback(self.marks.release)
            _check_there(self._path, self.marks.acknowledged)
            self._connection = _open(self._path)
            opening.callback(self._connection.close)
            self._held = opening.pop_all()
        self._queue: queue.SimpleQueue[Batch | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._refused = -1  # batches of this epoch and earlier ones stand on a failed commit

    # --- loading

    def rows(self) -> Iterator[Row]:
        """Every change that is kept, oldest first."""
        try:
            for *values, check in self._connection.execute(
                "SELECT rv, bucket, namespace, name, type, data, prev, sum FROM changes ORDER BY rv"
            ):
                row = Row(*values)
                if not row.is_typed or (check is not None and check != row.sum):
                    raise self.damaged(row)
                yield row
        except sqlite3.DatabaseError as error:
            raise _damaged(self._path, error) from None

    def damaged(self, row: Row) -> DataDirError:
        """What to say of a row that is not what was written."""
        return DataDirError(
            f"{self._path} is damaged: version {row.rv} ({row}) is not what was written; "
            f"{_ADVICE.format(self._path.parent)}"
        )

    def expired(self) -> dict[str, int]:
        return dict(self._connection.execute("SELECT bucket, rv FROM expired"))

    # --- writing

    def start(self, outcome: TellWritten) -> None:
        """Begin to write; `outcome` is called in the writing thread after every group."""
        self._thread = threading.Thread(target=self._run, args=(outcome,), name="berth-journal")
        self._thread.start()

    def submit(self, batch: Batch) -> None:
        self._queue.put(batch)

    def close(self, newest: int) -> None:
        """Write what is queued, then let go of the directory; `newest` is the last version handed out."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
        with contextlib.suppress(OSError):
            self.marks.end(newest)
        self.release()

    def release(self) -> None:
        """Let go of everything as it is."""
        with contextlib.suppress(sqlite3.Error):
            self._held.close()

    def _run(self, outcome: TellWritten) -> None:
        while True:
            group, last = self._next_group()
            accepted = [batch for batch in group if batch.epoch > self._refused]
            refused = [batch for batch in group if batch.epoch <= self._refused]
            for batches in filter(None, (accepted, refused)):
                earlier = JournalError("an earlier write failed") if batches is refused else None
                error = earlier or self._commit(batches)
                if error is not None:
                    _log.error("%s", _told(batches, error))
                    self._refused = max(self._refused, *(batch.epoch for batch in batches))
                outcome(batches, error)
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
        """Put a group on disk; whatever prevents it is the group's error, and not the end of this thread."""
        newest = max(row.rv for batch in group for row in batch.rows)
        try:
            self.marks.reserve(newest)
            self._execute(list(_statements(group)))
        except Exception as error:  # noqa: BLE001 - see above
            self._take_back()
            return JournalError(f"{self._path}: {error}")
        try:
            self.marks.acknowledge(newest)
        except OSError as error:  # the write itself is safe
            _log.warning("%s cannot be written: %s", self.marks.path, error.strerror)
        return None

    def _execute(self, statements: list[tuple[str, list[object]]]) -> None:
        """Do all of it or nothing.

        One statement is a transaction by itself. While SQLite works on a statement the loop has the
        interpreter, and may not give it back for milliseconds: the fewer there are, the sooner all is done.
        """
        if len(statements) == 1:
            self._connection.execute(*statements[0])
            return
        self._connection.execute("BEGIN IMMEDIATE")
        for statement, values in statements:
            self._connection.execute(statement, values)
        self._connection.execute("COMMIT")

    def _take_back(self) -> None:
        """Leave nothing of a failed commit.

        It may be in the log as a whole, only not safely: whoever opens the file after a crash would find it.
        """
        with contextlib.suppress(sqlite3.Error):
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        with contextlib.suppress(sqlite3.Error):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _statements(group: list[Batch]) -> Iterator[tuple[str, list[object]]]:
    """What puts a group on disk, and the values in it; most groups need one statement."""
    for rows in _some([row for batch in group for row in batch.rows]):
        places = ", ".join(["(?, ?, ?, ?, ?, ?, ?, ?)"] * len(rows))
        values: list[object] = [value for row in rows for value in (*row, row.sum)]
        yield f"INSERT INTO changes VALUES {places}", values  # noqa: S608 - nothing but question marks
    for dropped in _some([rv for batch in group for rv in batch.dropped]):
        places = ", ".join("?" * len(dropped))
        yield f"DELETE FROM changes WHERE rv IN ({places})", [*dropped]  # noqa: S608 - as above
    for batch in group:
        for mark in batch.expired.items():
            yield "INSERT OR REPLACE INTO expired VALUES (?, ?)", [*mark]


def _some(items: list[_T]) -> Iterator[list[_T]]:
    return (items[start : start + _STATEMENT_LIMIT] for start in range(0, len(items), _STATEMENT_LIMIT))


def _told(group: list[Batch], error: Exception) -> str:
    """A sentence about writes that failed."""
    rows = [row for batch in group for row in batch.rows]
    return f"{count(len(rows), 'write')} failed ({first_of([*map(str, rows)], _NAMED)}): {error}"


def _make_folder(folder: Path) -> None:
    """What is synced in a folder is lost with it, unless the folder itself is."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for one in missing:
        sync_folder(one.parent)


def _check_there(path: Path, acknowledged: int) -> None:
    """Refuse to begin anew where nothing is left of a database that held something."""
    there = path.exists()
    if acknowledged and not (there and path.stat().st_size):
        what = f"{path} is {'empty' if there else 'missing'}, though version {acknowledged} was in it"
        raise DataDirError(f"{what}: {_ADVICE.format(path.parent)}")


def _open(path: Path) -> sqlite3.Connection:
    """The database; refused if it is damaged or cannot be opened."""
    with contextlib.ExitStack() as opening:
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            opening.callback(connection.close)
            path.chmod(0o600)
            _set_up(connection)
        except sqlite3.OperationalError as error:
            raise DataDirError(f"{path} cannot be used: {error}") from None
        except sqlite3.DatabaseError as error:
            raise _damaged(path, error) from None
        opening.pop_all()
        return connection


def _set_up(connection: sqlite3.Connection) -> None:
    connection.execute("PRAGMA locking_mode=EXCLUSIVE")
    # All of it is fetched: an error comes after the answer, and without such a log commits are not safe.
    [(mode,)] = connection.execute("PRAGMA journal_mode=WAL")
    if mode != "wal":
        raise sqlite3.OperationalError("it cannot have a write-ahead log")
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA journal_size_limit={_LOG_LIMIT}")
    connection.executescript(_SCHEMA)
    columns = {row[1] for row in connection.execute("PRAGMA table_info(changes)")}
    if "sum" not in columns:
        connection.execute("ALTER TABLE changes ADD COLUMN sum INTEGER")
    [(said,)] = connection.execute("PRAGMA quick_check(1)")
    if said != "ok":
        raise sqlite3.DatabaseError(said)


def _damaged(path: Path, error: sqlite3.DatabaseError) -> DataDirError:
    what = " ".join(str(error).split())
    return DataDirError(f"{path} is damaged ({what}): {_ADVICE.format(path.parent)}")


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
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


# --- marks


class VersionMarks:
    """Which versions were handed out: a witness beside the database, so that a loss is noticed.

    SQLite drops what follows a damaged page of its write-ahead log without a word.  This file says up to
    which version writes were acknowledged, and up to which they may have been: it is written after every
    commit, and through to the disk only when the second number grows.  What the database lacks of the first
    is lost, and no version up to the second is ever used again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = path.exists()
        if not self.known:
            write_private(path, _line(0, 0))  # at no moment is it there and empty
        self.acknowledged, self.reserved = _read_marks(path)
        self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def reserve(self, version: int) -> None:
        """Before a version is stored: it and some more are never new again."""
        if version > self.reserved:
            self._write(self.acknowledged, version + AHEAD)
            os.fsync(self._file)
            self.reserved = version + AHEAD  # not before it is safe

    def acknowledge(self, version: int) -> None:
        """After a version is stored, before anybody is told."""
        self._write(version, self.reserved)
        self.acknowledged = version

    def settle(self, version: int) -> None:
        """At the end, and when a loss was told: this is the newest version there is."""
        self.acknowledge(version)
        os.fsync(self._file)

    def end(self, version: int) -> None:
        """Nothing more comes after this version: the next one may follow it at once."""
        self.reserved = version
        self.settle(version)

    def release(self) -> None:
        os.close(self._file)

    def _write(self, acknowledged: int, reserved: int) -> None:
        os.pwrite(self._file, _line(acknowledged, reserved), 0)


def _read_marks(path: Path) -> tuple[int, int]:
    try:
        acknowledged, reserved, check = path.read_text(encoding="ascii").split()
        if check == _sum(f"{acknowledged} {reserved}"):
            return int(acknowledged), int(reserved)
    except ValueError:
        pass
    raise DataDirError(f"{path} is damaged: put back a copy, or remove it if the rest is known to be whole")


def _line(acknowledged: int, reserved: int) -> bytes:
    text = f"{acknowledged} {reserved}"
    return f"{text} {_sum(text)}\n".ljust(_LENGTH).encode()


def _sum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"
