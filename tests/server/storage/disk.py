"""A disk that fails at a chosen call, and knows what would be left of it if the power went now.

SQLite itself runs upon it, by a VFS of its own kind (apsw has one in Python), and so does the rest of the
store, whose calls are replaced.  Files are real; only syncs are not: what they would have made safe is
written down here.  A sync that fails loses what it was to make safe, as Linux does: to sync again says
nothing of it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import random
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeVar

import apsw
import pytest

from berth.server.storage import journal
from berth.server.storage.store import Store

_SECTOR = 512
_WRITTEN_BACK = 10  # pages of the log
_P = ParamSpec("_P")
_T = TypeVar("_T")
_numbers = itertools.count()

Image = dict[str, bytes]


@dataclass
class _File:
    """What of a file is safe, and what was written since: (where, what), or (a length, None)."""

    safe: bytearray = field(default_factory=bytearray)
    written: list[tuple[int, bytes | None]] = field(default_factory=list)
    entered: bool = False  # its name in the folder is safe, too
    syncs_folder: bool = False  # with its next sync, as SQLite does with a new log

    def torn(self, chance: random.Random) -> bytes:
        """What is left of it: any of the sectors that were written since the last sync may have arrived."""
        found = bytearray(self.safe)
        for start, content in self.written:
            if content is None:
                if chance.random() < 0.5:
                    _change(found, start, None)
                continue
            for at in range(start - start % _SECTOR, start + len(content), _SECTOR):
                if chance.random() < 0.5:
                    low, high = max(at, start), min(at + _SECTOR, start + len(content))
                    _change(found, low, content[low - start : high - start])
        return bytes(found)


def _change(content: bytearray, start: int, new: bytes | None) -> None:
    if new is None:
        content[:] = content[:start].ljust(start, b"\0")
        return
    if len(content) < start:
        content.extend(bytes(start - len(content)))
    content[start : start + len(new)] = new


class Disk:
    """One folder's.

    Attributes:
        calls: What it was asked so far.
        fails: Whether a call fails, by its number; and with which error.
        struck: The calls that failed.
        before: Called before every call.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.calls = 0
        self.fails: Callable[[int], int] = lambda _number: 0
        self.struck: list[str] = []
        self.before: Callable[[], None] = lambda: None
        self._files: dict[str, _File] = {}
        self._gone: dict[str, _File] = {}  # whose removal is not safe
        self._open: dict[int, str] = {}
        self.vfs = _Vfs(f"disk-{next(_numbers)}", self)

    def left(self, chance: random.Random) -> Image:
        """The files that are there when the power is back."""
        there = {name: file for name, file in self._files.items() if file.entered or chance.random() < 0.5}
        back = {name: file for name, file in self._gone.items() if chance.random() < 0.5}
        return {name: file.torn(chance) for name, file in (back | there).items()}

    def visible(self) -> Image:
        """The files as a killed process leaves them."""
        found = {}
        for path in self.folder.iterdir():
            if path.name != "lock":
                with open(path, "rb") as file:  # noqa: PTH123 - not by a call that is counted
                    found[path.name] = file.read()
        return found

    # --- what is asked of it

    def call(self, what: str) -> None:
        """Count a call; raises what it fails with."""
        self.before()
        self.calls += 1
        number = self.fails(self.calls)
        if number:
            self.struck.append(what)
            raise OSError(number, os.strerror(number))

    def created(self, name: str, *, syncs_folder: bool = False) -> None:
        if name not in self._files:
            self._files[name] = _File(syncs_folder=syncs_folder)

    def wrote(self, name: str, start: int, content: bytes | None) -> None:
        self._files[name].written.append((start, content))

    def synced(self, name: str) -> None:
        file = self._files[name]
        for start, content in file.written:
            _change(file.safe, start, content)
        file.written.clear()
        if file.syncs_folder:
            file.syncs_folder = False
            self.synced_folder()

    def unsynced(self, name: str) -> None:
        """A sync has failed."""
        self._files[name].written.clear()

    def synced_folder(self) -> None:
        self._gone.clear()
        for file in self._files.values():
            file.entered = True

    def removed(self, name: str) -> None:
        file = self._files.pop(name, None)
        if file is not None and file.entered:
            self._gone[name] = file

    # --- in the place of the operating system

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Have the store of this process use this disk."""
        errors = {name: getattr(sqlite3, name) for name in ("Error", "DatabaseError", "OperationalError")}
        monkeypatch.setattr(journal, "sqlite3", SimpleNamespace(connect=self._connect, **errors))
        usual = sys.unraisablehook
        # SQLite does not pass every error on, such as one of closing.
        monkeypatch.setattr(
            sys, "unraisablehook", lambda one: None if isinstance(one.exc_value, apsw.Error) else usual(one)
        )
        monkeypatch.setattr(journal, "write_private", self._write_private)
        monkeypatch.setattr(journal, "sync_folder", lambda path: self.call(f"fsync {path.name}"))
        own = {"open": self._os_open, "pwrite": self._pwrite, "fsync": self._fsync, "close": self._close}
        flags = {name: getattr(os, name) for name in dir(os) if name.startswith("O_")}
        monkeypatch.setattr(journal, "os", SimpleNamespace(**flags, **own, getpid=os.getpid))
        for name in ("open", "mkdir", "chmod", "stat", "read_text"):
            monkeypatch.setattr(Path, name, self._watched(getattr(Path, name), name))

    def _watched(self, function: Callable[_P, _T], what: str) -> Callable[_P, _T]:
        def asked(*given: _P.args, **named: _P.kwargs) -> _T:
            path = given[0]
            if isinstance(path, Path) and (path == self.folder or self.folder in path.parents):
                self.call(f"{what} {path.name}")
            return function(*given, **named)

        return asked

    def _os_open(self, path: Path, flags: int, mode: int = 0o777) -> int:
        self.call(f"open {path.name}")
        file = os.open(path, flags, mode)
        self._open[file] = path.name
        return file

    def _write_private(self, path: Path, content: bytes) -> None:
        """The new file is safe before it gets its name; its name is when the folder is synced."""
        self.call(f"write {path.name}")
        path.write_bytes(content)
        self._files[path.name] = _File(safe=bytearray(content))
        self.call("fsync folder")
        self.synced_folder()

    def _pwrite(self, file: int, content: bytes, start: int) -> int:
        self.call(f"pwrite {self._open[file]}")
        self.wrote(self._open[file], start, content)
        return os.pwrite(file, content, start)

    def _fsync(self, file: int) -> None:
        name = self._open[file]
        try:
            self.call(f"fsync {name}")
        except OSError:
            self.unsynced(name)
            raise
        self.synced(name)

    def _close(self, file: int) -> None:
        self._open.pop(file, None)
        os.close(file)

    def _connect(self, path: Path, **_settings: object) -> _Connection:
        return _Connection(path, self.vfs)


class _Vfs(apsw.VFS):
    """What SQLite asks of the operating system."""

    def __init__(self, name: str, disk: Disk) -> None:
        super().__init__(name, base="")
        self.vfs_name, self.disk = name, disk

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        return _VfsFile(self.disk, path or "", flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: N802
        name = Path(filename).name
        _translated(lambda: self.disk.call(f"delete {name}"), apsw.SQLITE_IOERR_DELETE)
        super().xDelete(filename, syncdir)
        self.disk.removed(name)
        if syncdir:
            self.disk.synced_folder()

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        _translated(lambda: self.disk.call(f"access {Path(pathname).name}"), apsw.SQLITE_IOERR_ACCESS)
        return super().xAccess(pathname, flags)


class _VfsFile(apsw.VFSFile):
    def __init__(self, disk: Disk, path: str, flags: list[int]) -> None:
        self._disk, self._name = disk, Path(path).name
        logs = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        self._kept = flags[0] & (apsw.SQLITE_OPEN_MAIN_DB | logs) != 0
        _translated(lambda: disk.call(f"open {self._name}"), apsw.SQLITE_CANTOPEN)
        super().__init__("", path, flags)
        if self._kept:
            disk.created(self._name, syncs_folder=flags[0] & logs != 0)

    def _ask(self, what: str, code: int) -> None:
        if self._kept:
            _translated(lambda: self._disk.call(f"{what} {self._name}"), code)

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        self._ask("read", apsw.SQLITE_IOERR_READ)
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        try:
            self._ask("write", apsw.SQLITE_IOERR_WRITE)
        except apsw.FullError:  # as much as there was room for
            self._store(bytes(data)[: len(data) // 2], offset)
            raise
        self._store(bytes(data), offset)

    def _store(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        if self._kept:
            self._disk.wrote(self._name, offset, data)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._ask("truncate", apsw.SQLITE_IOERR_TRUNCATE)
        super().xTruncate(newsize)
        if self._kept:
            self._disk.wrote(self._name, newsize, None)

    def xSync(self, _flags: int) -> None:  # noqa: N802
        try:
            self._ask("sync", apsw.SQLITE_IOERR_FSYNC)
        except apsw.Error:
            self._disk.unsynced(self._name)
            raise
        if self._kept:
            self._disk.synced(self._name)

    def xFileSize(self) -> int:  # noqa: N802
        self._ask("size", apsw.SQLITE_IOERR_FSTAT)
        return super().xFileSize()

    def xLock(self, level: int) -> None:  # noqa: N802
        self._ask("lock", apsw.SQLITE_IOERR_LOCK)
        super().xLock(level)

    def xUnlock(self, level: int) -> None:  # noqa: N802
        self._ask("unlock", apsw.SQLITE_IOERR_UNLOCK)
        super().xUnlock(level)


def _translated(ask: Callable[[], None], code: int) -> None:
    """What SQLite's own VFS makes of an error."""
    try:
        ask()
    except OSError as error:
        full = error.errno == errno.ENOSPC and code == apsw.SQLITE_IOERR_WRITE
        code = apsw.SQLITE_FULL if full else code
        raise apsw.exception_for(code) from None


