"""How a child process of `berth up` notices that whoever started it is gone: standard input ends."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable


def when_parent_is_gone(end: Callable[[], object]) -> None:
    """Have this process ended by a thread, however busy it is, once its parent is gone."""
    threading.Thread(target=_wait, args=(end,), daemon=True).start()


def _wait(end: Callable[[], object]) -> None:
    # Read the descriptor, not the stream: Python crashes at exit while a thread holds the stream's lock.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    end()
