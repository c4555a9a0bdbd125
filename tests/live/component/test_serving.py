"""A component shows its health to everyone, and its metrics to those who may see them."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import json
import signal
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge

from berth.certificates import self_signed
from berth.files import write_private
from berth.live.client import Client
from berth.live.component import serving
from berth.live.component.endpoint import ServingSettings
from berth.live.component.serving import Checks, Reviewer, serve
from berth.sockets import ServingError
from tests.support.api.client import Client as ServerClient
from tests.support.api.fake import FakeApi, Raw
from tests.support.api.fake import serving as serving_api
from tests.support.api.servers import running_server

PASSED = "[+]ping ok\n[+]leaderElection ok\n"
WARNING = 'warn: some health checks cannot be excluded: no matches for "x"\n'
EVERYWHERE = "0.0.0.0"  # noqa: S104 - a test of what is open to others


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerClient]:
    with running_server(tmp_path_factory.mktemp("server")) as client:
        yield client


class Component:
    """What a test sees of one."""

    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self.content_type = ""
        self._session = session

    async def get(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        url = f"https://127.0.0.1:{self.port}{path}"
        async with self._session.request(method, url, headers=headers) as response:
            self.content_type = response.headers["content-type"]
            return response.status, await response.text()

    async def status(self, path: str, **headers: str) -> int:
        return (await self.get(path, **headers))[0]


@asynccontextmanager
async def component(
    checks: Checks | None = None,
    *,
    client: Client | None = None,
    live: Checks | None = None,
    **settings: Any,
) -> AsyncIterator[Component]:
    registry = CollectorRegistry()
    Counter("scheduler_schedule_attempts", "Attempts.", ("result",), registry=registry).labels("ok").inc()
    Gauge("loop_running", "Read in the loop.", registry=registry).set_function(
        lambda: float(asyncio.get_running_loop().is_running())
    )
    connector = aiohttp.TCPConnector(ssl=False)
    async with (
        serve(ServingSettings(**settings), checks or {}, registry, client, live_checks=live) as port,
        aiohttp.ClientSession(connector=connector) as session,
    ):
        yield Component(port, session)


def api_client(server: ServerClient) -> Client:
    context = ssl.create_default_context(cafile=str(server.prepared.ca_file))
    return Client.with_token(server.prepared.url, server.prepared.token, context)


def test_health_is_told_in_kubernetes_words() -> None:
    """`ok`, every check if wanted, and always every check when one fails."""
    why: str | None = "nodes were not listed yet"

    async def story() -> None:
        nonlocal why
        async with component({"informers": lambda: why}, live={"leaderElection": lambda: None}) as seen:
            assert (await seen.get("/healthz")) == (200, "ok")
            assert (await seen.get("/livez?verbose")) == (
                200,
                f"{PASSED}livez check passed\n",
            )
            assert (await seen.get("/readyz")) == (
                500,
                f"{PASSED}[-]informers failed: reason withheld\nreadyz check failed\n",
            )
            assert (await seen.get("/readyz/informers")) == (
                500,
                "internal server error: nodes were not listed yet\n",
            )
            assert (await seen.get("/readyz?exclude=informers&exclude=x&verbose")) == (
                200,
                f"{PASSED}[+]informers excluded: ok\n{WARNING}readyz check passed\n",
            )
            why = None
            assert (await seen.get("/readyz")) == (200, "ok")
            assert (await seen.get("/readyz/informers")) == (200, "ok")
            assert (await seen.get("/readyz/ping")) == (200, "ok")

    asyncio.run(story())


def test_a_check_that_breaks_has_failed() -> None:
    """A check that raises has failed, and the endpoint goes on."""

    def broken() -> str | None:
        raise RuntimeError("oh")

    async def story() -> None:
        async with component({"broken": broken}) as seen:
            assert await seen.status("/readyz") == 500
            assert (await seen.get("/readyz/broken"))[1] == "internal server error: oh\n"
            assert await seen.status("/healthz") == 200

    asyncio.run(story())


def test_metrics_are_prometheus_or_open_metrics() -> None:
    """As asked for; their values are read in the component's own loop."""

    async def story() -> None:
        async with component() as seen:
            status, text = await seen.get("/metrics")
            assert status == 200
            assert 'scheduler_schedule_attempts_total{result="ok"} 1.0' in text
            assert "loop_running 1.0" in text
            assert seen.content_type.startswith("text/plain")
            wanted = "application/openmetrics-text; version=1.0.0"
            _, text = await seen.get("/metrics", Accept=wanted)
            assert text.endswith("# EOF\n")
            assert seen.content_type.startswith(wanted)

    asyncio.run(story())


