"""Limits in bytes and in seconds: heads of requests, half-sent requests, names in metrics, hosts."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest

from berth.server import connections
from berth.server.http import bodies
from berth.server.settings import HEAD_LIMIT
from tests.support.api.client import PODS, Client
from tests.support.api.objects import config_map, pod


def raw(client: Client) -> ssl.SSLSocket:
    """A connection on which anything may be sent."""
    url = urlsplit(client.prepared.url)
    context = ssl.create_default_context(cafile=str(client.prepared.ca_file))
    plain = socket.create_connection((url.hostname or "", url.port or 0), timeout=60)
    return context.wrap_socket(plain, server_hostname=url.hostname)


def head(
    client: Client, *lines: str, method: str = "GET", path: str = PODS, host: str = "localhost"
) -> bytes:
    token = f"Authorization: Bearer {client.prepared.token}"
    return "\r\n".join((f"{method} {path} HTTP/1.1", f"Host: {host}", token, *lines)).encode()


def answer(client: Client, request: bytes) -> bytes:
    """All that comes back until the server closes, or has answered."""
    with raw(client) as connection:
        connection.sendall(request)
        return connection.recv(65536)


@pytest.mark.parametrize(
    "lines",
    [[f"X-Long: {'x' * HEAD_LIMIT}"], [f"X-{i}: {'x' * 100}" for i in range(1000)]],
    ids=["one", "many"],
)
def test_heads_have_a_size(client: Client, lines: list[str]) -> None:
    """Headers that are too long or too many are refused."""
    assert answer(client, head(client, *lines, "", "")).startswith(b"HTTP/1.1 431 ")


def test_paths_have_a_size(client: Client) -> None:
    """A path that is too long is refused, also one that has not ended yet."""
    assert answer(client, head(client, "", "", path="/" + "a" * HEAD_LIMIT)).startswith(b"HTTP/1.1 431 ")
    assert answer(client, b"GET /" + b"a" * 4 * HEAD_LIMIT).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize(
    "sent",
    [
        lambda _: b"",
        lambda _: b"GET /hea",
        lambda client: head(client, "X-A: b"),
    ],
    ids=["nothing", "half a line", "half a head"],
)
def test_half_sent_heads_are_given_up(
    client: Client, monkeypatch: pytest.MonkeyPatch, sent: Callable[[Client], bytes]
) -> None:
    """A connection on which no request arrives is closed, whatever was sent instead."""
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    with raw(client) as connection:
        connection.sendall(sent(client))
        while connection.recv(65536):
            pass


def test_blank_lines_keep_no_connection(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that was kept for another request is closed if something else is sent on it."""
    monkeypatch.setattr(connections, "_HEAD_SECONDS", 0.3)
    with raw(client) as connection:
        connection.sendall(head(client, "", "", path="/healthz"))
        assert connection.recv(65536)
        connection.sendall(b"\r\n")
        while connection.recv(65536):
            pass


def test_half_sent_bodies_are_given_up(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that does not arrive is not waited for."""
    monkeypatch.setattr(bodies, "_SECONDS", 0.3)
    request = head(client, "Content-Type: application/json", "Content-Length: 100", "", "{", method="POST")

    assert answer(client, request).startswith(b"HTTP/1.1 408 ")


def test_answers_that_nobody_reads_are_given_up(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A client that does not read its answer is not waited for."""
    monkeypatch.setattr(connections, "_READING_SECONDS", 0.3)
    for i in range(16):
        client.made(f"{space}/configmaps", config_map(f"large-{i}", k="x" * 1_000_000))
    request = head(client, "Connection: close", "", "", path=f"{space}/configmaps")
    assert any(_read_after(client, request, seconds) < 16_000_000 for seconds in (2, 4, 8, 16, 32))


def _read_after(client: Client, request: bytes, seconds: float) -> int:
    """How many bytes of an answer there are for who begins to read late."""
    size = 0
    with raw(client) as connection, contextlib.suppress(OSError):
        connection.sendall(request)
        time.sleep(seconds)
        while data := connection.recv(1 << 20):
            size += len(data)
    return size


@pytest.mark.parametrize(
    "host",
    [
        "[::1].evil.com",
        "[::1]evil.com",
        "127.0.0.1:80@evil.com",
        "127.0.0.1:evil",
        "localhost/evil",
        "localhost\\@evil.com",
        "localhost evil.com",
        "localhost#",
        "localhost,evil.com",
        "[127.0.0.1",
        "[127.0.0.1]",
        "[localhost]",
        "",
    ],
)
def test_hosts_that_look_like_ours(client: Client, host: str) -> None:
    """Only a name or an address, with a port or without, is taken for one."""
    assert answer(client, head(client, "", "", host=host)).split()[1] in (b"400", b"403")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:6443", "127.0.0.1", "[::1]:6443", "kubernetes.default.svc"]
)
def test_our_hosts(client: Client, host: str) -> None:
    """The names that the server has are taken in any spelling."""
    assert answer(client, head(client, "", "", host=host)).startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    ("target", "host", "code"),
    [
        ("https://localhost/healthz", "localhost", b"200"),
        ("https://localhost/healthz", "evil.com", b"200"),
        ("http://evil.com/healthz", "localhost", b"403"),
        ("http://evil.com?x", "localhost", b"400"),
        ("https://localhost@evil.com/healthz", "localhost", b"403"),
        ("*", "localhost", b"404"),
    ],
)
def test_targets_that_are_whole_urls(client: Client, target: str, host: str, code: bytes) -> None:
    """The host that a target names counts instead of the header; a star is nowhere."""
    assert answer(client, head(client, "", "", path=target, host=host)).split()[1] == code


