"""A request taken apart: which resource it addresses, its options, the form of the answer, and who sends it.

They may do so in the name of another (upstream: apiserver/pkg/endpoints/filters/impersonation).
"""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from urllib.parse import parse_qsl, unquote

from starlette.types import Receive
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from berth.certificates import LOOPBACK, WILDCARDS
from berth.kube import well_known
from berth.kube.objects import Key
from berth.server import errors
from berth.server.http.state import ServerState
from berth.server.registry import users
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.kinds.access.service_accounts import bearer
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.registry.users import ADMIN, Attributes, Intent, User
from berth.server.settings import SERVICE_NAMES, ServerSettings
from berth.server.storage.selectors import selected_name
from berth.sockets import is_address

JSON, TABLE, PARTIAL, YAML = "json", "table", "partial", "yaml"

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch"}
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False", ""})
NOBODY = User(users.ANONYMOUS_USER, (users.UNAUTHENTICATED,))
# A name or an address, and perhaps a port; nothing else is a host.
_host = re.compile(
    r"(?:(?P<name>[a-z0-9._-]+)|\[(?P<address>[0-9a-f]*:[0-9a-f:.]*)\])(?::[0-9]{1,5})?"
).fullmatch
is_health = re.compile(r"/(?:healthz|livez|readyz)(?:/|\Z)").match
_PREFIX = b"impersonate-"
_EXTRA = "extra-"


