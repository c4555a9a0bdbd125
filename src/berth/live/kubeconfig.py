"""Credentials that can be read without a library: an address, certificates, a token or a name and password.

Most kubeconfigs, and every pod's own account, are of this kind.  Whatever is not is left to who knows it, and
so is what is wrong with one: the library for that takes as long to import as a good part of Berth.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from berth.sockets import url_host

ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
# What asks somebody else for credentials.
_ASKS = ("exec", "auth-provider")


class Access(msgspec.Struct, kw_only=True):
    """Where a server is, and what it takes to be let in.

    Attributes:
        context: For https.
        server_hostname: Whom its certificate is to be of, if not the URL's host.
        proxy: The URL of one to go by.
        authorization: What proves who we are, if it is not in a file.
        token_file: Where the token is, which may be another one later.
    """

    server: str
    context: ssl.SSLContext | None = None
    server_hostname: str | None = None
    proxy: str | None = None
    authorization: str | None = None
    token_file: Path | None = None


def tls_context(authorities: Path | str | None = None, *, verified: bool = True) -> ssl.SSLContext:
    """TLS with a server of these authorities, in a file or as PEM, by default those the system trusts.

    Reading the system's takes long, so it is not done in vain.

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


def prove_by_certificate(context: ssl.SSLContext, certificate: Path | None, key: Path | None) -> None:
    """Let a TLS context present a client certificate, if there is one.

    Raises:
        OSError: they cannot be read, or are not a pair.
    """
    if certificate is None:
        return
    try:
        context.load_cert_chain(certificate, key)
    except ssl.SSLError:
        raise OSError("client-certificate and client-key cannot be read, or are not a pair") from None


def of_account(environment: dict[str, str], folder: Path = ACCOUNT) -> Access | None:
    """A pod's own account; None if there is something wrong with it."""
    host, port = (environment.get(f"KUBERNETES_SERVICE_{name}") for name in ("HOST", "PORT"))
    token, authorities = folder / "token", folder / "ca.crt"
    if not host or not port or not _filled(token) or not _filled(authorities):
        return None
    server = f"https://{url_host(host)}:{port}"
    return Access(server=server, context=tls_context(authorities), token_file=token)


def _filled(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def of_kubeconfig(file: str, context: str | None = None) -> Access | None:
    """What a kubeconfig says; None if it takes more to be sure of it.

    Raises:
        OSError: a certificate cannot be used.
    """
    path = Path(file).expanduser()
    if not path.is_file():
        return None  # several files, say
    try:
        return _read(_parsed(path.read_text()), path.absolute().parent, context)
    except (_Unusual, UnicodeDecodeError):
        return None


class _Unusual(Exception):  # noqa: N818 - says what is the case, to nobody else
    pass


def _parsed(text: str) -> object:
    if text.startswith("{"):
        try:
            return msgspec.json.decode(text)
        except msgspec.DecodeError:
            pass  # YAML can look like that, too
    import yaml  # noqa: PLC0415 - takes long

    try:
        # What is built is the same as by `safe_load`.
        return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.YAMLError:
        raise _Unusual from None


def _read(config: object, folder: Path, context: str | None) -> Access:
    chosen = _named(config, "contexts", context or _text(config, "current-context"), "context")
    cluster = _named(config, "clusters", _text(chosen, "cluster"), "cluster")
    user = _named(config, "users", _text(chosen, "user"), "user")
    server = _text(cluster, "server").rstrip("/")
    if not server.startswith(("http://", "https://")) or any(name in user for name in _ASKS):
        raise _Unusual
    access = Access(server=server)
    access.server_hostname = _optional(cluster, "tls-server-name")
    access.proxy = _optional(cluster, "proxy-url")
    if token := _optional(user, "token"):
        access.authorization = f"Bearer {token}"
    elif "token" not in user and (token_file := _optional(user, "tokenFile")):
        access.token_file = _existing(folder / token_file)
    elif "username" in user and "password" in user:
        name = f"{_text(user, 'username')}:{_text(user, 'password')}"
        access.authorization = f"Basic {base64.b64encode(name.encode()).decode()}"
    if server.startswith("https:"):
        access.context = _tls(cluster, user, folder)
    return access


def _tls(cluster: dict[str, Any], user: dict[str, Any], folder: Path) -> ssl.SSLContext:
    skips = cluster.get("insecure-skip-tls-verify", False)
    if not isinstance(skips, bool):
        raise _Unusual
    authorities = _file_or_data(cluster, "certificate-authority", folder)
    trusted = authorities.decode("ascii", "replace") if isinstance(authorities, bytes) else authorities
    context = tls_context(trusted, verified=not skips)
    certificate, key = (_file_or_data(user, name, folder) for name in ("client-certificate", "client-key"))
    if certificate is not None:
        _in_file(
            certificate,
            lambda first: _in_file(key, lambda second: prove_by_certificate(context, first, second)),
        )
    return context


def _in_file(content: Path | bytes | None, use: Callable[[Path | None], None]) -> None:
    """Have something in a file for as long as it is used: OpenSSL reads nothing else, and keys are secret."""
    if not isinstance(content, bytes):
        use(content)
        return
    import tempfile  # noqa: PLC0415 - not for those who have files

    with tempfile.NamedTemporaryFile() as file:
        file.write(content)
        file.flush()
        use(Path(file.name))


def _file_or_data(entry: dict[str, Any], name: str, folder: Path) -> Path | bytes | None:
    """What is written there, or else where it is."""
    data = f"{name}-data"
    if data in entry:
        try:
            found = base64.b64decode(_text(entry, data))
        except (binascii.Error, ValueError):
            raise _Unusual from None
        if not found:
            raise _Unusual
        return found
    file = _optional(entry, name)
    return None if file is None else _existing(Path(os.path.normpath(folder / file)))


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise _Unusual
    return path


def _named(config: object, kind: str, name: str, inside: str) -> dict[str, Any]:
    """What the only entry of a name says."""
    entries = config.get(kind) if isinstance(config, dict) else None
    if not isinstance(entries, list):
        raise _Unusual
    found = [entry for entry in entries if isinstance(entry, dict) and entry.get("name") == name]
    if len(found) != 1 or not isinstance(found[0].get(inside), dict):
        raise _Unusual
    said: dict[str, Any] = found[0][inside]
    return said


def _text(entry: object, name: str) -> str:
    found = entry.get(name) if isinstance(entry, dict) else None
    if not isinstance(found, str) or not found:
        raise _Unusual
    return found


def _optional(entry: dict[str, Any], name: str) -> str | None:
    return _text(entry, name) if name in entry else None
