"""Running the server in this process until it is told to stop."""

from __future__ import annotations

import asyncio
import errno
import importlib.util
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace

import uvicorn

from berth.server.connections import LimitedProtocol
from berth.server.credentials import TokenSigner, account_key, prepare
from berth.server.http.app import Api
from berth.server.http.state import ServerState, make_state, open_store
from berth.server.registry.strategy import Credentials
from berth.server.settings import PreparedServer, ServerSettings
from berth.sockets import abort_connections

_BACKLOG = 2048
_TICKS = 10  # of uvicorn's in a second
_PATIENCE, _GRACE = 1, 3  # seconds for connections and for requests when the server stops


class PortInUseError(RuntimeError):
    """Another program listens where the server should."""


class _Server(uvicorn.Server):
    """uvicorn's, which looks after slow clients, and lets watches go before it waits for requests to end."""

    def __init__(self, config: uvicorn.Config, state: ServerState) -> None:
        super().__init__(config)
        self._state = state

    async def on_tick(self, counter: int) -> bool:
        if counter % _TICKS == 0:
            now = time.monotonic()
            for connection in list(self.server_state.connections):
                if isinstance(connection, LimitedProtocol):
                    connection.sweep(now)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.stopping = True
        for bucket in self._state.registry.store.buckets.values():
            for listener in tuple(bucket.listeners):
                listener.close()
        asyncio.get_running_loop().call_later(_PATIENCE, abort_connections, self)
        await super().shutdown(sockets)


@dataclass(frozen=True, slots=True)
class OpenServer:
    """A server that has its port and its data; `run` blocks until it is told to stop."""

    prepared: PreparedServer
    _server: uvicorn.Server
    _listener: socket.socket

    def run(self) -> None:
        self._server.run(sockets=[self._listener])

    def stop(self) -> None:
        """Let `run` return; may be called from another thread."""
        self._server.should_exit = True


@contextmanager
def open_server(settings: ServerSettings) -> Iterator[OpenServer]:
    """Take the port, 0 for any that is free, and the data directory, and make what is missing in it.

    Raises:
        DataDirInUseError: another server uses the data directory.
        PortInUseError: the port is taken.
    """
    with closing(listen(settings)) as listener:
        settings = replace(settings, port=listener.getsockname()[1])
        # Only who has the data directory may write into it: the store comes first.
        with closing(open_store(settings)) as store:
            prepared = prepare(settings)
            signer = TokenSigner(account_key(prepared.account_key_file))
            credentials = Credentials(prepared.token, signer, prepared.ca_file.read_text())
            state = make_state(settings, store, credentials)
            with closing(state.workers):
                yield OpenServer(prepared, _Server(_config(state, prepared), state), listener)


def _config(state: ServerState, prepared: PreparedServer) -> uvicorn.Config:
    return uvicorn.Config(
        Api(state),
        loop="uvloop" if importlib.util.find_spec("uvloop") else "asyncio",
        http=LimitedProtocol,
        ws="none",
        lifespan="on",
        ssl_certfile=str(prepared.cert_file),
        ssl_keyfile=str(prepared.key_file),
        log_config=None,  # as everything else that is said in this process
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # headers such as X-Forwarded-For are not trusted
        date_header=False,
        timeout_keep_alive=300,
        timeout_graceful_shutdown=_GRACE,
    )


def listen(settings: ServerSettings) -> socket.socket:
    ipv6, place = ":" in settings.host, (settings.host, settings.port)
    family = socket.AF_INET6 if ipv6 else socket.AF_INET
    try:
        return socket.create_server(place, family=family, backlog=_BACKLOG, dualstack_ipv6=ipv6)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            message = f"port {settings.port} of {settings.host} is in use by another program"
            raise PortInUseError(message) from None
        raise
