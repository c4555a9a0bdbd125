"""The embedded API server with a wall clock that a test sets: run as a script, with the file of the shift.

Python programs read the wall clock by `time.time`, and the server by nothing else; before anything of it is
imported, that is replaced.  The file holds the seconds to add.
"""

from __future__ import annotations

import os
import runpy
import sys
import time

_LENGTH = 32


def shifted(path: str) -> None:
    """Shift the clock of this process by what a file says, whenever it is read."""
    file, real = os.open(path, os.O_RDONLY), time.time
    time.time = lambda: real() + float(os.pread(file, _LENGTH, 0))


def line(seconds: float) -> bytes:
    """What the file holds."""
    return str(seconds).ljust(_LENGTH).encode()


if __name__ == "__main__":
    shifted(sys.argv[1])
    runpy.run_module("berth.cli.up.server", run_name="__main__", alter_sys=True)
