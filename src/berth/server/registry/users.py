"""Who sends a request, and what it asks for, as authorization sees them."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, field

from berth.kube.objects import RawObject
from berth.server import errors

AUTHENTICATION_GROUP = "authentication.k8s.io"
MASTERS = "system:masters"
AUTHENTICATED, UNAUTHENTICATED = "system:authenticated", "system:unauthenticated"
ANONYMOUS_USER = "system:anonymous"
ACCOUNTS_GROUP = "system:serviceaccounts"
_ACCOUNT = "system:serviceaccount"


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who was authenticated, or whom somebody else speaks for."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, list[str]] = field(default_factory=dict)

    def info(self) -> RawObject:
        """As reviews tell of it."""
        told = {
            "username": self.name,
            "uid": self.uid,
            "groups": list(self.groups),
            "extra": dict(self.extra),
        }
        return {name: value for name, value in told.items() if value}


# The bearer of the server's own token.
ADMIN = User("berth-admin", (MASTERS, AUTHENTICATED))


@dataclass(frozen=True, slots=True)
class Attributes:
    """What is asked for; with a `path` it is no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    def refusal(self, user: User, reason: str = "") -> errors.StatusError:
        """That the user may not do it, in the API server's words."""
        if self.path:
            text = f'User "{user.name}" cannot {self.verb} path "{self.path}"'
        else:
            asked = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
            where = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
            what = f'resource "{asked}" in API group "{self.group}"'
            text = f'User "{user.name}" cannot {self.verb} {what} {where}'
        text = html.escape(text, quote=False)
        why = f"{text}: {reason}" if reason else text
        return errors.forbidden((self.resource, self.group), self.name, why)


# What every write makes one of is not frozen, which would take three times as long.
@dataclass(slots=True)
class Intent:
    """Who writes, through which subresource, and whether in earnest."""

    manager: str
    dry_run: bool = False
    subresource: str = ""
    tracked: bool = False  # managed fields are already right: the write is an apply
    user: User = ADMIN
    own: bool = False  # it is the server's, which no quota can refuse


def account_name(user: str) -> tuple[str, str] | None:
    """Namespace and name of the ServiceAccount that a user's name stands for, None if it does not."""
    parts = user.split(":")
    if len(parts) == 4 and f"{parts[0]}:{parts[1]}" == _ACCOUNT and parts[2] and parts[3]:
        return parts[2], parts[3]
    return None


def account_user(namespace: str, name: str) -> str:
    return f"{_ACCOUNT}:{namespace}:{name}"


def account_groups(namespace: str) -> tuple[str, ...]:
    return (ACCOUNTS_GROUP, f"{ACCOUNTS_GROUP}:{namespace}")
