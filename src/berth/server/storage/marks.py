"""Which versions were handed out: a witness beside the database, so that a loss is noticed.

SQLite drops what follows a damaged page of its write-ahead log without a word.  This file says up to
which version writes were acknowledged, and up to which they may have been: it is written after every
commit, and through to the disk only when the second number grows.  What the database lacks of the first
is lost, and no version up to the second is ever used again.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path

from berth.files import write_private
from berth.server.errors import DataDirError

_LENGTH = 64
AHEAD = 4096  # versions that are reserved at once


class VersionMarks:
    """The file.

    Attributes:
        known: Whether it was there.
        acknowledged: The newest version that a client may have been told of.
        reserved: No version up to this one is new.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.known = path.exists()
        self.acknowledged = self.reserved = 0
        if self.known:
            self.acknowledged, self.reserved = _read(path)
        else:
            write_private(path, _line(0, 0))  # at no moment is it there and empty
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


def _read(path: Path) -> tuple[int, int]:
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
