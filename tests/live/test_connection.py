"""Credentials that run out are renewed, without a restart and without asking at every request."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from berth.live import connection
from berth.live.client import Client
from berth.live.connection import ConnectionSettingsError, connect
from berth.live.errors import Unauthorized
from tests.live.kubeconfigs import kubeconfig

PLUGIN = """\
import json, pathlib
count = pathlib.Path({count!r})
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
status = {{"token": f"token-{{number}}", **{more}}}
version = "client.authentication.k8s.io/v1"
print(json.dumps({{"apiVersion": version, "kind": "ExecCredential", "status": status}}))
"""
NOBODY = "its user has as-uid, as-groups or as-user-extra without as, the user to impersonate"


@asynccontextmanager
async def server(accepted: set[str], seen: list[str]) -> AsyncIterator[str]:
    async def answer(request: web.Request) -> web.Response:
        token = request.headers.get("Authorization", "").removeprefix("Bearer ")
        seen.append(token)
        return web.json_response({}, status=200 if token in accepted else 401)

    async with serving(answer) as url:
        yield url


@asynccontextmanager
async def serving(answer: Callable[[web.Request], Awaitable[web.Response]]) -> AsyncIterator[str]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def plugin(folder: Path, more: str = "{}") -> dict[str, Any]:
    script = folder / "plugin.py"
    script.write_text(PLUGIN.format(count=str(folder / "count"), more=more))
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
    return {"exec": command}


@asynccontextmanager
async def given(folder: Path, url: str, user: dict[str, Any]) -> AsyncIterator[Client]:
    async with await connect(kubeconfig(folder, url, user)) as client:
        yield client


async def ask(client: Client) -> bool:
    try:
        await client.request("GET", "/api")
    except Unauthorized:
        return False
    return True


@pytest.mark.parametrize("given_by", ["flag", "variable", "nobody"])
def test_a_kubeconfig_that_is_not_there(
    given_by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """One sentence that says where it was looked for, and nothing else is said."""
    missing = tmp_path / "none"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("KUBECONFIG", str(missing) if given_by == "variable" else "")
    told = {
        "flag": f"{missing}: no such file",
        "variable": f"{missing} (so says $KUBECONFIG): no such file",
        "nobody": "there is no kubeconfig: $KUBECONFIG is not set, and ~/.kube/config does not exist; "
        "name one with --kubeconfig",
    }
    with pytest.raises(ConnectionSettingsError) as raised:
        asyncio.run(connect(missing if given_by == "flag" else None))
    assert str(raised.value) == told[given_by]
    assert caplog.records == []


def test_a_plugin_is_asked_again_when_its_token_is_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token without an end is kept until then: plugins may take seconds, or a person."""
    monkeypatch.setattr(connection, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(connection, "RENEW_SECONDS", 0.0)

    async def story() -> None:
        accepted, seen = {"token-1"}, list[str]()
        async with server(accepted, seen) as url, given(tmp_path, url, plugin(tmp_path)) as client:
            assert [await ask(client) for _ in range(3)] == [True, True, True]
            accepted.clear()
            accepted.add("token-2")
            assert [await ask(client), await ask(client)] == [False, True]
        assert seen == ["token-1"] * 4 + ["token-2"]

    asyncio.run(story())


def test_a_token_with_an_end_is_renewed_before_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token that has run out is renewed before it is used."""
    monkeypatch.setattr(connection, "RENEW_SECONDS", 0.0)

    async def story() -> None:
        seen: list[str] = []
        ended = '{"expirationTimestamp": "2020-01-01T00:00:00Z"}'
        async with (
            server({"token-1", "token-2", "token-3"}, seen) as url,
            given(tmp_path, url, plugin(tmp_path, ended)) as client,
        ):
            assert await ask(client)
        assert seen == ["token-2"]

    asyncio.run(story())


def test_a_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token file that changes is read again."""
    monkeypatch.setattr(connection, "RENEW_SECONDS", 0.0)

    async def story() -> None:
        seen: list[str] = []
        token = tmp_path / "token"
        token.write_text("first")
        async with (
            server({"first", "second"}, seen) as url,
            given(tmp_path, url, {"tokenFile": str(token)}) as client,
        ):
            assert await ask(client)
            token.write_text("second")
            assert await ask(client)
        assert seen == ["first", "second"]

    asyncio.run(story())


def test_a_plugin_that_fails_leaves_what_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A credential plugin that fails leaves the last token in use."""
    monkeypatch.setattr(connection, "LEAST_SECONDS", 0.0)

    async def story() -> None:
        seen: list[str] = []
        async with server(set(), seen) as url, given(tmp_path, url, plugin(tmp_path)) as client:
            (tmp_path / "plugin.py").write_text("raise SystemExit(1)")
            assert [await ask(client), await ask(client)] == [False, False]
        assert seen == ["token-1", "token-1"]

    asyncio.run(story())


@pytest.mark.parametrize("asks", [False, True], ids=["token", "plugin"])
def test_no_more_is_imported_than_is_needed(tmp_path: Path, *, asks: bool) -> None:
    """A token needs no library, a plugin none of its models; whoever wants them has them all the same."""
    config = kubeconfig(tmp_path, "http://127.0.0.1:1", plugin(tmp_path) if asks else {"token": "token-1"})
    script = f"""
import asyncio, sys
from berth.live.connection import connect
async def main():
    async with await connect({str(config)!r}) as client:
        return await client._headers()
assert list(asyncio.run(main()).values()) == ["Bearer token-1"]
assert not [name for name in sys.modules if name.startswith("kubernetes_asyncio.client.models")]
assert {asks} or not {{"aiohttp", "kubernetes_asyncio", "email", "urllib.request", "yaml"}} & set(sys.modules)
from kubernetes_asyncio import client, config
assert client.V1Pod and client.ApiClient and client.Configuration and config.load_kube_config
"""
    subprocess.run([sys.executable, "-c", script], check=True)  # noqa: S603


@pytest.mark.parametrize(
    ("server", "user", "why"),
    [
        ("api.test:6443", {"token": "t"}, "api.test:6443 is not the URL of an HTTP server"),
        ("https://api.test", {"tokenFile": "/none"}, "[Errno 2] No such file or directory: '/none'"),
        ("https://api.test", {"client-certificate": "/none"}, "File does not exists: /none"),
        ("https://api.test", {"exec": {}}, "exec: malformed request. missing key 'command'"),
        ("https://api.test", {"token": "t", "as-groups": ["devs"]}, NOBODY),
        ("https://api.test", {"auth-provider": {"name": "other"}, "as-uid": "7"}, NOBODY),
    ],
)
def test_credentials_that_cannot_be_used(server: str, user: dict[str, Any], why: str, tmp_path: Path) -> None:
    """One sentence, and which file it is about."""
    path = kubeconfig(tmp_path, server, user)
    with pytest.raises(ConnectionSettingsError) as raised:
        asyncio.run(connect(path))
    assert str(raised.value) == f"{path}: {why}"


@pytest.mark.parametrize("asks", [False, True], ids=["token", "plugin"])
def test_every_request_is_in_the_name_of_another(tmp_path: Path, *, asks: bool) -> None:
    """Whoever gives out the credentials, each of the groups is a header field of its own."""
    seen: list[list[str]] = []

    async def answer(request: web.Request) -> web.Response:
        seen.append([f"{name}: {value}" for name, value in request.headers.items() if name[:3] == "Imp"])
        return web.json_response({})

    async def story() -> None:
        user = plugin(tmp_path) if asks else {"token": "t"}
        wanted = {"as": "jane", "as-groups": ["devs", "ops"], "as-user-extra": {"why": ["so"]}}
        async with serving(answer) as url, given(tmp_path, url, {**user, **wanted}) as client:
            assert await ask(client)
            assert await ask(client)

    asyncio.run(story())
    named = ["Impersonate-User: jane", "Impersonate-Group: devs", "Impersonate-Group: ops"]
    assert seen == [[*named, "Impersonate-Extra-why: so"]] * 2


def test_a_context_without_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks as nobody, for as long as it runs: there is nothing to renew."""
    monkeypatch.setattr(connection, "RENEW_SECONDS", 0.0)

    async def story() -> None:
        async with server({""}, []) as url:
            path = kubeconfig(tmp_path, url)
            path.write_text(path.read_text().replace('"user": "u"', '"user": "nobody"'))
            async with await connect(path) as client:
                assert await ask(client)

    asyncio.run(story())
