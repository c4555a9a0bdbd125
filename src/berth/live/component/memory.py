"""The memory of a process in which most objects stay, among many that come and go."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc

_M_ARENA_MAX = -8  # of mallopt
_PERIOD = 30.0  # seconds


def keep_many_objects() -> None:
    """Prepare the process for objects that stay.

    Garbage is collected rarely: going through all that is known finds nothing.  And threads have no heaps of
    their own: the more heaps there are, the more memory stays unused between what is kept.
    """
    gc.set_threshold(100_000, 20, 100)
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 1)


async def give_back() -> None:
    """Give the system back what is free between objects, every half a minute until cancelled.

    Answers of all sizes come and go between what stays, so that the heap gets holes, and grows although no
    more is kept.  It takes a few milliseconds.
    """
    trim = None
    with contextlib.suppress(OSError, AttributeError):  # only glibc has it
        trim = ctypes.CDLL(None).malloc_trim
    while trim is not None:
        await asyncio.sleep(_PERIOD)
        trim(0)
