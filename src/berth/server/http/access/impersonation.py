"""Requests that somebody makes in the name of another: who it is, and whether they may.

Upstream: apiserver/pkg/endpoints/filters/impersonation.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from berth.server import errors
from berth.server.registry.kinds.access.roles import require
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

_PREFIX = b"impersonate-"
_EXTRA = "extra-"


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
