"""The API server's process: started by `berth up`, which it outlives by no more than a moment.

Settings come as one line of JSON on standard input.  When standard input ends, whoever started this
process is gone, however that happened, and it stops too.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import msgspec

from berth.kube.gates import FeatureGates
from berth.server import DataDirInUseError, PortInUseError, ServerSettings, serve

REFUSED = 2


def encode_settings(settings: ServerSettings) -> bytes:
    """The line that the process is told its settings with."""
    told = {
        "dataDir": str(settings.data_dir),
        "host": settings.host,
        "port": settings.port,
        "kubeconfigOut": str(settings.kubeconfig_out) if settings.kubeconfig_out else "",
        "featureGates": str(settings.gates),
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
        event_limit=given["eventLimit"],
    )


def main() -> int:
    settings = _decode_settings(sys.stdin.buffer.readline())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    try:
        serve(settings)
    except (DataDirInUseError, PortInUseError) as error:
        print(error, file=sys.stderr)  # noqa: T201 - the starter reads it
        return REFUSED
    return 0


def _stop_with_parent() -> None:
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(main())
