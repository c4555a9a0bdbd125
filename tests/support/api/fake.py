"""A tiny API server: lists, watches, writes and the faults a test asks for.  No validation, no defaults."""

from __future__ import annotations

import asyncio
import copy
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from aiohttp import web
from aiohttp.test_utils import TestServer

from berth.kube.versions import NEWEST
from berth.live.client import Client

Raw = dict[str, Any]
_MERGED_BY = {"conditions": "type", "containerStatuses": "name", "taints": "key"}


class Fault(Exception):  # noqa: N818
    """An answer a test puts in the way of a request."""

    def __init__(self, code: int, reason: str = "", retry_after: str = "") -> None:
        self.code, self.reason, self.retry_after = code, reason, retry_after


class FakeApi:
    """An API server in memory: objects, versions, lists and watches, and no rules.

    Attributes:
        log: Every change as (version, collection path, type, object).
        oldest: Watches from before this version are told that it is gone.
        before: Called with (method, path) first; may raise a Fault or drop the connection.
        cut_after: How many watch frames to send before the connection is cut; None for all.
        documents: What is answered at other paths, such as /version and those of discovery.
    """

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], Raw] = {}
        self.log: list[tuple[int, tuple[str, str], str, Raw]] = []
        self.version = 1
        self.oldest = 0
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], None] = lambda _method, _path: None
        self.cut_after: int | None = None
        self.watches = 0
        self.documents: dict[str, Raw] = {"/version": {"gitVersion": NEWEST.release}}
        self._changed = asyncio.Condition()
        self._numbers = itertools.count(1)

    # --- used by tests ------------------------------------------------------------------------------

    async def put(self, plural: str, item: Raw) -> Raw:
        metadata = item.setdefault("metadata", {})
        key = (plural, metadata.get("namespace", ""), metadata["name"])
        known = self.objects.get(key)
        metadata.setdefault("uid", known["metadata"]["uid"] if known else f"uid-{next(self._numbers)}")
        return await self._store(key, item, "MODIFIED" if known else "ADDED")

    async def remove(self, plural: str, name: str, namespace: str = "") -> None:
        key = (plural, namespace, name)
        item = copy.deepcopy(self.objects.pop(key))
        await self._store(key, item, "DELETED")

    def names(self, plural: str) -> list[str]:
        return sorted(name for kind, _, name in self.objects if kind == plural)

    # --- storage ------------------------------------------------------------------------------------

    async def _store(self, key: tuple[str, str, str], item: Raw, change: str) -> Raw:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        if change != "DELETED":
            self.objects[key] = item
        self.log.append((self.version, key[:2], change, copy.deepcopy(item)))
        async with self._changed:
            self._changed.notify_all()
        return item

    # --- requests -----------------------------------------------------------------------------------

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path))
        try:
            self.before(request.method, request.path)
            return await self._answer(request)
        except Fault as fault:
            headers = {"Retry-After": fault.retry_after} if fault.retry_after else {}
            body = {"kind": "Status", "reason": fault.reason, "code": fault.code, "message": fault.reason}
            return web.json_response(body, status=fault.code, headers=headers)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.path in self.documents:
            return web.json_response(self.documents[request.path])
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2 and parts[2] not in ("status", "finalize"):
            namespace, parts = parts[1], parts[2:]
        plural, name, subresource = (*parts, "", "")[:3]
        if not name:
            if request.method == "GET":
                if request.query.get("watch"):
                    return await self._watch(request, plural, namespace)
                return self._list(request, plural, namespace)
            return web.json_response(await self._create(plural, namespace, await request.json()), status=201)
        return web.json_response(await self._one(request, (plural, namespace, name), subresource))

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        items = [
            item
            for key, item in sorted(self.objects.items())
            if key[0] == plural and namespace in ("", key[1])
        ]
        start, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", 0))
        page = items[start : start + limit] if limit else items
        more = str(start + limit) if limit and start + limit < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return web.json_response({"metadata": metadata, "items": page})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.oldest:
            raise Fault(410, "Expired")
        self.watches += 1
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        sent = 0
        while True:
            for version, (kind, place), change, item in self.log:
                if version <= since or kind != plural or namespace not in ("", place):
                    continue
                if self.cut_after is not None and sent >= self.cut_after:
                    self.cut_after = None
                    if request.transport is not None:
                        request.transport.abort()
                    return response
                await response.write(msgspec.json.encode({"type": change, "object": item}) + b"\n")
                since, sent = version, sent + 1
            since = max(since, self.version)
            async with self._changed:
                await self._changed.wait()

    async def _create(self, plural: str, namespace: str, item: Raw) -> Raw:
        metadata = item.setdefault("metadata", {})
        number = next(self._numbers)
        metadata["name"] = metadata.get("name") or f"{metadata.get('generateName', '')}{number:05d}"
        if namespace:
            metadata["namespace"] = namespace
        key = (plural, namespace, metadata["name"])
        if key in self.objects:
            raise Fault(409, "AlreadyExists")
        metadata.update(uid=f"uid-{number}", generation=1, creationTimestamp="2026-01-01T00:00:00Z")
        return await self._store(key, item, "ADDED")

    async def _one(self, request: web.Request, key: tuple[str, str, str], subresource: str) -> Raw:
        item = self.objects.get(key)
        if item is None:
            raise Fault(404, "NotFound")
        if request.method == "GET":
            return item
        body = await request.json()
        if request.method == "DELETE":
            return await self._delete(key, item, body)
        if request.method == "POST":
            return await self._act(key, item, subresource, body)
        return await self._change(key, item, body, put=request.method == "PUT")

    async def _change(self, key: tuple[str, str, str], item: Raw, body: Raw, *, put: bool) -> Raw:
        given = body.get("metadata", {}).get("resourceVersion")
        if given and given != item["metadata"]["resourceVersion"]:
            raise Fault(409, "Conflict")
        new = body if put else _merged(item, body)
        metadata = {**item["metadata"], **new["metadata"]}
        if new.get("spec") != item.get("spec"):
            metadata["generation"] = metadata.get("generation", 0) + 1
        return await self._store(key, {**new, "metadata": metadata}, "MODIFIED")

    async def _delete(self, key: tuple[str, str, str], item: Raw, body: Raw) -> Raw:
        uid = body.get("preconditions", {}).get("uid")
        if uid and uid != item["metadata"]["uid"]:
            raise Fault(409, "Conflict")
        graceful = key[0] == "pods" and item.get("spec", {}).get("nodeName")
        if (graceful and body.get("gracePeriodSeconds") != 0) or item["metadata"].get("finalizers"):
            metadata = {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:30Z"}
            metadata["deletionGracePeriodSeconds"] = 30
            return await self._store(key, {**item, "metadata": metadata}, "MODIFIED")
        await self.remove(key[0], key[2], key[1])
        return item

    async def _act(self, key: tuple[str, str, str], item: Raw, subresource: str, body: Raw) -> Raw:
        if subresource == "binding":
            if item["spec"].get("nodeName"):
                raise Fault(409, "Conflict")
            spec = {**item["spec"], "nodeName": body["target"]["name"]}
            return await self._store(key, {**item, "spec": spec}, "MODIFIED")
        return await self._delete(key, item, {})


def _merged(old: Any, patch: Any) -> Any:
    if not isinstance(patch, dict) or not isinstance(old, dict):
        return patch
    new = dict(old)
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        elif name in _MERGED_BY and isinstance(value, list) and isinstance(old.get(name), list):
            by = {entry.get(_MERGED_BY[name]): entry for entry in old[name]}
            by.update({entry.get(_MERGED_BY[name]): entry for entry in value})
            new[name] = list(by.values())
        else:
            new[name] = _merged(old.get(name), value)
    return new


@asynccontextmanager
async def serving(api: FakeApi) -> AsyncIterator[Client]:
    """The server on a free port, and a client for it."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", api.handle)
    async with TestServer(app) as server:
        client = Client.with_token(str(server.make_url("")), "token", context=False, timeout=5)
        async with client:
            yield client