# As the standard library's module has it.
_OPERATIONAL: tuple[type[apsw.Error], ...] = (
    *(apsw.BusyError, apsw.LockedError, apsw.ReadOnlyError, apsw.InterruptError, apsw.IOError),
    *(apsw.FullError, apsw.CantOpenError, apsw.SQLError, apsw.AbortError),
)


class _Connection:
    """apsw's with the methods and the errors of the standard library's."""

    def __init__(self, path: Path, vfs: _Vfs) -> None:
        self._made = _raised(lambda: apsw.Connection(str(path), vfs=vfs.vfs_name))
        self._made.set_wal_hook(self._committed)
        self._commits = 0

    def _committed(self, made: apsw.Connection, name: str, pages: int) -> int:
        """Write the log back, as SQLite does by itself, but early; that it fails is nothing to the commit."""
        self._commits += 1
        if pages >= _WRITTEN_BACK:
            with contextlib.suppress(apsw.Error):
                made.wal_checkpoint(name)
        return apsw.SQLITE_OK

    @property
    def in_transaction(self) -> bool:
        return self._made.in_transaction

    def execute(self, statement: str, given: Sequence[Any] = ()) -> _Cursor:
        before, cursor = self._commits, self._made.cursor()
        try:
            _raised(lambda: cursor.execute(statement, given))
        except sqlite3.Error:
            if self._commits == before:
                raise
            # Something failed after the commit, which SQLite does not mind, though apsw does.
        return _Cursor(cursor)

    def executescript(self, statements: str) -> None:
        _raised(lambda: self._made.execute(statements))

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):  # SQLite closes whatever happens, and says nothing
            self._made.close()


@dataclass
class _Cursor:
    made: apsw.Cursor

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return _raised(lambda: next(self.made))

    def fetchone(self) -> Any:
        return _raised(self.made.fetchone)


def _raised(act: Callable[[], _T]) -> _T:
    try:
        return act()
    except apsw.Error as error:
        made = sqlite3.OperationalError if isinstance(error, _OPERATIONAL) else sqlite3.DatabaseError
        raise made(str(error) or type(error).__name__) from error


def opened(folder: Path) -> Store:
    return Store(folder, event_limit=1000, fields={})