def test_nothing_else_is_there() -> None:
    """Unknown paths and checks are not found, and nothing can be written."""

    async def story() -> None:
        async with component({"a": lambda: None}) as seen:
            for path in ("/", "/debug/pprof", "/readyz/b", "/livez/a", "/metricsz", "/docs"):
                assert await seen.status(path) == 404
            assert (await seen.get("/metrics", "POST"))[0] == 405
            assert "v" in json.loads((await seen.get("/version"))[1])["gitVersion"]

    asyncio.run(story())


def test_beyond_loopback_metrics_need_a_token(server: ServerClient) -> None:
    """One that the API server takes; health stays open."""

    async def story() -> None:
        async with api_client(server) as client, component(host=EVERYWHERE, client=client) as seen:
            token = f"Bearer {server.prepared.token}"
            for path in ("/metrics", "/version", "/readyz/ping"):
                assert await seen.status(path) == 401
                assert await seen.status(path, Authorization="Bearer guess") == 401
                assert await seen.status(path, Authorization=f"Basic {server.prepared.token}") == 401
                assert await seen.status(path, Authorization=token) == 200
            for path in ("/healthz", "/livez", "/readyz"):
                assert await seen.status(path) == 200
            assert await seen.status("/nothing") == 404

    asyncio.run(story())


def test_without_an_api_server_to_ask_nobody_is_let_in() -> None:
    """Without an API server that can be asked nobody sees the metrics."""

    async def story() -> None:
        async with component(host=EVERYWHERE) as seen:
            assert await seen.status("/metrics", Authorization="Bearer any") == 401
        async with (
            Client.with_token("http://127.0.0.1:1", "t", context=False, timeout=2) as client,
            component(host=EVERYWHERE, client=client, always_allow=("/version*",)) as seen,
        ):
            assert await seen.status("/metrics", Authorization="Bearer any") == 503
            assert await seen.status("/version") == 200
            assert await seen.status("/healthz") == 401

    asyncio.run(story())


class ReviewingApi(FakeApi):
    """Knows who `good` and `weak` are; `good` may read metrics."""

    def __init__(self) -> None:
        super().__init__()
        self.reviews: list[Raw] = []

    async def _create(self, plural: str, namespace: str, item: Raw) -> Raw:
        del namespace
        self.reviews.append(item)
        spec = item["spec"]
        if plural == "tokenreviews":
            known = spec["token"] in ("good", "weak")
            user = {"username": spec["token"], "groups": ["g"], "extra": {"k": ["v"]}} if known else {}
            return {**item, "status": {"authenticated": known, "user": user}}
        return {**item, "status": {"allowed": spec["user"] == "good"}}


