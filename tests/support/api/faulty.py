"""The tiny API server with lists of one moment, and with watches that go wrong as a test asks."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Literal

import msgspec
from aiohttp import web

from tests.support.api.fake import FakeApi, Fault, Raw

Ending = Literal["cut", "cut in a line", "end", "410 in a frame", "500 in a frame", "silence", "refuse"]


class FaultyApi(FakeApi):
    """A fake API server whose watches and lists go wrong as they are told to.

    Attributes:
        endings: How the coming watches end, each with the number of frames that come before.
        replay: How many versions too early the coming watches begin.
        stale_tokens: How many continue tokens are refused because they are too old.
        slow: Called between the pages of a list, in which anything may happen.
        opened: The versions that watches began from.
    """

    def __init__(self) -> None:
        super().__init__()
        self.endings: deque[tuple[int, Ending]] = deque()
        self.replay = 0
        self.stale_tokens = 0
        self.slow: deque[Raw] = deque()
        self.opened: list[int] = []
        self.limits: list[int] = []
        self._moments: dict[int, list[Raw]] = {}

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        del namespace
        limit, token = int(request.query.get("limit", 0)), request.query.get("continue", "")
        self.limits.append(limit)
        if token:
            if self.stale_tokens:
                self.stale_tokens -= 1
                raise Fault(410, "Expired")
            version, start = map(int, token.split(":"))
        else:
            version, start = self.version, 0
            items = [item for key, item in sorted(self.objects.items()) if key[0] == plural]
            self._moments[version] = items
        items = self._moments[version]
        page = items[start : start + limit] if limit else items
        more = f"{version}:{start + limit}" if limit and start + limit < len(items) else ""
        response = web.json_response(
            {"metadata": {"resourceVersion": str(version), "continue": more}, "items": page}
        )
        if more and self.slow:
            self._at_once(plural, self.slow.popleft())
        return response

    def _at_once(self, plural: str, change: Raw) -> None:
        """A change between two pages."""
        name = change["metadata"]["name"]
        kind = "MODIFIED" if (plural, "", name) in self.objects else "ADDED"
        self.version += 1
        change["metadata"] |= {"resourceVersion": str(self.version)}
        change["metadata"].setdefault("uid", f"slow-{self.version}")
        self.objects[plural, "", name] = change
        self.log.append((self.version, (plural, ""), kind, change))

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        del namespace
        since = int(request.query["resourceVersion"])
        self.opened.append(since)
        if since < self.oldest:
            raise Fault(410, "Expired")
        left, ending = self.endings.popleft() if self.endings else (-1, "cut")
        if ending == "refuse":
            raise Fault(500, "InternalError")
        self.watches += 1
        since, self.replay = since - self.replay, 0
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        while True:
            for version, (kind, _), change, item in list(self.log):
                if version <= since or kind != plural:
                    continue
                line = msgspec.json.encode({"type": change, "object": item}) + b"\n"
                if left == 0:
                    await self._finish(request, response, ending, line)
                    return response
                await response.write(line)
                since, left = version, left - 1
            if left == 0 and ending != "cut in a line":
                await self._finish(request, response, ending, b"")
                return response
            async with self._changed:
                while self._newest(plural) <= since:
                    await self._changed.wait()

    def _newest(self, plural: str) -> int:
        return max((version for version, (kind, _), _, _ in self.log if kind == plural), default=0)

    async def _finish(
        self, request: web.Request, response: web.StreamResponse, ending: Ending, line: bytes
    ) -> None:
        if ending == "silence":
            await asyncio.sleep(3600)
        if ending == "cut in a line":
            await response.write(line[: len(line) // 2])
        if ending in ("410 in a frame", "500 in a frame"):
            code = int(ending[:3])
            status = {"kind": "Status", "status": "Failure", "code": code, "reason": "Expired"}
            await response.write(msgspec.json.encode({"type": "ERROR", "object": status}) + b"\n")
        elif ending != "end" and request.transport is not None:
            await asyncio.sleep(0.01)  # what was written is on its way
            request.transport.abort()
