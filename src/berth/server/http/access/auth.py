"""Who may talk to the server: bearers of a token it knows, by a name that means this server."""

from __future__ import annotations

import hmac
import ipaddress
import re
from functools import lru_cache

from berth.certificates import LOOPBACK, WILDCARDS
from berth.server import errors
from berth.server.registry.kinds.access.service_accounts import bearer
from berth.server.registry.strategy import Registry
from berth.server.registry.users import ADMIN, ANONYMOUS_USER, UNAUTHENTICATED, User
from berth.server.settings import SERVICE_NAMES, ServerSettings

NOBODY = User(ANONYMOUS_USER, (UNAUTHENTICATED,))
# A name or an address, and perhaps a port; nothing else is a host.
_host = re.compile(
    r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f]*:[0-9a-f:.]*)\])(?::[0-9]{1,5})?"
).fullmatch
_OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version"})


class Gate:
    """Checks every request before anything else looks at it."""

    def __init__(self, settings: ServerSettings, registry: Registry) -> None:
        self._registry = registry
        self._header = f"bearer {registry.token}".encode()
        self._names = {*SERVICE_NAMES, *LOOPBACK, *settings.allowed_hosts, settings.host} - WILDCARDS
        self._any_address = settings.host in WILDCARDS
        self._known_host = lru_cache(maxsize=256)(self._is_known)

    def check(self, path: str, headers: dict[bytes, bytes]) -> User:
        """Who sends a request.

        Raises:
            StatusError: the host is not one of ours (403), or the token is missing or wrong (401).
        """
        host = headers.get(b"host", b"")
        if not self._known_host(host):
            why = f"host {host.decode('latin-1')!r} is not served here"
            raise errors.StatusError(403, "Forbidden", why)
        given = headers.get(b"authorization", b"")
        given = given[:7].lower() + given[7:]
        if hmac.compare_digest(given, self._header):
            return ADMIN
        if given.startswith(b"bearer "):
            user = bearer(self._registry, given[7:].decode("latin-1").strip())
            if user is not None:
                return user
        if path in _OPEN or path.startswith(("/livez/", "/readyz/", "/healthz/")):
            return NOBODY
        raise errors.unauthorized()

    def _is_known(self, host: bytes) -> bool:
        found = _host(host.decode("latin-1").lower())
        if found is None:
            return False
        name = found["name"] or found["address"]
        if name in self._names:
            return True
        if not self._any_address:
            return False
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
