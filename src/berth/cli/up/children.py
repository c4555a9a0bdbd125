"""What `berth up` and its child processes tell each other: one line of JSON each way."""

from __future__ import annotations

from pathlib import Path

import msgspec

from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.live import logs
from berth.server.settings import PreparedServer, ServerSettings

BECAUSE = "berth-api-server: "  # begins the line on stderr that says why the server does not run


class ServerProcessSettings(msgspec.Struct):
    """The settings of the server, and how its process logs."""

    settings: ServerSettings
    form: logs.Form = "text"
    verbosity: int = 0


class PageProcessSettings(msgspec.Struct, rename="camel", kw_only=True):
    """Which cluster the page is about, and where it is served; `token` is the API's."""

    url: str
    ca_file: str
    token: str
    host: str
    port: int
    kubeconfig: str
    kubernetes_version: str
    daemon_namespaces: frozenset[str] = frozenset()
    gates: FeatureGates = DEFAULT_GATES


def line_of(told: ServerProcessSettings | PageProcessSettings | PreparedServer) -> bytes:
    return msgspec.json.encode(told, enc_hook=str) + b"\n"  # paths become strings


def server_settings(line: bytes) -> ServerProcessSettings:
    return msgspec.json.decode(line, type=ServerProcessSettings, dec_hook=_path)


def prepared_server(line: bytes) -> PreparedServer:
    return msgspec.json.decode(line, type=PreparedServer, dec_hook=_path)


def page_settings(line: bytes) -> PageProcessSettings:
    return msgspec.json.decode(line, type=PageProcessSettings)


def _path(_: type, text: str) -> Path:
    return Path(text)
