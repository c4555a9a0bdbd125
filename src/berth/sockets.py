"""Ports to listen on, hosts and links as URLs have them, and ending the connections of a server.

Little is imported here: a process that only waits for its first connection uses it.
"""

from __future__ import annotations

import contextlib
import socket
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn


class ServingError(Exception):
    """The endpoint cannot be opened; the message is a sentence for the user."""


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; connections that come before it is served wait.

    Raises:
        ServingError: the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=128)
    except OSError as error:
        why = (error.strerror or str(error)).partition(" (while attempting")[0]
        raise ServingError(f"cannot listen on port {port} of {host}: {why}") from None


def url_host(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def page_link(host: str, port: int, secret: str) -> str:
    """The address that opens a page once."""
    return f"http://{url_host(host)}:{port}/?link={secret}"


def is_address(name: str) -> bool:
    """Whether a host is an address and not a name: names can be pointed here by others (DNS rebinding)."""
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError, ValueError):
            socket.inet_pton(family, name)
            return True
    return False


def abort_connections(server: uvicorn.Server) -> None:
    """End connections whose clients do not: TLS would wait half a minute for their goodbye."""
    for connection in list(server.server_state.connections):
        connection.transport.abort()
