"""The API server's process: started by `berth up`, and ended with it.

Settings come as one line of JSON on standard input.  When standard input ends, whoever started this
process is gone, however that happened, and it stops too: in order if it can, and if it is too busy for
that, by a process of its own that waits for nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import select
import signal
import sys
from functools import partial
from types import FrameType
from typing import NoReturn

import msgspec

from berth.cli.up.parent import when_parent_is_gone
from berth.live import logs
from berth.server import DataDirError, DataDirInUseError, PortInUseError, ServerSettings, serve

REFUSED = 2
BECAUSE = "berth-api-server: "  # begins the line on stderr that says why it does not run
GRACE = 5.0  # seconds for stopping in order once the parent is gone


class _ProcessSettings(msgspec.Struct):
    """The settings of the server, and how its process logs."""

    settings: ServerSettings
    form: logs.Form
    verbosity: int


def encode_settings(settings: ServerSettings, form: logs.Form = "text", verbosity: int = 0) -> bytes:
    """The line that the process is told its settings with."""
    told = _ProcessSettings(settings, form, verbosity)
    return msgspec.json.encode(told, enc_hook=str) + b"\n"  # paths become strings


def main() -> int:
    line = sys.stdin.buffer.readline()
    told = msgspec.json.decode(line, type=_ProcessSettings, dec_hook=lambda kind, text: kind(text))
    settings = told.settings
    logs.set_up(told.form, told.verbosity)
    guard(sys.stdin.fileno())
    # uvicorn raises the signal once more after it has stopped; without a handler the store would stay open.
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    when_parent_is_gone(partial(os.kill, os.getpid(), signal.SIGTERM))
    _allow_many_connections()
    # Hundreds of thousands of objects live long; frequent collections would stop every request for nothing.
    gc.set_threshold(100_000, 20, 100)
    try:
        serve(settings)
    except (DataDirError, DataDirInUseError, PortInUseError) as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"{error.filename or settings.data_dir}: {error.strerror or error}")
    return 0


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def _refuse(sentence: str) -> int:
    print(f"{BECAUSE}{sentence}", file=sys.stderr)  # noqa: T201 - the starter reads it
    return REFUSED


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as the system allows: every watch needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def guard(parent: int, grace: float = GRACE) -> None:
    """Have this process killed if it still runs some seconds after the pipe from its parent has ended.

    A thread could not do it: another one that holds the interpreter's lock would stop it.
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


if __name__ == "__main__":
    try:
        code = main()
    except SystemExit:
        code = 0
    sys.stderr.flush()
    os._exit(code)  # do not wait for threads that work on requests of clients that are gone
