"""Kubeconfigs that need no library are read without one, and the others are left to it."""

from __future__ import annotations

import base64
import datetime as dt
import json
import ssl
from pathlib import Path
from typing import Any

import pytest

from berth.certificates import self_signed
from berth.live.kubeconfig import of_account, of_kubeconfig, tls_context

SERVER = "https://api.test:6443"
CERTIFICATE, KEY = self_signed("api.test", ["api.test"], dt.datetime.now(dt.UTC))


def written(folder: Path, cluster: dict[str, Any], user: dict[str, Any] | None, **more: Any) -> str:
    users = [] if user is None else [{"name": "u", "user": user}]
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": f"{SERVER}/", **cluster}}],
        "users": users,
        **more,
    }
    (folder / "config").write_text(json.dumps(body, indent=1))
    return str(folder / "config")


def data(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({"token": "t"}, "Bearer t"),
        ({"username": "me", "password": "p w"}, f"Basic {data(b'me:p w')}"),
        ({"token": "t", "username": "me", "password": "p", "tokenFile": "gone"}, "Bearer t"),
        ({}, None),
    ],
)
def test_what_proves_who_we_are(user: dict[str, str], expected: str | None, tmp_path: Path) -> None:
    """A token before a name and a password; some servers want neither."""
    access = of_kubeconfig(written(tmp_path, {}, user))
    assert access is not None
    assert (access.server, access.authorization) == (SERVER, expected)


def test_yaml_and_json_say_the_same(tmp_path: Path) -> None:
    """Most kubeconfigs are YAML."""
    path = tmp_path / "config"
    path.write_text(
        "current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n"
        "clusters: [{name: k, cluster: {server: 'http://api.test'}}]\nusers: [{name: u, user: {token: t}}]\n"
    )
    access = of_kubeconfig(str(path))
    assert access is not None
    assert (access.server, access.authorization, access.context) == ("http://api.test", "Bearer t", None)


def test_paths_are_relative_to_the_file(tmp_path: Path) -> None:
    """Paths are relative to the kubeconfig, wherever the command runs."""
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE)
    access = of_kubeconfig(written(tmp_path, {"certificate-authority": "ca.crt"}, {"tokenFile": "token"}))
    assert access is not None
    assert access.token_file == tmp_path / "token"
    assert access.context is not None
    assert access.context.cert_store_stats()["x509"] == 1


def test_certificates_in_the_file_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are used as those in files are, and nothing of them stays behind."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    user = {"client-certificate-data": data(CERTIFICATE), "client-key-data": data(KEY)}
    access = of_kubeconfig(written(tmp_path, {"certificate-authority-data": data(CERTIFICATE)}, user))
    assert access is not None
    assert access.context is not None
    assert access.context.verify_mode == ssl.CERT_REQUIRED
    assert access.context.cert_store_stats()["x509"] == 1
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    ("cluster", "user", "why"),
    [
        ({"certificate-authority-data": data(b"none")}, {}, "certificate-authority holds no certificate"),
        ({}, {"client-certificate-data": data(b"none")}, "client-certificate and client-key cannot be read"),
        (
            {},
            {"client-certificate-data": data(CERTIFICATE), "client-key-data": data(CERTIFICATE)},
            "or are not a pair",
        ),
    ],
)
def test_a_certificate_that_is_none_is_an_error(
    cluster: dict[str, str], user: dict[str, str], why: str, tmp_path: Path
) -> None:
    """Nothing is guessed about credentials that are there, and the entry is named in which they are not."""
    with pytest.raises(OSError, match=why):
        of_kubeconfig(written(tmp_path, cluster, user))


def test_how_the_server_is_reached(tmp_path: Path) -> None:
    """Another name in its certificate, no certificate to be trusted, a proxy."""
    cluster = {
        "tls-server-name": "kubernetes",
        "insecure-skip-tls-verify": True,
        "proxy-url": "http://proxy.test:3128",
    }
    access = of_kubeconfig(written(tmp_path, cluster, {"token": "t"}))
    assert access is not None
    assert (access.server_hostname, access.proxy) == ("kubernetes", "http://proxy.test:3128")
    assert access.context is not None
    assert access.context.verify_mode == ssl.CERT_NONE


def test_another_context(tmp_path: Path) -> None:
    """It may be named instead of the current one."""
    more = [{"name": n, "context": {"cluster": "k", "user": u}} for n, u in (("c", "nobody"), ("d", "u"))]
    path = written(tmp_path, {}, {"token": "t"}, contexts=more)
    assert of_kubeconfig(path) is None
    assert of_kubeconfig(path, "d") is not None
    assert of_kubeconfig(path, "e") is None


