"""Who may talk to the server: bearers of a token it knows, by a name that means this server.

They may do so in the name of another (upstream: apiserver/pkg/endpoints/filters/impersonation).
"""

from __future__ import annotations

import hmac
import ipaddress
import re
from collections.abc import Iterable
from functools import lru_cache
from urllib.parse import unquote

from berth.certificates import LOOPBACK, WILDCARDS
from berth.server import errors
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.kinds.access.service_accounts import bearer
from berth.server.registry.strategy import Registry
from berth.server.registry.users import (
    ADMIN,
    ANONYMOUS_USER,
    AUTHENTICATED,
    AUTHENTICATION_GROUP,
    MASTERS,
    UNAUTHENTICATED,
    Attributes,
    User,
    account_groups,
    account_name,
)
from berth.server.settings import SERVICE_NAMES, ServerSettings

NOBODY = User(ANONYMOUS_USER, (UNAUTHENTICATED,))
# A name or an address, and perhaps a port; nothing else is a host.
_host = re.compile(
    r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f]*:[0-9a-f:.]*)\])(?::[0-9]{1,5})?"
).fullmatch
_OPEN = frozenset({"/healthz", "/livez", "/readyz", "/version"})
_PREFIX = b"impersonate-"
_EXTRA = "extra-"


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


def acting_user(registry: Registry, sender: User, headers: Iterable[tuple[bytes, bytes]]) -> User:
    """Whom a request is to be taken for: whoever sends it, unless the headers name somebody else.

    Raises:
        StatusError: the headers name no user (400), or the sender may not speak for all they name (403).
    """
    given = [
        (name[len(_PREFIX) :].decode("latin-1"), value.decode("utf-8", "replace"))
        for name, value in headers
        if name.startswith(_PREFIX)
    ]
    if not given:
        return sender
    name = next((value for key, value in given if key == "user" and value), "")
    groups = [value for key, value in given if key == "group"]
    uid = next((value for key, value in given if key == "uid"), "")
    extra: dict[str, list[str]] = {}
    for key, value in given:
        if key.startswith(_EXTRA):
            extra.setdefault(unquote(key.removeprefix(_EXTRA)), []).append(value)
    if not name:
        if not (groups or uid or extra):
            return sender
        listed = " ".join(f"{key}={value}" for key, value in given)
        raise errors.bad_request(f"requested [{listed}] without impersonating a user")
    for asked in _asked(name, groups, uid, extra):
        require(registry, sender, asked)
    account = account_name(name)
    if account is not None and not groups:
        groups = list(account_groups(account[0]))
    everyone = UNAUTHENTICATED if name == ANONYMOUS_USER else AUTHENTICATED
    if everyone not in groups and UNAUTHENTICATED not in groups:
        groups.append(everyone)
    return User(name, tuple(groups), uid, extra)


def _asked(name: str, groups: list[str], uid: str, extra: dict[str, list[str]]) -> Iterable[Attributes]:
    account = account_name(name)
    if account is not None:
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", resource="users", name=name)
    # Who has this name may do everything, whatever the groups.
    for group in groups if name != ADMIN.name else {*groups, MASTERS}:
        yield Attributes("impersonate", resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", AUTHENTICATION_GROUP, "userextras", key, name=value)
    if uid:
        yield Attributes("impersonate", AUTHENTICATION_GROUP, "uids", name=uid)
