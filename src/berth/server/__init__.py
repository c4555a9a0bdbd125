"""The embedded API server: http over registry over storage; patches, tables and OpenAPI beside."""

from berth.server.credentials import prepare
from berth.server.errors import DataDirError
from berth.server.serving import PortInUseError, serve
from berth.server.settings import PreparedServer, ServerSettings
from berth.server.storage.journal import DataDirInUseError

__all__ = [
    "DataDirError",
    "DataDirInUseError",
    "PortInUseError",
    "PreparedServer",
    "ServerSettings",
    "prepare",
    "serve",
]