def test_reviews_ask_for_the_path_and_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten seconds, whatever the answer; requests at the same time ask once; tokens are not kept."""
    now = 0.0

    async def story() -> None:
        nonlocal now
        api = ReviewingApi()
        async with serving_api(api) as client:
            reviewer = Reviewer(client, clock=lambda: now)
            decisions = await asyncio.gather(
                *(reviewer.decision("good", "get", "/metrics") for _ in range(10))
            )
            assert {decision.status for decision in decisions} == {200}
            assert [review["kind"] for review in api.reviews] == ["TokenReview", "SubjectAccessReview"]
            assert api.reviews[1]["spec"] == {
                "user": "good",
                "uid": "",
                "groups": ["g"],
                "extra": {"k": ["v"]},
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            }
            assert (await reviewer.decision("weak", "get", "/metrics")).status == 403
            assert (await reviewer.decision("bad", "get", "/metrics")).status == 401
            asked = len(api.reviews)
            now = 9.9
            assert (await reviewer.decision("weak", "get", "/metrics")).status == 403
            assert (await reviewer.decision("bad", "get", "/metrics")).status == 401
            assert len(api.reviews) == asked
            now = 10.0
            assert (await reviewer.decision("weak", "get", "/metrics")).status == 403
            assert (await reviewer.decision("good", "get", "/version")).status == 200
            assert len(api.reviews) == asked + 4
            monkeypatch.setattr(serving, "_KEPT", 2)
            for guess in ("one", "two", "three"):
                await reviewer.decision(guess, "get", "/metrics")
            assert len(reviewer._known) <= 4
            assert "three" not in repr(reviewer._known)

    asyncio.run(story())


def test_a_certificate_can_be_given(tmp_path: Path) -> None:
    """A given certificate is shown; one that cannot be read is an error in one sentence."""
    certificate, key = self_signed("mine", ["127.0.0.1"], dt.datetime.now(dt.UTC))
    write_private(tmp_path / "tls.crt", certificate)
    write_private(tmp_path / "tls.key", key)

    async def story() -> None:
        files: dict[str, Any] = {"cert_file": tmp_path / "tls.crt", "key_file": tmp_path / "tls.key"}
        async with component(**files) as seen:
            trusting = ssl.create_default_context(cafile=str(tmp_path / "tls.crt"))
            _, writer = await asyncio.open_connection("127.0.0.1", seen.port, ssl=trusting)
            subject = writer.get_extra_info("peercert")["subject"]
            assert subject == ((("commonName", "mine"),),)
            writer.close()
            await writer.wait_closed()
        (tmp_path / "tls.key").write_text("not a key")
        with pytest.raises(ServingError, match=r"tls\.crt: the certificate cannot be used"):
            async with component(**files):
                pass

    asyncio.run(story())


def test_a_taken_port_is_a_sentence() -> None:
    """A port in use is an error in one sentence that names it."""

    async def story() -> None:
        async with component() as seen:
            with pytest.raises(ServingError, match=f"cannot listen on port {seen.port} of 127.0.0.1"):
                async with component(port=seen.port):
                    pass

    asyncio.run(story())


def test_those_who_ask_nothing_do_not_keep_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections without a whole question are ended after a while, and the others answered again."""
    monkeypatch.setattr(serving, "_IDLE", 0.05)

    async def story() -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        async with component(connections=3) as seen:
            streams = [await asyncio.open_connection("127.0.0.1", seen.port, ssl=context) for _ in range(3)]
            for _, writer in streams:
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n")
            assert await seen.status("/healthz") == 503
            async with asyncio.timeout(20):
                for reader, _ in streams:
                    with contextlib.suppress(ConnectionError):
                        assert await reader.read() == b""
            assert await seen.status("/healthz") == 200
            for _, writer in streams:
                writer.transport.abort()

    asyncio.run(story())


def test_it_stops_soon_and_leaves_signals_and_errors_alone() -> None:
    """Serving stops soon despite open connections, and errors of the component come through."""

    async def story() -> None:
        before = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        ports, idle = [], []

        async def run() -> None:
            async with component() as seen:
                assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == before
                assert await seen.status("/healthz") == 200
                idle.append(await asyncio.open_connection("127.0.0.1", seen.port, ssl=context))
                ports.append(seen.port)
                raise LookupError

        with pytest.raises(LookupError):
            await run()
        idle[0][1].transport.abort()
        with pytest.raises(OSError, match=r".*"):
            await asyncio.open_connection("127.0.0.1", ports[0])
        assert {task.get_name() for task in asyncio.all_tasks()} & {
            "serve",
            "reload certificates",
            "end idle connections",
        } == set()

    asyncio.run(story())
