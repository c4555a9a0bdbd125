"""Clients for the places people keep their credentials in: a kubeconfig, or a pod's service account.

kubernetes_asyncio gets credentials from exec plugins and OpenID providers, and says what is wrong with a
kubeconfig. It is imported only here, when needed, and without its generated models: nothing uses them, and
importing them takes long.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import logging
import os
import sys
import time
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from berth.live.client import Client
from berth.live.http.transport import Transport
from berth.live.kubeconfig import (
    ACCOUNT,
    Access,
    impersonation,
    of_account,
    of_kubeconfig,
    prove_by_certificate,
    tls_context,
)

_log = logging.getLogger(__name__)
HOME = Path("~/.kube/config")
# How often credentials that can run out are looked at.
RENEW_SECONDS = 30.0
# However often they are rejected, they are not renewed more often than this.
LEAST_SECONDS = 1.0


class ConnectionSettingsError(Exception):
    """The credentials cannot be used; the message is a sentence for the user."""


async def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    *,
    compressed: bool = True,
) -> Client:
    """A client for a kubeconfig, by default the user's, or inside a pod without one the pod's own account.

    Lists come `compressed` if servers do so: less to send, but more to do for both.

    Raises:
        ConnectionSettingsError: there is none, or it cannot be used.
    """
    path = None if kubeconfig is None and in_cluster() else existing(kubeconfig)
    try:
        if path is None:
            return _client(of_account(dict(os.environ)), compressed=compressed)
        access = of_kubeconfig(path, context)
        if access is not None:
            return _client(access, compressed=compressed)
        return await _by_library(path, context, compressed=compressed)
    except (OSError, ValueError) as error:
        raise ConnectionSettingsError(f"{path or 'service account'}: {_why(error, context)}") from error


async def _by_library(path: str, context: str | None, *, compressed: bool) -> Client:
    with _without_models():
        from kubernetes_asyncio import config  # noqa: PLC0415
        from kubernetes_asyncio.client.configuration import Configuration  # noqa: PLC0415
        from kubernetes_asyncio.config.config_exception import ConfigException  # noqa: PLC0415
    from yaml import YAMLError  # noqa: PLC0415

    configuration = Configuration()
    try:
        loader = await config.load_kube_config(path, context=context, client_configuration=configuration)
    except (ConfigException, YAMLError) as error:
        raise ValueError(str(error)) from error
    except (AttributeError, LookupError, TypeError) as error:  # the library does not check what it reads
        raise ValueError("it is not a kubeconfig") from error
    authorities = configuration.ssl_ca_cert
    tls = tls_context(Path(authorities) if authorities else None, verified=configuration.verify_ssl)
    if configuration.cert_file:
        key = configuration.key_file
        prove_by_certificate(tls, Path(configuration.cert_file), Path(key) if key else None)
    access = Access(
        server=configuration.host or "",
        context=tls,
        server_hostname=configuration.tls_server_name,
        proxy=configuration.proxy,
        impersonation=impersonation(_user_of(loader)),
    )
    return _client(access, _Credentials(configuration, loader), compressed=compressed)


def _client(access: Access, credentials: _Credentials | None = None, *, compressed: bool) -> Client:
    transport = Transport(
        access.server,
        access.context,
        server_hostname=access.server_hostname,
        proxy=access.proxy or _proxy_from_environment(access.server),
        compressed=compressed,
        fields=access.impersonation,
    )
    proof = credentials or _Token(access)
    return Client(transport, access.server, proof.headers, rejected=proof.rejected)


@contextmanager
def _without_models() -> Iterator[None]:
    """Let kubernetes_asyncio be imported without the models and APIs that its packages import.

    Afterwards the stand-ins are gone: a later import gets the whole library.
    """
    packages = ("kubernetes_asyncio", "kubernetes_asyncio.client")
    spec = None if packages[0] in sys.modules else importlib.util.find_spec(packages[0])
    if spec is None or not spec.submodule_search_locations:
        yield
        return
    folder = Path(spec.submodule_search_locations[0])
    for name, path in zip(packages, (folder, folder / "client"), strict=True):
        module = types.ModuleType(name)
        module.__path__ = [str(path)]
        sys.modules[name] = module
    try:
        client: Any = sys.modules[packages[1]]
        client.Configuration = importlib.import_module(
            "kubernetes_asyncio.client.configuration"
        ).Configuration
        client.ApiClient = object  # named by its kubeconfig loader, which makes none for us
        yield
    finally:
        for name in packages:
            sys.modules.pop(name, None)


class _Token:
    """A bearer token; one in a file is read again every so often, since it is renewed there."""

    def __init__(self, access: Access) -> None:
        self._file = access.token_file
        self._headers = {"Authorization": access.authorization} if access.authorization else {}
        self._read_at = self._due = 0.0
        if self._file is not None:
            self._read(self._file)

    def rejected(self) -> None:
        """Read the token again next time: the server has rejected it."""
        if time.monotonic() - self._read_at >= LEAST_SECONDS:
            self._due = 0.0

    async def headers(self) -> dict[str, str]:
        if self._file is not None and time.monotonic() >= self._due:
            try:
                self._read(self._file)
            except (OSError, ValueError) as error:  # the old token may still be good
                _log.warning("credentials could not be renewed: %s", error)
        return self._headers

    def _read(self, file: Path) -> None:
        self._read_at = time.monotonic()
        self._due = self._read_at + RENEW_SECONDS
        self._headers = {"Authorization": f"Bearer {file.read_text().strip()}"}


def _user_of(loader: Any) -> dict[str, Any]:  # noqa: ANN401 - it has no types
    """What a kubeconfig says of its user; a context may have none."""
    said: dict[str, Any] = getattr(loader._user, "value", {})  # noqa: SLF001
    return said


class _Credentials:
    """Credentials of a kubeconfig, renewed before they expire: from token files, plugins and providers."""

    def __init__(self, configuration: Any, loader: Any) -> None:  # noqa: ANN401 - it has no types
        self._configuration = configuration
        self._loader = loader
        self._renewed = time.monotonic()
        self._due = self._renewed + RENEW_SECONDS
        self._renewing = asyncio.Lock()
        self._headers: dict[str, str] | None = None

    def rejected(self) -> None:
        """Get new ones next time, whatever their expiry says: the server has rejected these."""
        if time.monotonic() - self._renewed >= LEAST_SECONDS:
            self._due = 0.0
            self._loader.__dict__.pop("exec_plugin_expiry", None)

    async def headers(self) -> dict[str, str]:
        if time.monotonic() >= self._due:
            await self._renew()
            self._headers = None
        if self._headers is None:
            settings = await self._configuration.auth_settings()
            self._headers = {
                entry["key"]: entry["value"] for entry in settings.values() if entry["in"] == "header"
            }
        return self._headers

    async def _renew(self) -> None:
        async with self._renewing:
            if time.monotonic() < self._due:
                return  # another request just renewed them
            forced = self._due == 0.0
            self._renewed = time.monotonic()
            self._due = self._renewed + RENEW_SECONDS
            lasting = "exec" in _user_of(self._loader) and not hasattr(self._loader, "exec_plugin_expiry")
            if lasting and not forced:
                return  # the plugin gave no expiry, so they are good until rejected
            try:
                await self._loader.load_and_set(self._configuration)
            except Exception as error:  # noqa: BLE001 - the old credentials may still be good
                _log.warning("credentials could not be renewed: %s", error)


def _proxy_from_environment(url: str) -> str | None:
    if sys.platform == "linux" and not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    import urllib.request  # noqa: PLC0415 - takes long, and other systems keep proxies elsewhere

    parts = urlsplit(url)
    if not parts.hostname or urllib.request.proxy_bypass(parts.netloc):
        return None
    return urllib.request.getproxies().get(parts.scheme)


def existing(kubeconfig: str | Path | None = None) -> str:
    """The file, or the files with colons between them, as kubectl finds them: the one given, or the user's.

    Raises:
        ConnectionSettingsError: there is none.
    """
    given = str(kubeconfig) if kubeconfig else os.environ.get("KUBECONFIG")
    found = given or str(HOME)
    if any(Path(path).expanduser().is_file() for path in found.split(os.pathsep) if path):
        return found if given else str(HOME.expanduser())
    if not given:
        raise ConnectionSettingsError(
            f"there is no kubeconfig: $KUBECONFIG is not set, and {HOME} does not exist; "
            "name one with --kubeconfig"
        )
    source = "" if kubeconfig else " (so says $KUBECONFIG)"
    raise ConnectionSettingsError(f"{given}{source}: no such file")


def _why(error: Exception, context: str | None) -> str:
    """The library's error about a kubeconfig, as a sentence that says what to do."""
    text = " ".join(str(error).split()).removeprefix("Invalid kube-config file. ")
    if text.startswith("Expected key current-context"):
        return "it has no current-context; choose one with --context"
    name, of_list, kind = text.removeprefix("Expected object with name ").rpartition(" in ")
    if of_list and kind.endswith("/contexts list"):
        listed = "'kubectl config get-contexts' lists those it has"
        whose = "" if context else ", its current-context"
        return f"it has no context {name}{whose}; {listed}"
    return text


def in_cluster() -> bool:
    """Whether this is a pod with an account of its own."""
    return (ACCOUNT / "token").is_file()
