"""The webhook answers over TLS, counts what it does, and survives whatever it is sent."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from berth.certificates import LOOPBACK, self_signed
from berth.files import write_private
from berth.live.component import serving as endpoints
from berth.live.component.endpoint import ServingSettings
from berth.live.webhook import component
from berth.live.webhook.component import WebhookSettings, serving
from tests.support.builders import EXECUTION
from tests.support.manifests.reviews import Json, apart, pod, review, term

BAD = pod(apart(term(""), rule=EXECUTION))
JSON = "application/json"


def certify(folder: Path, name: str) -> None:
    certificate, key = self_signed(name, LOOPBACK, dt.datetime.now(dt.UTC))
    write_private(folder / "tls.crt", certificate)
    write_private(folder / "tls.key", key)


class Asker:
    def __init__(self, port: int, session: aiohttp.ClientSession) -> None:
        self.port = port
        self._url = f"https://127.0.0.1:{port}"
        self._session = session

    async def post(self, body: object, content_type: str = JSON) -> tuple[int, str]:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": content_type}
        async with self._session.post(f"{self._url}/validate", data=data, headers=headers) as answer:
            return answer.status, await answer.text()

    async def allowed(self, question: Json) -> bool:
        status, text = await self.post(question)
        assert status == 200, text
        return bool(json.loads(text)["response"]["allowed"])

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(f"{self._url}{path}") as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(folder: Path) -> AsyncIterator[Asker]:
    settings = ServingSettings(cert_file=folder / "tls.crt", key_file=folder / "tls.key")
    async with (
        serving(WebhookSettings(serving=settings)) as port,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):
        yield Asker(port, session)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    certify(tmp_path, "first")
    return tmp_path


def test_reviews_are_answered_and_counted(folder: Path) -> None:
    """By kind and outcome; what we know nothing of is one kind, whatever it is called."""

    async def story() -> None:
        async with running(folder) as asker:
            assert await asker.allowed(review(pod()))
            assert not await asker.allowed(review(BAD))
            template = {"spec": {"template": BAD}}
            assert not await asker.allowed(review(template, kind="Deployment", group="apps"))
            for kind in ("A", "B"):
                assert await asker.allowed(review(pod(), kind=kind, group="example.com"))
            _, metrics = await asker.get("/metrics")
            for allowed, kind, count in (
                ("true", "Pod", 1),
                ("false", "Pod", 1),
                ("false", "Deployment", 1),
                ("true", "other", 2),
            ):
                line = f'berth_webhook_requests_total{{allowed="{allowed}",kind="{kind}"}} {count}.0'
                assert line in metrics
            assert "berth_webhook_request_duration_seconds_count 5.0" in metrics
            for path in ("/healthz", "/livez", "/readyz"):
                assert await asker.get(path) == (200, "ok")

    asyncio.run(story())


def test_bad_requests_are_refused_and_do_no_harm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not a review, not JSON, or too large; the next one is answered as if nothing had been."""
    monkeypatch.setattr(component, "_LARGEST", 300_000)

    async def story() -> None:
        async with running(folder) as asker:
            assert (await asker.post(b"{"))[0] == 400
            assert (await asker.post({"kind": "AdmissionReview"}))[0] == 400
            assert (await asker.post(review({"metadata": []})))[0] == 400
            assert (await asker.post(review(pod()), "application/yaml"))[0] == 415
            assert (await asker.post(b" " * 300_001))[0] == 413
            assert (await asker.get("/validate"))[0] == 405
            assert not await asker.allowed(review(BAD))
            _, metrics = await asker.get("/metrics")
            for code, count in (("400", 3), ("413", 1), ("415", 1)):
                assert f'berth_webhook_errors_total{{code="{code}"}} {count}.0' in metrics

    asyncio.run(story())


def test_a_large_review_is_answered_too(folder: Path) -> None:
    """Beside the loop, which has probes to answer."""

    async def story() -> None:
        async with running(folder) as asker:
            assert await asker.allowed(review(pod(unrelated="x" * 1_000_000)))
            assert not await asker.allowed(review({**BAD, "unrelated": "x" * 1_000_000}))

    asyncio.run(story())


def test_a_request_that_does_not_arrive_is_given_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose body does not arrive in time is a 408."""
    monkeypatch.setattr(component, "_PATIENCE", 0.05)

    async def story() -> None:
        context = ssl.create_default_context(cafile=str(folder / "tls.crt"))
        async with running(folder) as asker:
            reader, writer = await asyncio.open_connection("127.0.0.1", asker.port, ssl=context)
            writer.write(b"POST /validate HTTP/1.1\r\nhost: x\r\ncontent-length: 9\r\n")
            writer.write(b"content-type: application/json\r\n\r\n{")
            assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")
            writer.transport.abort()

    asyncio.run(story())


def test_our_own_fault_is_an_error_and_no_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the webhook's own is a 500, so that the failure policy decides."""

    def broken(*_: object) -> None:
        raise LookupError("secret")

    monkeypatch.setattr(component, "admit", broken)

    async def story() -> None:
        async with running(folder) as asker:
            assert await asker.post(review(pod())) == (500, "internal error\n")
            assert (await asker.get("/livez"))[0] == 200

    asyncio.run(story())


def test_a_renewed_certificate_is_taken_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A renewed certificate is used without a restart; half of one leaves the old in place."""
    monkeypatch.setattr(endpoints, "_RELOAD", 0.01)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    async def shown(port: int) -> bytes:
        _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.transport.abort()
        return found

    def pem() -> bytes:
        return ssl.PEM_cert_to_DER_cert((folder / "tls.crt").read_text())

    async def story() -> None:
        async with running(folder) as asker:
            first = await shown(asker.port)
            assert first == pem()
            write_private(folder / "tls.key", b"half")
            await asyncio.sleep(0.05)
            assert await shown(asker.port) == first
            certify(folder, "second")
            for _ in range(500):
                if await shown(asker.port) == pem():
                    break
                await asyncio.sleep(0.01)
            assert await shown(asker.port) == pem() != first

    asyncio.run(story())
