"""Files that are there whole or not at all, and such that are there for a moment."""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file by one that only its owner can read."""
    write_whole(path, content, 0o600)


@contextmanager
def in_a_file(content: bytes) -> Iterator[Path]:
    """Have something in a file for as long as it is used, for who reads nothing else, such as OpenSSL.

    It is in memory where there is such a thing: keys are secret, and disks may be read-only.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("berth"), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}")
    else:
        with tempfile.NamedTemporaryFile() as named:
            named.write(content)
            named.flush()
            yield Path(named.name)


def sync_folder(folder: Path) -> None:
    """Write through which files a folder has."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, content: bytes, mode: int | None = None) -> None:
    """Replace the file that a path or link leads to; without a `mode` it keeps its own.

    What is no regular file, such as a device, is written into.
    """
    if path.exists() and not path.is_file():
        with path.open("wb", buffering=0) as device:
            rest = memoryview(content)
            while rest:
                rest = rest[device.write(rest) :]
        return
    try:
        target = path.resolve()
    except RuntimeError:  # a link that leads to itself
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP)) from None
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    descriptor = os.open(temporary, flags, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        elif target.exists():
            shutil.copymode(target, temporary)
        temporary.replace(target)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)
