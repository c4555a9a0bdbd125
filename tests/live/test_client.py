"""The client makes requests as the API wants them and tells refusals apart."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from berth.kube.api_resources import NODES, PODS
from berth.kube.objects import LivePod, PartialObjectMetadata
from berth.live.client import Client, delete_options
from berth.live.connection import ConnectionSettingsError, connect
from berth.live.errors import (
    AlreadyExists,
    ApiError,
    Conflict,
    Expired,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unreachable,
    from_answer,
)
from tests.support.api.fake import FakeApi, Fault, serving


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(coroutine)


def test_create_get_patch_delete() -> None:
    """An object is created, read, patched, bound and deleted."""

    async def story() -> None:
        api = FakeApi()
        async with serving(api) as client:
            await client.create(PODS, {"metadata": {"name": "p"}, "spec": {}}, "default")
            await client.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
            assert api.objects["pods", "default", "p"]["metadata"]["labels"] == {"a": "b"}
            await client.bind("p", "default", "n1")
            assert api.objects["pods", "default", "p"]["spec"]["nodeName"] == "n1"
            await client.delete(PODS, "p", namespace="default", options=delete_options(grace=0))
            with pytest.raises(NotFound):
                await client.get(PODS, "p", "default")

    run(story())


def test_lists_come_in_pages() -> None:
    """Lists in pages have every object once, in order."""

    async def story() -> None:
        api = FakeApi()
        for number in range(25):
            await api.put("nodes", {"metadata": {"name": f"n{number:02d}"}})
        async with serving(api) as client:
            pages = client.pages(NODES, PartialObjectMetadata, limit=10)
            found = [item async for page in pages for item in page.items]
            assert [f"n{number:02d}" for number in range(25)] == [item.metadata.name for item in found]
            assert len(api.requests) == 3

    run(story())


@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Expired),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerError),
        (503, "ServiceUnavailable", ServerError),
        (418, "", ApiError),
    ],
)
def test_refusals_are_told_apart(code: int, reason: str, expected: type[ApiError]) -> None:
    """Refusals are told apart by status code and reason."""

    async def story() -> None:
        api = FakeApi()

        def refuse(method: str, path: str) -> None:
            del method, path
            raise Fault(code, reason)

        api.before = refuse
        async with serving(api) as client:
            with pytest.raises(ApiError) as caught:
                await client.get(PODS, "p", "default")
            assert expected is type(caught.value)
            assert code == caught.value.code

    run(story())


@pytest.mark.parametrize(
    ("header", "expected"),
    [("7", 7.0), ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0), ("soon", None), ("", None)],
)
def test_retry_after(header: str, expected: float | None) -> None:
    """The pause that a server asks for is read in seconds or as a date."""
    error = from_answer(429, b"{}", {"Retry-After": header}, now=10.0)
    assert expected == error.retry_after


def test_the_wait_may_be_in_the_status_too() -> None:
    """The time to wait may be in the status; answers that are not JSON are shown as they are."""
    body = b'{"reason": "TooManyRequests", "details": {"retryAfterSeconds": 3}}'
    error = from_answer(429, body, {}, now=0.0)
    assert error.retry_after == 3.0
    assert str(from_answer(502, b"upstream is gone", {}, now=0.0)) == "upstream is gone"


def test_no_answer_is_an_error_of_its_own() -> None:
    """Where nobody listens the error is that the server is unreachable."""

    async def story() -> None:
        async with Client.with_token("http://127.0.0.1:1", "t", context=False, timeout=2) as client:
            with pytest.raises(Unreachable):
                await client.page(PODS, LivePod)

    run(story())


def test_a_kubeconfig_is_read(tmp_path: Path) -> None:
    """Address and token come from the file; a bad file is one sentence."""
    config = """
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "%s"}}]
users: [{name: u, user: {token: secret}}]
"""

    async def story() -> None:
        api = FakeApi()
        await api.put("nodes", {"metadata": {"name": "n"}})
        async with serving(api) as plain:
            path = tmp_path / "config"
            path.write_text(config % plain.url)
            async with await connect(path) as client:
                assert [
                    item.metadata.name for item in await client.list_all(NODES, PartialObjectMetadata)
                ] == ["n"]
                assert await client._headers() == {"Authorization": "Bearer secret"}
        with pytest.raises(ConnectionSettingsError):
            await connect(tmp_path / "missing")

    run(story())
