"""What `berth up` tells its child processes, and the server tells it: one line of JSON each."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec

from berth.kube.gates import FeatureGates
from berth.live import logs
from berth.server.settings import PreparedServer, ServerSettings

_T = TypeVar("_T")


class ServerProcessSettings(msgspec.Struct):
    """The settings of the server, and how its process logs."""

    settings: ServerSettings
    form: logs.Form = "text"
    verbosity: int = 0


class PageProcessSettings(msgspec.Struct):
    """Which server the page is about, where beside it the page is served, and by which gates it judges."""

    server: ServerSettings
    prepared: PreparedServer
    port: int
    gates: FeatureGates


def line_of(told: ServerProcessSettings | PageProcessSettings | PreparedServer) -> bytes:
    return msgspec.json.encode(told, enc_hook=str) + b"\n"  # paths become strings


def read(line: bytes | str, kind: type[_T]) -> _T:
    return msgspec.json.decode(line, type=kind, dec_hook=lambda _, text: Path(text))
