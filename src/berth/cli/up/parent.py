"""A child process of `berth up` and whoever started it: once that is gone, standard input ends.

Little is imported here: children begin with this.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable

BECAUSE = "berth up: "  # begins the line on stderr that says why a child cannot do what it was told
GRACE = 5.0  # seconds for stopping in order once the parent is gone


def refuse(sentence: str) -> int:
    """Tell the parent why this process does not run; its exit code."""
    print(f"{BECAUSE}{sentence}", file=sys.stderr)  # noqa: T201 - the parent reads it
    return 2


def when_parent_is_gone(end: Callable[[], object]) -> None:
    """Have this process ended by a thread once its parent is gone."""
    threading.Thread(target=_wait, args=(end,), daemon=True).start()


def _wait(end: Callable[[], object]) -> None:
    # Read the descriptor, not the stream: Python crashes at exit while a thread holds the stream's lock.
    while os.read(sys.stdin.fileno(), 4096):
        pass
    end()


def guard(parent: int, grace: float = GRACE) -> None:
    """Have this process killed if it still runs some seconds after the pipe from its parent has ended.

    A thread could not do it: another one that holds the interpreter's lock would stop it.  The process that
    does it is a copy of this one, so it is to be made before anything large is imported.
    """
    guarded = os.getpid()
    ended, alive = os.pipe()  # `alive` is closed when this process ends, and only then
    if os.fork():
        os.close(ended)
        return
    try:
        os.close(alive)
        silence = os.open(os.devnull, os.O_RDWR)
        for stream in (1, 2):
            os.dup2(silence, stream)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        while True:
            ready, _, _ = select.select((parent, ended), (), ())
            if ended in ready:
                break
            if not os.read(parent, 4096):
                ready, _, _ = select.select((ended,), (), (), grace)
                if not ready and os.getppid() == guarded:
                    os.kill(guarded, signal.SIGKILL)
                break
    finally:
        os._exit(0)
