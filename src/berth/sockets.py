"""Hosts and links as URLs have them, names and addresses, and ending the connections of a server."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import uvicorn


def url_host(host: str) -> str:
    """A host as it stands in a URL: an IPv6 address has brackets."""
    return f"[{host}]" if ":" in host else host


def page_link(host: str, port: int, secret: str) -> str:
    """The address that opens a page once."""
    return f"http://{url_host(host)}:{port}/?link={secret}"


def is_address(name: str) -> bool:
    """Whether a host is an address and not a name: names can be pointed here by others (DNS rebinding)."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def abort_connections(server: uvicorn.Server) -> None:
    """End connections whose clients do not: TLS would wait half a minute for their goodbye."""
    for connection in list(server.server_state.connections):
        connection.transport.abort()