@pytest.mark.parametrize(
    ("cluster", "user"),
    [
        ({}, {"exec": {"command": "x"}}),
        ({}, {"auth-provider": {"name": "oidc"}}),
        ({}, None),
        ({}, {"token": 7}),
        ({}, {"token": ""}),
        ({}, {"tokenFile": "gone"}),
        ({"server": "api.test"}, {"token": "t"}),
        ({"certificate-authority": "gone"}, {"token": "t"}),
        ({"certificate-authority-data": "%"}, {"token": "t"}),
        ({"insecure-skip-tls-verify": "yes"}, {"token": "t"}),
    ],
)
def test_what_is_left_to_the_library(
    cluster: dict[str, Any], user: dict[str, Any] | None, tmp_path: Path
) -> None:
    """Access that asks somebody else, or may be a mistake, is left to the library."""
    assert of_kubeconfig(written(tmp_path, cluster, user)) is None


@pytest.mark.parametrize(
    "text", ["", "[]", "{", "{a: b", "a: b: c", "\x00", "contexts: 7\ncurrent-context: c"]
)
def test_what_is_no_kubeconfig(text: str, tmp_path: Path) -> None:
    """The library says what is wrong with it."""
    (tmp_path / "config").write_text(text)
    assert of_kubeconfig(str(tmp_path / "config")) is None
    assert of_kubeconfig(f"{tmp_path}/config:{tmp_path}/config") is None


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        ({}, []),
        ({"as": "", "as-groups": [], "as-user-extra": None}, []),
        ({"as": "jane"}, [("Impersonate-User", "jane")]),
        (
            {
                "as": "jane",
                "as-uid": "7",
                "as-groups": ["devs", "ops"],
                "as-user-extra": {"why": ["a", "b"], "x.io/50% ü": ["so"]},
            },
            [
                ("Impersonate-User", "jane"),
                ("Impersonate-Uid", "7"),
                ("Impersonate-Group", "devs"),
                ("Impersonate-Group", "ops"),
                ("Impersonate-Extra-why", "a"),
                ("Impersonate-Extra-why", "b"),
                ("Impersonate-Extra-x.io%2F50%25%20%C3%BC", "so"),
            ],
        ),
    ],
)
def test_in_whose_name_is_asked(
    user: dict[str, Any], expected: list[tuple[str, str]], tmp_path: Path
) -> None:
    """A user's as, as-uid, as-groups and as-user-extra become the headers that kubectl sends."""
    access = of_kubeconfig(written(tmp_path, {}, {"token": "t", **user}))
    assert access is not None
    assert list(access.impersonation) == expected


@pytest.mark.parametrize(
    ("user", "why"),
    [
        ({"as-groups": ["devs"]}, "without as, the user to impersonate"),
        ({"as-uid": "7"}, "without as, the user to impersonate"),
        ({"as": "", "as-user-extra": {"why": ["so"]}}, "without as, the user to impersonate"),
        ({"as": "jane\r\nX: y"}, "which the header Impersonate-User cannot hold"),
        ({"as": "jane", "as-groups": [" devs"]}, "impersonates ' devs', which the header Impersonate-Group"),
        ({"as": ["jane"]}, "as: expected a string, got a list"),
        ({"as": "jane", "as-groups": "devs"}, "as-groups: expected a list"),
    ],
)
def test_nobody_is_impersonated_by_halves(user: dict[str, Any], why: str, tmp_path: Path) -> None:
    """What cannot be sent as it is written is refused; to leave it out would be to ask as somebody else."""
    with pytest.raises(ValueError, match=why):
        of_kubeconfig(written(tmp_path, {}, {"token": "t", **user}))


def test_the_account_of_a_pod(tmp_path: Path) -> None:
    """Its server is in the environment, its token and its authority in files."""
    environment = {"KUBERNETES_SERVICE_HOST": "fd00::1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(OSError, match=r"^Service token file does not exist\.$"):
        of_account(environment, tmp_path)
    (tmp_path / "token").write_text("t")
    (tmp_path / "ca.crt").touch()
    with pytest.raises(OSError, match=r"^Cert file exists but empty\.$"):
        of_account(environment, tmp_path)
    (tmp_path / "ca.crt").write_bytes(CERTIFICATE)
    access = of_account(environment, tmp_path)
    assert (access.server, access.token_file) == ("https://[fd00::1]:443", tmp_path / "token")
    with pytest.raises(OSError, match=r"^Service host/port is not set\.$"):
        of_account({}, tmp_path)


def test_authorities_are_not_read_in_vain() -> None:
    """Who checks no certificate needs none to check it by."""
    assert tls_context(verified=False).cert_store_stats()["x509"] == 0
