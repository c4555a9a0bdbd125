"""The API server's process: started by `berth up`, and ended with it.

Settings come as one line of JSON on standard input, and what clients of the server need goes out as one line
once it is prepared.  When standard input ends, whoever started this process is gone, however that happened,
and it stops too: in order if it can, and if too busy for that, by a process that waits for nothing else.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
from functools import partial

from berth.cli.up.parent import guard, refuse, when_parent_is_gone


def main() -> int:
    line = sys.stdin.buffer.readline()
    guard(sys.stdin.fileno())
    when_parent_is_gone(partial(os.kill, os.getpid(), signal.SIGTERM))
    _allow_many_connections()
    # Hundreds of thousands of objects live long; frequent collections would stop every request for nothing.
    gc.set_threshold(100_000, 20, 100)
    # Imported now, so that the guard, a copy of this process, has none of it.
    from berth.cli.up.children import ServerProcessSettings, line_of, read  # noqa: PLC0415
    from berth.live import logs  # noqa: PLC0415
    from berth.server.errors import DataDirError  # noqa: PLC0415
    from berth.server.serving import PortInUseError, open_server  # noqa: PLC0415
    from berth.server.storage.journal import DataDirInUseError  # noqa: PLC0415

    told = read(line, ServerProcessSettings)
    logs.set_up(told.form, told.verbosity)
    try:
        with open_server(told.settings) as server:
            # Before, a signal just ends the process: what a handler raises can get lost in an import.
            # Afterwards uvicorn raises the signal once more, and the store is still to be closed.
            for number in (signal.SIGTERM, signal.SIGINT):
                signal.signal(number, lambda *_: server.stop())
            _tell(line_of(server.prepared))
            server.run()
    except (DataDirError, DataDirInUseError, PortInUseError) as error:
        return refuse(str(error))
    except OSError as error:
        return refuse(f"{error.filename or told.settings.data_dir}: {error.strerror or error}")
    return 0


def _tell(line: bytes) -> None:
    """Give the starter its one line; nobody reads standard output any further."""
    sys.stdout.buffer.write(line)
    sys.stdout.flush()
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, sys.stdout.fileno())
    os.close(silence)


def _allow_many_connections() -> None:
    """Raise the limit of open files as far as the system allows: every watch needs one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    code = main()
    sys.stderr.flush()
    os._exit(code)  # do not wait for threads that work on requests of clients that are gone
