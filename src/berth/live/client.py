"""An asynchronous Kubernetes client: bytes in, views out.

It makes one request a call and raises :class:`berth.live.errors.ApiError` for whatever is not an
answer; repeating, waiting and reconnecting are decided by its callers.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import aiohttp
import msgspec

from berth.kube.api_resources import EVENTS, PODS, Resource
from berth.kube.objects import RawObject
from berth.kube.well_known import JSON, MERGE_PATCH
from berth.live.errors import (
    ApiError,
    NotSent,
    Silent,
    Status,
    Unreachable,
    from_answer,
    from_status,
    in_words,
)
from berth.live.fence import Fence, FencedBody
from berth.live.ratelimit import Limiter, Urgency

PAGE = 500
# Servers send a bookmark every minute once there was something to tell. A watch that is silent for longer
# may be dead without anybody having noticed: it is opened anew.
SILENCE = 90.0
_T = TypeVar("_T")
_log = logging.getLogger(__name__)


_META_NAMES = {
    "continue_": "continue",
    "resource_version": "resourceVersion",
    "remaining": "remainingItemCount",
}


class ListMeta(msgspec.Struct, rename=_META_NAMES):
    resource_version: str = ""
    continue_: str = ""
    remaining: int | None = None


class _List(msgspec.Struct, Generic[_T]):
    metadata: ListMeta
    items: list[_T] | None = None


class Frame(msgspec.Struct):
    """One line of a watch."""

    type: str
    object: msgspec.Raw


@dataclass(frozen=True, slots=True)
class Page(Generic[_T]):
    items: list[_T]
    resource_version: str
    continue_token: str
    remaining: int = 0  # as many more there are, if the server says so


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which objects of a resource to list or watch, and whether nothing but their metadata."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    metadata_only: bool = False

    def parameters(self) -> dict[str, str]:
        given = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in given.items() if value}

    def accept(self, form: str) -> str:
        """The Accept header; `form` is what metadata alone comes as. A server without it sends all."""
        return f"{JSON};as={form};g=meta.k8s.io;v=v1,{JSON}" if self.metadata_only else JSON


EVERYTHING = Selection()


class Client:
    """A connection to one API server.

    `headers` is called before every request, so that a token that ran out can be renewed; `rejected` is
    called when one was not accepted.  Requests wait
    for their turn at the `limiter`, if there is one: events behind everything else, a watch once.
    What would change something is sent only if the `fence`, if there is one, lets it through.

    Attributes:
        served: Where a resource is that is not in the version it should be in.
    """

    def __init__(
        self,
        session: aiohttp.ClientSession,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        timeout: float = 30.0,
        request_options: dict[str, Any] | None = None,
        limiter: Limiter | None = None,
        rejected: Callable[[], None] | None = None,
    ) -> None:
        self._session = session
        self.url = url.rstrip("/")
        self._headers = headers
        self._timeout = timeout
        self._options = request_options or {}
        self._rejected = rejected
        self.limiter = limiter
        self.fence: Fence | None = None
        self.served: dict[Resource, Resource] = {}

    @classmethod
    def with_token(
        cls, url: str, token: str, context: ssl.SSLContext | bool, *, timeout: float = 30.0
    ) -> Client:
        """A client that proves itself with a bearer token; must be made inside a running loop."""
        # Every watch holds a connection; how many requests there are besides is up to the callers.
        connector = aiohttp.TCPConnector(limit=0, ssl=context, keepalive_timeout=75)
        session = aiohttp.ClientSession(
            connector=connector, read_bufsize=2**20, auto_decompress=True, skip_auto_headers=("User-Agent",)
        )
        headers = {"Authorization": f"Bearer {token}"}

        async def authorization() -> dict[str, str]:
            return headers

        return cls(session, url, authorization, timeout=timeout)

    def unlimited(self) -> Client:
        """The same connection for what must not wait or be held up, such as the renewal of a lease."""
        same = Client(
            self._session,
            self.url,
            self._headers,
            timeout=self._timeout,
            request_options=self._options,
            rejected=self._rejected,
        )
        same.served = self.served
        return same

    def _path(self, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return self.served.get(resource, resource).path(namespace, name, subresource)

    async def turn(self, resource: Resource) -> Client:
        """Wait for a turn to ask for a resource; a client for one request that need not wait any more."""
        if self.limiter is None:
            return self
        await self.limiter.acquire(_urgency(resource))
        ready = self.unlimited()
        ready.fence = self.fence
        return ready

    async def close(self) -> None:
        await self._session.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # --- one object -------------------------------------------------------------------------------

    async def get(self, resource: Resource, name: str, namespace: str = "") -> bytes:
        return await self.request("GET", self._path(resource, namespace, name))

    async def create(
        self, resource: Resource, body: RawObject, namespace: str = "", name: str = "", subresource: str = ""
    ) -> bytes:
        path = self._path(resource, namespace, name, subresource)
        return await self.request("POST", path, body=body, urgency=_urgency(resource))

    async def update(
        self, resource: Resource, body: RawObject, namespace: str = "", subresource: str = ""
    ) -> bytes:
        path = self._path(resource, namespace, body["metadata"]["name"], subresource)
        return await self.request("PUT", path, body=body)

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: RawObject | list[RawObject],
        *,
        namespace: str = "",
        subresource: str = "",
        form: str = MERGE_PATCH,
        parameters: dict[str, str] | None = None,
    ) -> bytes:
        path = self._path(resource, namespace, name, subresource)
        return await self.request(
            "PATCH",
            path,
            body=body,
            content_type=form,
            parameters=parameters,
            urgency=_urgency(resource),
        )

    async def delete(
        self,
        resource: Resource,
        name: str,
        *,
        namespace: str = "",
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
        propagation: str | None = None,
    ) -> bytes:
        body = delete_options(uid, resource_version, grace, propagation)
        return await self.request("DELETE", self._path(resource, namespace, name), body=body)

    async def delete_all(self, resource: Resource, namespace: str = "") -> bytes:
        return await self.request("DELETE", self._path(resource, namespace), body=delete_options())

    async def evict(
        self,
        name: str,
        namespace: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        grace: int | None = None,
    ) -> bytes:
        """Ask to remove a pod; raises TooManyRequests while a disruption budget forbids it."""
        body: RawObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        options = delete_options(uid, resource_version, grace)
        if len(options) > 2:
            body["deleteOptions"] = options
        return await self.request("POST", PODS.path(namespace, name, "eviction"), body=body)

    async def bind(self, name: str, namespace: str, node: str, *, uid: str | None = None) -> bytes:
        metadata = {"name": name, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        body: RawObject = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        return await self.request("POST", PODS.path(namespace, name, "binding"), body=body)

    # --- many objects -----------------------------------------------------------------------------

    async def page(
        self,
        resource: Resource,
        view: type[_T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = PAGE,
        continue_token: str = "",
        resource_version: str = "",
    ) -> Page[_T]:
        parameters = selection.parameters()
        if limit:
            parameters["limit"] = str(limit)
        if continue_token:
            parameters["continue"] = continue_token
        elif resource_version:
            parameters["resourceVersion"] = resource_version
        patience = 1.0 if limit else 4.0  # everything at once takes longer than a page
        path = self._path(resource, selection.namespace)
        accept = selection.accept("PartialObjectMetadataList")
        body = await self.request("GET", path, parameters=parameters, patience=patience, accept=accept)
        try:
            decoded = msgspec.json.decode(body, type=_List[view])  # type: ignore[valid-type]
        except msgspec.ValidationError:
            return _readable(body, view, path)
        except msgspec.DecodeError as error:
            raise Unreachable(f"{path}: the answer is not JSON: {error}") from error
        meta = decoded.metadata
        return Page(decoded.items or [], meta.resource_version, meta.continue_, meta.remaining or 0)

    async def pages(
        self, resource: Resource, view: type[_T], selection: Selection = EVERYTHING, *, limit: int = PAGE
    ) -> AsyncIterator[Page[_T]]:
        """The collection page by page; raises Expired if it took so long that the rest is gone."""
        token = ""
        while True:
            page = await self.page(resource, view, selection, limit=limit, continue_token=token)
            yield page
            token = page.continue_token
            if not token:
                return

    async def list_all(
        self, resource: Resource, view: type[_T], selection: Selection = EVERYTHING, *, limit: int = PAGE
    ) -> list[_T]:
        return [
            item async for page in self.pages(resource, view, selection, limit=limit) for item in page.items
        ]

    async def watch(
        self,
        resource: Resource,
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        seconds: float = 300.0,
        silence: float = SILENCE,
    ) -> AsyncGenerator[list[Frame], None]:
        """One connection's frames, as many at a time as arrived together, for up to `seconds`; at first none.

        Raises:
            Silent: nothing came for `silence` seconds, not even a bookmark.
        """
        parameters = {
            **selection.parameters(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(seconds)),
        }
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout, sock_read=silence)
        path = self._path(resource, selection.namespace)
        accept = selection.accept("PartialObjectMetadata")
        async with self._open("GET", path, parameters=parameters, limits=limits, accept=accept) as response:
            if response.status >= 300:
                raise from_answer(response.status, await response.read(), response.headers, time.time())
            yield []  # the server lets us watch
            rest = b""
            chunks = response.content.iter_any()
            while True:
                try:
                    chunk = await anext(chunks, b"")
                except aiohttp.SocketTimeoutError as error:
                    raise Silent(f"nothing came for {silence:g} seconds") from error
                if not chunk:
                    return
                lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                rest = lines.pop()
                frames = [_frame(line) for line in lines if line]
                if frames:
                    yield frames

    # --- transport --------------------------------------------------------------------------------

    async def request(  # noqa: PLR0913 - all but two are optional
        self,
        method: str,
        path: str,
        *,
        body: RawObject | list[RawObject] | bytes | None = None,
        content_type: str = JSON,
        parameters: dict[str, str] | None = None,
        urgency: Urgency = Urgency.URGENT,
        patience: float = 1.0,
        accept: str = JSON,
    ) -> bytes:
        """Make one request; the body of a good answer.

        Its time is the client's times `patience`, without the wait for its turn.
        """
        data = msgspec.json.encode(body) if isinstance(body, dict | list) else body
        limits = aiohttp.ClientTimeout(total=self._timeout * patience)
        async with self._open(
            method,
            path,
            data=data,
            content_type=content_type,
            parameters=parameters,
            limits=limits,
            urgency=urgency,
            accept=accept,
        ) as response:
            answer = await response.read()
            if response.status >= 300:
                raise from_answer(response.status, answer, response.headers, time.time())
            return answer

    @asynccontextmanager
    async def _open(  # noqa: PLR0913 - all but three are optional
        self,
        method: str,
        path: str,
        *,
        limits: aiohttp.ClientTimeout,
        data: bytes | None = None,
        content_type: str = JSON,
        parameters: dict[str, str] | None = None,
        urgency: Urgency = Urgency.URGENT,
        accept: str = JSON,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        if self.limiter is not None:
            await self.limiter.acquire(urgency)
        try:
            headers = {**await self._headers(), "Accept": accept}
        except Exception as error:  # a plugin of the user's, say
            raise Unreachable(f"no credentials to be had: {error}") from error
        if data is not None:
            headers["Content-Type"] = content_type
        fenced = None if self.fence is None or method == "GET" else FencedBody(data or b"", self.fence)
        try:
            async with self._session.request(
                method,
                self.url + path,
                data=data if fenced is None else fenced,
                params=parameters,
                headers=headers,
                timeout=limits,
                allow_redirects=False,
                **self._options,
            ) as response:
                if response.status == 401 and self._rejected is not None:
                    self._rejected()
                yield response
        except ApiError:
            raise
        except (TimeoutError, aiohttp.ClientError, OSError) as error:
            if fenced is not None and fenced.held:
                raise NotSent from error
            raise Unreachable(in_words(error)) from error


def _urgency(resource: Resource) -> Urgency:
    return Urgency.BACKGROUND if resource == EVENTS else Urgency.URGENT


def _readable(body: bytes, view: type[_T], path: str) -> Page[_T]:
    """A page without the objects that are not what they should be; the others must not suffer."""
    raw = msgspec.json.decode(body, type=_List[msgspec.Raw])
    items: list[_T] = []
    for item in raw.items or ():
        try:
            items.append(msgspec.json.decode(item, type=view))
        except msgspec.ValidationError as error:
            _log.warning("%s: %s is left out: %s", path, name_of(item), error)
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_)


class _Named(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Nameplate(msgspec.Struct):
    """As much of an object as every object has."""

    metadata: _Named


def name_of(item: msgspec.Raw) -> str:
    metadata = msgspec.json.decode(item, type=Nameplate).metadata
    return f"{metadata.namespace}/{metadata.name}".lstrip("/")


def _frame(line: bytes) -> Frame:
    try:
        frame = msgspec.json.decode(line, type=Frame)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the watch sent something else than JSON: {error}") from error
    if frame.type == "ERROR":
        raise from_status(msgspec.json.decode(frame.object, type=Status))
    return frame


def delete_options(
    uid: str | None = None,
    resource_version: str | None = None,
    grace: int | None = None,
    propagation: str | None = None,
) -> RawObject:
    known = {"uid": uid, "resourceVersion": resource_version}
    given = {
        "preconditions": {name: value for name, value in known.items() if value} or None,
        "gracePeriodSeconds": grace,
        "propagationPolicy": propagation or None,
    }
    said = {name: value for name, value in given.items() if value is not None}
    return {"apiVersion": "v1", "kind": "DeleteOptions", **said}
