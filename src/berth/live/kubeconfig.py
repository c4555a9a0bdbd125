"""Credentials that can be read without a library: an address, certificates, a token or a name and password.

Most kubeconfigs, and every pod's own account, are of this kind.  All others, and those with a mistake, are
left to kubernetes_asyncio, which takes long to import.
"""

from __future__ import annotations

import base64
import os
import re
import ssl
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from berth.kube.text.decoding import DecodeError, convert, without_nulls
from berth.sockets import url_host

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Data = Annotated[bytes, msgspec.Meta(min_length=1)]  # base64 in the file


class Access(msgspec.Struct, kw_only=True):
    """The address of a server, and credentials for it.

    Attributes:
        context: For https.
        server_hostname: The name that its certificate must have, if it is not the URL's host.
        proxy: The proxy's URL, if connections are made through one.
        authorization: What proves who we are, if it is not in a file.
        token_file: The file with the token, which is renewed there.
        impersonation: The header fields that impersonate another user.
    """

    server: str
    context: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    authorization: str | None = None
    token_file: Path | None = None
    impersonation: tuple[tuple[str, str], ...] = ()


def tls_context(authorities: Path | str | None = None, *, verified: bool = True) -> ssl.SSLContext:
    """TLS with a server of these authorities, in a file or as PEM, by default those the system trusts.

    The system's are read only if they are used, since that takes long.

    Raises:
        OSError: there is no certificate among them.
    """
    if not verified:
        return ssl._create_unverified_context()  # noqa: S323, SLF001 - as asked for
    try:
        if isinstance(authorities, str):
            return ssl.create_default_context(cadata=authorities)
        return ssl.create_default_context(cafile=authorities)
    except ssl.SSLError:
        raise OSError("the certificate-authority holds no certificate that can be read") from None


def prove_by_certificate(context: ssl.SSLContext, certificate: Path, key: Path | None) -> None:
    """Let a TLS context present a client certificate.

    Raises:
        OSError: they cannot be read, or are not a pair.
    """
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise OSError("client-certificate and client-key cannot be read, or are not a pair") from None


def of_account(environment: dict[str, str], folder: Path = ACCOUNT) -> Access:
    """A pod's own account.

    Raises:
        OSError: there is something wrong with it.
    """
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    token, authorities = folder / "token", folder / "ca.crt"
    # In the words of the library for this.
    for wrong, why in (
        (host is None or port is None, "Service host/port is not set."),
        (not host or not port, "Service host/port is set but empty."),
        (not token.is_file(), "Service token file does not exist."),
        (_is_empty(token), "Token file exists but empty."),
        (not authorities.is_file(), "Service certification file does not exists."),
        (_is_empty(authorities), "Cert file exists but empty."),
    ):
        if wrong:
            raise OSError(why)
    server = f"https://{url_host(host or '')}:{port}"
    return Access(server=server, context=tls_context(authorities), token_file=token)


def _is_empty(path: Path) -> bool:
    return path.is_file() and not path.stat().st_size


# --- kubeconfigs ----------------------------------------------------------------------------------


class _Config(msgspec.Struct, rename="kebab"):
    contexts: list[dict[str, Any]]
    clusters: list[dict[str, Any]]
    users: list[dict[str, Any]]
    current_context: str = ""


class _Context(msgspec.Struct):
    cluster: _Text
    user: _Text


class _Cluster(msgspec.Struct, rename="kebab"):
    server: Annotated[str, msgspec.Meta(pattern="^https?://")]
    tls_server_name: _Text | None = None
    proxy_url: _Text | None = None
    insecure_skip_tls_verify: bool = False
    certificate_authority: _Text | None = None
    certificate_authority_data: _Data | None = None


class _User(msgspec.Struct, rename="kebab"):
    token: _Text | None = None
    token_file: _Text | None = msgspec.field(default=None, name="tokenFile")
    username: _Text | None = None
    password: _Text | None = None
    client_certificate: _Text | None = None
    client_certificate_data: _Data | None = None
    client_key: _Text | None = None
    client_key_data: _Data | None = None
    # Those with a plugin or a provider are left to the library.
    exec: None = None
    auth_provider: None = None


class _Unusual(Exception):  # noqa: N818 - says what is the case, to nobody else
    pass


