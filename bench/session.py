"""A small JSON client for filling API servers and binding pods, over aiohttp."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

_PAGE = 2_000


class Session:
    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.url, self.session = url, session

    async def post(self, path: str, body: bytes) -> None:
        await self._send("POST", path, body, "application/json")

    async def post_all(self, requests: Iterable[tuple[str, bytes]], width: int = 32) -> None:
        await self._send_all("POST", requests, width, "application/json")

    async def patch_all(self, requests: Iterable[tuple[str, bytes]], width: int = 32) -> None:
        """Merge into objects."""
        await self._send_all("PATCH", requests, width, "application/merge-patch+json")

    async def _send_all(
        self, method: str, requests: Iterable[tuple[str, bytes]], width: int, content_type: str
    ) -> None:
        waiting = iter(requests)

        async def work() -> None:
            for path, body in waiting:
                await self._send(method, path, body, content_type)

        await asyncio.gather(*(work() for _ in range(width)))

    async def _send(self, method: str, path: str, body: bytes, content_type: str) -> None:
        headers = {"Content-Type": content_type}
        async with self.session.request(method, self.url + path, data=body, headers=headers) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise SystemExit(f"{answer.status} {path}: {text[:300]!r}")

    async def get(self, path: str, **parameters: str) -> dict[str, Any]:
        async with self.session.get(self.url + path, params=parameters) as answer:
            text = await answer.read()
            if answer.status >= 300:
                raise SystemExit(f"{answer.status} {path}: {text[:300]!r}")
            decoded: dict[str, Any] = msgspec.json.decode(text)
            return decoded

    async def items(self, path: str) -> list[dict[str, Any]]:
        """A whole collection, page by page."""
        found: list[dict[str, Any]] = []
        token = ""
        while True:
            page = await self.get(path, limit=str(_PAGE), **({"continue": token} if token else {}))
            found += page["items"]
            token = page["metadata"].get("continue") or ""
            if not token:
                return found

    async def collect_garbage(self) -> None:
        """Let a kube-apiserver collect its garbage now; other servers do not know this."""
        async with self.session.get(self.url + "/debug/pprof/heap", params={"gc": "1"}) as answer:
            await answer.read()

    async def delete(self, path: str) -> None:
        await self._send("DELETE", path, b"", "application/json")

    async def delete_all(self, path: str) -> None:
        async with self.session.delete(self.url + path) as answer:
            await answer.read()
        while (await self.get(path, limit="1"))["items"]:  # noqa: ASYNC110 - the server has no event for it
            await asyncio.sleep(0.1)


@asynccontextmanager
async def open_session(url: str, token: str, ca_file: Path) -> AsyncIterator[Session]:
    context = ssl.create_default_context(cafile=str(ca_file))
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=context, limit=0),
        headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
        timeout=aiohttp.ClientTimeout(total=None, sock_read=600),
        read_bufsize=2**22,
    ) as session:
        yield Session(url, session)