@dataclass(frozen=True, slots=True)
class Address:
    """The resource, object or subresource that a path points at."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    watch: bool = False  # the old /watch/ prefix


@dataclass(slots=True)
class ApiRequest:
    """One request, and what is found out about it while it is answered."""

    state: ServerState
    method: str
    path: str
    address: Address
    query: dict[str, str]
    headers: dict[bytes, bytes]
    receive: Receive
    cycle: RequestResponseCycle | None = None  # by which it can be answered at once
    user: User = ADMIN  # the user for whom it is authorized
    started: float = field(default_factory=time.perf_counter)
    warnings: list[str] = field(default_factory=list)  # sent along with the answer
    repeated: list[str] = field(default_factory=list)  # what strict validation says of fields given twice
    notice: str = ""  # a warning about the resource itself, whatever is asked of it
    resource: str = ""  # the plural of what is addressed, once that is known to exist
    streaming: bool = False  # the answer is under way already
    verb: str = field(init=False)  # as metrics and authorization name it
    endpoint: Endpoint = field(init=False)  # what serves it

    def __post_init__(self) -> None:
        method, named = self.method, bool(self.address.name)
        if method in ("GET", "HEAD"):
            asked = self.query.get("watch", "false").lower() not in ("false", "0")  # as upstream reads it
            self.verb = "watch" if self.address.watch or asked else "get" if named else "list"
        elif method == "DELETE":
            self.verb = "delete" if named else "deletecollection"
        else:
            self.verb = _VERBS.get(method, "")

    def attributes(self, verb: str = "") -> Attributes:
        """What it asks for, or would ask for with another verb, as authorization sees it."""
        address, verb = self.address, verb or self.verb
        if not address.plural:
            return Attributes("get" if self.method == "HEAD" else self.method.lower(), path=self.path)
        namespace, name = address.namespace, address.name
        if address.plural == "namespaces" and not address.group and name:
            namespace = name
        if not name and verb in ("list", "watch"):
            name = selected_name(self.query.get("fieldSelector", ""))
        return Attributes(verb, address.group, address.plural, address.subresource, namespace, name)

    @property
    def registry(self) -> Registry:
        return self.state.registry

    @property
    def key(self) -> Key:
        """Of the object that is addressed."""
        return (self.address.namespace, self.address.name)

    @property
    def intent(self) -> Intent:
        return Intent(self.manager, self.dry_run, self.address.subresource, user=self.user)

    def header(self, name: bytes) -> str:
        return self.headers.get(name, b"").decode("latin-1")

    def flag(self, name: str) -> bool:
        text = self.query.get(name, "")
        if text in _TRUE:
            return True
        if text in _FALSE:
            return False
        raise errors.bad_request(f'strconv.ParseBool: parsing "{text}": invalid syntax (parameter {name})')

    def number(self, name: str) -> int | None:
        text = self.query.get(name, "")
        if not text:
            return None
        digits = text.removeprefix("-")
        if not digits.isascii() or not digits.isdigit() or len(digits) > 18:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax (parameter {name})')
        return int(text)

    @property
    def accept(self) -> str:
        return _accepted(self.header(b"accept"))

    @property
    def content_type(self) -> str:
        return _media_type(self.headers.get(b"content-type", b""))

    @property
    def manager(self) -> str:
        """The name in managedFields for the fields that this request sets."""
        agent = self.header(b"user-agent").partition("/")[0]
        return self.query.get("fieldManager") or agent[:128] or "unknown"

    @property
    def dry_run(self) -> bool:
        given = self.query.get("dryRun")
        if not given:
            return False
        if given != "All":
            raise errors.bad_request(f'invalid dryRun: Unsupported value: "{given}": supported values: "All"')
        return True


def parse_query(raw: bytes) -> dict[str, str]:
    if not raw:
        return {}
    pairs = parse_qsl(raw.decode("latin-1"), keep_blank_values=True)
    return dict(reversed(pairs))  # the first of several counts


@lru_cache(maxsize=4096)
def parse_path(raw: str) -> Address | None:
    """The resource a path addresses; None if it lies outside ``/api/v1`` and ``/apis/G/V``."""
    parts = raw.split("/")[1:]
    # There are none in the target of OPTIONS to the whole server.
    if not parts or any(part in ("", ".", "..") for part in parts[:-1]):
        return None
    if parts[-1] == "":
        parts.pop()
    parts = [unquote(part) for part in parts]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    watch = rest[0] == "watch" and len(rest) > 1
    rest = rest[1:] if watch else rest
    # A subresource of a namespace is not a resource in it.
    own = len(rest) == 3 and rest[2] in ("status", "finalize")
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and not own:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = rest + [""] * (3 - len(rest))
    return Address(group, version, plural, namespace, name, subresource, watch)


@lru_cache(maxsize=512)
def _media_type(header: bytes) -> str:
    return header.decode("latin-1").partition(";")[0].strip().lower()


@lru_cache(maxsize=512)
def clauses(accept: str) -> tuple[tuple[str, dict[str, str]], ...]:
    """The media types in an Accept header, each with its parameters."""
    parted = ([part.strip() for part in clause.split(";")] for clause in accept.split(","))
    return tuple((media, dict(one.split("=", 1) for one in more if "=" in one)) for media, *more in parted)


@lru_cache(maxsize=512)
def _accepted(header: str) -> str:
    """The first form in an Accept header that this server can give."""
    for media, options in clauses(header or "*/*"):
        form = options.get("as", "")
        if media in (well_known.JSON, "*/*", "application/*"):
            if form == "Table":
                return TABLE
            if form in ("PartialObjectMetadata", "PartialObjectMetadataList"):
                return PARTIAL
            if not form or form.startswith("APIGroup"):
                return JSON
        elif media in (well_known.YAML, "text/yaml") and not form:
            return YAML
    raise errors.not_acceptable()


# --- who sends it


class Gate:
    """Checks every request before anything else looks at it."""

    def __init__(self, settings: ServerSettings, registry: Registry) -> None:
        self._registry = registry
        self._header = f"bearer {registry.token}".encode()
        self._names = {*SERVICE_NAMES, *LOOPBACK, settings.host} - WILDCARDS
        self._any_address = settings.host in WILDCARDS
        self._known_host = lru_cache(maxsize=256)(self._is_known)

    def check(self, path: str, headers: dict[bytes, bytes]) -> User:
        """Who sends a request; 403 if the host is not one of ours, 401 if the token is missing or wrong."""
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
        if path == "/version" or is_health(path):
            return NOBODY
        raise errors.unauthorized()

    def _is_known(self, host: bytes) -> bool:
        found = _host(host.decode("latin-1").lower())
        if found is None:
            return False
        name = found["name"] or found["address"]
        return name in self._names or (self._any_address and is_address(name))


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
    account = users.account_name(name)
    if account is not None and not groups:
        groups = list(users.account_groups(account[0]))
    everyone = users.UNAUTHENTICATED if name == users.ANONYMOUS_USER else users.AUTHENTICATED
    if everyone not in groups and users.UNAUTHENTICATED not in groups:
        groups.append(everyone)
    return User(name, tuple(groups), uid, extra)


def _asked(name: str, groups: list[str], uid: str, extra: dict[str, list[str]]) -> Iterable[Attributes]:
    account = users.account_name(name)
    if account is not None:
        yield Attributes("impersonate", resource="serviceaccounts", namespace=account[0], name=account[1])
    else:
        yield Attributes("impersonate", resource="users", name=name)
    # The administrator's name gives all rights, so it takes the right to the masters' group as well.
    for group in groups if name != ADMIN.name else {*groups, users.MASTERS}:
        yield Attributes("impersonate", resource="groups", name=group)
    for key, values in extra.items():
        for value in values:
            yield Attributes("impersonate", users.AUTHENTICATION_GROUP, "userextras", key, name=value)
    if uid:
        yield Attributes("impersonate", users.AUTHENTICATION_GROUP, "uids", name=uid)