def of_kubeconfig(file: str, context: str | None = None) -> Access | None:
    """What a kubeconfig says; None if only the library can tell.

    Raises:
        OSError: a certificate cannot be used.
        ValueError: its impersonation settings are not valid.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        return None  # several files, say
    try:
        config = convert(without_nulls(_parsed(path.read_text())), _Config)
        chosen = convert(_named(config.contexts, context or config.current_context, "context"), _Context)
        cluster = convert(_named(config.clusters, chosen.cluster, "cluster"), _Cluster)
        said = _named(config.users, chosen.user, "user")
        access = _access(cluster, convert(said, _User), path.absolute().parent)
    except (_Unusual, DecodeError, UnicodeDecodeError):
        return None
    access.impersonation = impersonation(said)
    return access


def _parsed(text: str) -> object:
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # YAML can look like that, too
    import yaml  # noqa: PLC0415 - takes long

    try:
        # The C loader builds the same as `safe_load`, faster.
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError:
        raise _Unusual from None


def _named(entries: list[dict[str, Any]], name: str, inside: str) -> object:
    """The content of the entry with a name, which must be the only one."""
    found = [entry.get(inside) for entry in entries if entry.get("name") == name]
    if not name or len(found) != 1:
        raise _Unusual
    return found[0]


def _access(cluster: _Cluster, user: _User, folder: Path) -> Access:
    server = cluster.server.rstrip("/")
    access = Access(server=server, server_hostname=cluster.tls_server_name, proxy=cluster.proxy_url)
    if user.token:
        access.authorization = f"Bearer {user.token}"
    elif user.token_file:
        access.token_file = _existing(folder / user.token_file)
    elif user.username and user.password:
        name = f"{user.username}:{user.password}"
        access.authorization = f"Basic {base64.b64encode(name.encode()).decode()}"
    if server.startswith("https:"):
        access.context = _tls(cluster, user, folder)
    return access


def _tls(cluster: _Cluster, user: _User, folder: Path) -> ssl.SSLContext:
    authorities = _given(cluster.certificate_authority_data, cluster.certificate_authority, folder)
    trusted = authorities.decode("ascii", "replace") if isinstance(authorities, bytes) else authorities
    context = tls_context(trusted, verified=not cluster.insecure_skip_tls_verify)
    certificate = _given(user.client_certificate_data, user.client_certificate, folder)
    key = _given(user.client_key_data, user.client_key, folder)
    with _in_file(certificate) as certificate_file, _in_file(key) as key_file:
        if certificate_file is not None:
            prove_by_certificate(context, certificate_file, key_file)
    return context


def _given(data: bytes | None, file: str | None, folder: Path) -> Path | bytes | None:
    """Inline data, or else the path of a file with it."""
    if data is not None or file is None:
        return data
    return _existing(Path(os.path.normpath(folder / file)))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise _Unusual
    return path


def _in_file(content: Path | bytes | None) -> AbstractContextManager[Path | None]:
    if not isinstance(content, bytes):
        return nullcontext(content)
    from berth.files import in_a_file  # noqa: PLC0415 - not for those who have files

    return in_a_file(content)


# --- in whose name ----------------------------------------------------------------------------------
# As client-go does it, in transport/round_trippers.go.

# What a header cannot hold: blanks at its ends would be lost.
_UNSENDABLE = re.compile(r"^[ \t]|[ \t]$|[\x00-\x08\x0a-\x1f\x7f]")
_WITHOUT_USER = "its user has as-uid, as-groups or as-user-extra without as, the user to impersonate"
_LEGAL_IN_NAMES = "!#$&'*+^`|"  # besides letters, digits and -._~


class _Impersonation(msgspec.Struct, rename="kebab"):
    user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}


def impersonation(user: object) -> tuple[tuple[str, str], ...]:
    """The header fields by which the user of a kubeconfig asks in somebody else's name.

    Raises:
        ValueError: no user is named, or a value cannot be in a header.
    """
    asked = convert(without_nulls(user), _Impersonation)
    fields = [("Impersonate-Uid", asked.as_uid)] if asked.as_uid else []
    fields += [("Impersonate-Group", group) for group in asked.as_groups]
    for key, values in asked.as_user_extra.items():
        name = f"Impersonate-Extra-{quote(key, safe=_LEGAL_IN_NAMES)}"
        fields += [(name, value) for value in values]
    if asked.user:
        fields.insert(0, ("Impersonate-User", asked.user))
    elif fields:
        raise ValueError(
            "its user has as-uid, as-groups or as-user-extra without as, the user to impersonate"
        )
    for name, value in fields:
        if _UNSENDABLE.search(value):
            raise ValueError(f"its user impersonates {value!r}, which the header {name} cannot hold")
    return tuple(fields)
