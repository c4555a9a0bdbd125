"""The API server's process: started by `berth up`, which it outlives by no more than a moment.

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
import threading
from pathlib import Path
from typing import Any

import msgspec

from berth.kube.gates import FeatureGates
from berth.kube.versions import VERSIONS
from berth.server import DataDirInUseError, PortInUseError, ServerSettings, serve

REFUSED = 2
GRACE = 5.0  # seconds for stopping in order once the parent is gone


def encode_settings(settings: ServerSettings) -> bytes:
    """The line that the process is told its settings with."""
    told = {
        "dataDir": str(settings.data_dir),
        "host": settings.host,
        "port": settings.port,
        "kubeconfigOut": str(settings.kubeconfig_out) if settings.kubeconfig_out else "",
        "featureGates": str(settings.gates),
        "version": settings.version.name,
        "eventLimit": settings.event_limit,
    }
    return msgspec.json.encode(told) + b"\n"


def _decode_settings(line: bytes) -> ServerSettings:
    given: dict[str, Any] = msgspec.json.decode(line)
    return ServerSettings(
        data_dir=Path(given["dataDir"]),
        host=given["host"],
        port=given["port"],
        kubeconfig_out=Path(given["kubeconfigOut"]) if given["kubeconfigOut"] else None,
        gates=FeatureGates.parse(given["featureGates"]),
        version=VERSIONS[given["version"]],
        event_limit=given["eventLimit"],
    )


def main() -> int:
    settings = _decode_settings(sys.stdin.buffer.readline())
    guard(sys.stdin.fileno())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    _allow_many_connections()
    # Objects come by the hundred thousand and are no garbage; to look through them often stops everybody.
    gc.set_threshold(100_000, 20, 100)
    try:
        serve(settings)
    except (DataDirInUseError, PortInUseError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the starter reads it
        return REFUSED
    return 0


def _allow_many_connections() -> None:
    """As many open files as the system lets us have: a watch is one."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _stop_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def guard(parent: int, grace: float = GRACE) -> None:
    """Have this process killed if it still runs some seconds after the pipe from its parent has ended.

    A thread could not do it: one that does not let go of the interpreter stops all others.
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
    code = main()
    sys.stderr.flush()
    os._exit(code)  # a thread that is still at work on a request that nobody waits for is not waited for