def test_two_hosts(client: Client) -> None:
    """Who says two names is not believed either, whichever comes first."""
    for first, second in (("localhost", "evil.com"), ("evil.com", "localhost"), ("localhost", "localhost")):
        request = head(client, f"Host: {second}", "", "", host=first)
        assert answer(client, request).split()[1] in (b"400", b"403")


@pytest.mark.parametrize("protocol", ["websocket", "SPDY/3.1"])
def test_other_protocols(client: Client, caplog: pytest.LogCaptureFixture, protocol: str) -> None:
    """Who asks for one is answered as if he had not, and nobody is warned of it."""
    wanted = ("Connection: Upgrade", f"Upgrade: {protocol}", "", "")
    assert answer(client, head(client, *wanted)).startswith(b"HTTP/1.1 200 ")
    assert [record.message for record in caplog.records if "pgrade" in record.message] == []


def test_names_in_metrics_are_bounded(client: Client) -> None:
    """What anybody asks for is no label: only resources that are served are."""
    for i in range(20):
        client.send("GET", f"/api/v1/wonder{i}", headers={"Authorization": "Bearer no"})
        client.get(f"/apis/wonder{i}.example.com/v1/wonder{i}")
        client.send(f"WONDER{i}", PODS)
        client.close()

    assert b"wonder" not in client.get("/metrics").body.lower()


def test_a_slow_watcher_is_cut_off(client: Client, space: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that does not read its watch is let go before what it has not read fills the memory."""
    monkeypatch.setattr("berth.server.http.watching._BUFFER_BYTES", 200_000)
    monkeypatch.setattr("berth.server.http.watching._LAST_WORDS", 0.1)
    with client.watching(f"{space}/pods"):
        watched = b"apiserver_longrunning_requests 1.0"
        assert watched in client.get("/metrics").body
        client.made(
            f"{space}/pods", {**pod("a"), "metadata": {"name": "a", "annotations": {"x": "y" * 150_000}}}
        )
        for i in range(200):
            client.patch(f"{space}/pods/a", {"metadata": {"labels": {"n": str(i)}}})
            if watched not in client.get("/metrics").body:
                return
        time.sleep(1)
        assert watched not in client.get("/metrics").body


def test_answers_are_the_same_whether_sent_at_once_or_not(client: Client, space: str) -> None:
    """Requests without a pause between them, one of them without a body, get the usual answers."""
    client.made(f"{space}/configmaps", config_map("a", key="value"))
    path = f"{space}/configmaps/a"
    told = client.get(path).body
    plain = head(client, "", "", path=path)
    requests = [
        plain,
        plain,
        head(client, "", "", method="HEAD", path=path),
        head(client, "Connection: close", "", "", path=path),
    ]
    with raw(client) as connection:
        connection.sendall(b"".join(requests))
        answered = b"".join(iter(lambda: connection.recv(65536), b""))
    begin = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\ncontent-type: application/json\r\n" % len(told)
    assert answered == begin + b"\r\n" + told + begin + b"\r\n" + told + begin + b"\r\n" + (
        begin + b"connection: close\r\n\r\n" + told
    )
