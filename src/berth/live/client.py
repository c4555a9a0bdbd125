"""An asynchronous Kubernetes client: bytes in, views out.

It makes one request a call and raises :class:`berth.live.errors.ApiError` for whatever is not an
answer; repeating, waiting and reconnecting are decided by its callers.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from copy import copy
from typing import Self, TypeVar

import msgspec

from berth.kube.api_resources import EVENTS, PODS, Resource
from berth.kube.objects import RawObject
from berth.kube.well_known import JSON, MERGE_PATCH
from berth.live.errors import (
    ApiError,
    Silent,
    TooManyRequests,
    Unreachable,
    from_answer,
    in_words,
)
from berth.live.http.exchange import Answer
from berth.live.http.transport import LARGEST_LIST, Transport
from berth.live.kubeconfig import tls_context
from berth.live.rate_limit import Fence, Limiter, Urgency
from berth.live.wire import Frame, Page, frame_of, page_of

PAGE = 500
# Servers send a bookmark about every minute once a watch had an event. A watch that is silent for longer
# may be dead without anybody having noticed: it is opened anew.
SILENCE = 90.0
_LONGEST_PAUSE = 30.0  # seconds, even if a server's Retry-After asks for more
_T = TypeVar("_T")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which objects of a resource to list or watch, and whether nothing but their metadata."""

    namespace: str = ""
    metadata_only: bool = False

    def accept(self, form: str) -> str:
        """The Accept header; `form` is what metadata alone comes as. A server without it sends all."""
        return f"{JSON};as={form};g=meta.k8s.io;v=v1,{JSON}" if self.metadata_only else JSON


EVERYTHING = Selection()


class Client:
    """A connection to one API server.

    `headers` is called before every request, so that a token that ran out can be renewed; `rejected` is
    called when one was not accepted.

    Attributes:
        limiter: The rate limit. Events wait behind all other requests; a watch takes a token when it begins.
        fence: Asked before every request that writes; what it refuses is not sent.
        served: Resources that the server has in another version than the one Berth prefers.
    """

    def __init__(
        self,
        transport: Transport,
        url: str,
        headers: Callable[[], Awaitable[dict[str, str]]],
        *,
        timeout: float = 30.0,
        rejected: Callable[[], None] | None = None,
    ) -> None:
        self._transport = transport
        self.url = url.rstrip("/")
        self._headers = headers
        self._timeout = timeout
        self._rejected = rejected
        self.limiter: Limiter | None = None
        self.fence: Fence | None = None
        self.served: dict[Resource, Resource] = {}

    @classmethod
    def with_token(
        cls, url: str, token: str, context: ssl.SSLContext | bool, *, timeout: float = 30.0
    ) -> Client:
        """A client that authenticates with a bearer token; must be made inside a running loop."""
        headers = {"Authorization": f"Bearer {token}"}

        async def authorization() -> dict[str, str]:
            return headers

        if not isinstance(context, ssl.SSLContext):
            context = tls_context(verified=context)
        transport = Transport(url, context)
        return cls(transport, url, authorization, timeout=timeout)

    def unlimited(self) -> Client:
        """A client on the same connection without rate limit and fence, for the renewal of a lease."""
        same = copy(self)
        same.limiter = same.fence = None
        return same

    def _path(self, resource: Resource, namespace: str = "", name: str = "", subresource: str = "") -> str:
        return self.served.get(resource, resource).path(namespace, name, subresource)

    async def turn(self, resource: Resource) -> Client:
        """Wait for a turn to ask for a resource; a client for one request that need not wait any more."""
        if self.limiter is None:
            return self
        await self.limiter.acquire(_urgency(resource))
        ready = copy(self)
        ready.limiter = None
        return ready

    async def close(self) -> None:
        await self._transport.close()

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
    ) -> bytes:
        path, urgency = self._path(resource, namespace, name, subresource), _urgency(resource)
        return await self.request("PATCH", path, body=body, content_type=form, urgency=urgency)

    async def delete(
        self, resource: Resource, name: str, *, namespace: str = "", options: RawObject | None = None
    ) -> bytes:
        body = options or delete_options()
        return await self.request("DELETE", self._path(resource, namespace, name), body=body)

    async def delete_all(self, resource: Resource, namespace: str = "") -> bytes:
        return await self.request("DELETE", self._path(resource, namespace), body=delete_options())

    async def evict(self, name: str, namespace: str, options: RawObject) -> bytes:
        """Ask to remove a pod; raises TooManyRequests while a disruption budget forbids it."""
        body: RawObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
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
    ) -> Page[_T]:
        given = {"limit": str(limit or ""), "continue": continue_token}
        parameters = {name: value for name, value in given.items() if value}
        patience = 1.0 if limit else 4.0  # a whole collection takes longer than a page
        path = self._path(resource, selection.namespace)
        accept = selection.accept("PartialObjectMetadataList")
        body = await self.request(
            "GET", path, parameters=parameters, patience=patience, accept=accept, largest=LARGEST_LIST
        )
        return page_of(body, view, path)

    async def pages(
        self,
        resource: Resource,
        view: type[_T],
        selection: Selection = EVERYTHING,
        *,
        limit: int = PAGE,
        pauses: int = 0,
    ) -> AsyncIterator[Page[_T]]:
        """The collection page by page; a server that is busy is asked again, `pauses` times at most.

        Raises:
            Expired: the continue token was too old, so the rest cannot be had.
        """
        token = ""
        while True:
            try:
                page = await self.page(resource, view, selection, limit=limit, continue_token=token)
            except TooManyRequests as error:
                if not pauses:
                    raise
                pauses -= 1
                await asyncio.sleep(min(error.retry_after or 1.0, _LONGEST_PAUSE))
                continue
            yield page
            token = page.continue_token
            if not token:
                return

    async def list_all(
        self, resource: Resource, view: type[_T], selection: Selection = EVERYTHING
    ) -> list[_T]:
        return [item async for page in self.pages(resource, view, selection) for item in page.items]

    async def watch(
        self,
        resource: Resource,
        selection: Selection = EVERYTHING,
        *,
        resource_version: str,
        seconds: float = 300.0,
        silence: float = SILENCE,
    ) -> AsyncGenerator[list[Frame], None]:
        """The frames of one watch request, batch by batch, for up to `seconds`; the first batch is empty.

        Raises:
            Silent: nothing came for `silence` seconds, not even a bookmark.
        """
        parameters = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(int(seconds)),
        }
        headers = await self._admitted(Urgency.URGENT)
        path, accept = self._path(resource, selection.namespace), selection.accept("PartialObjectMetadata")
        try:
            found = await self._transport.open(
                path, parameters, headers=headers, accept=accept, seconds=self._timeout, silence=silence
            )
        except OSError as error:
            raise Unreachable(in_words(error)) from error
        if isinstance(found, Answer):
            raise self._refusal(found)
        try:
            yield []  # the server has accepted the watch
            rest = b""
            while chunk := await found.read():
                lines = (rest + chunk).split(b"\n") if rest else chunk.split(b"\n")
                rest = lines.pop()
                frames = [frame_of(line) for line in lines if line]
                if frames:
                    yield frames
        except TimeoutError as error:
            raise Silent(f"nothing came for {silence:g} seconds") from error
        except OSError as error:
            raise Unreachable(in_words(error)) from error
        finally:
            found.close()

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
        largest: int | None = None,
    ) -> bytes:
        """Make one request; the body of a good answer.

        Its time is the client's times `patience`, without the wait for its turn, and its answer has at most
        `largest` bytes, by default as many as one object may have.
        """
        data = msgspec.json.encode(body) if isinstance(body, dict | list) else body
        headers = await self._admitted(urgency)
        try:
            answer = await self._transport.ask(
                method,
                path,
                data,
                headers=headers,
                kind=(content_type if data is not None else "", accept),
                seconds=self._timeout * patience,
                parameters=parameters,
                largest=largest,
                fence=None if method == "GET" else self.fence,
            )
        except OSError as error:
            raise Unreachable(in_words(error)) from error
        if answer.status >= 300:
            raise self._refusal(answer)
        return answer.body

    async def _admitted(self, urgency: Urgency) -> dict[str, str]:
        """Wait for a turn; then return the headers that authenticate us."""
        if self.limiter is not None:
            await self.limiter.acquire(urgency)
        try:
            return await self._headers()
        except Exception as error:  # from an exec plugin, say
            raise Unreachable(f"no credentials to be had: {error}") from error

    def _refusal(self, answer: Answer) -> ApiError:
        if answer.status == 401 and self._rejected is not None:
            self._rejected()
        return from_answer(answer.status, answer.body, answer.headers, time.time())


def _urgency(resource: Resource) -> Urgency:
    return Urgency.BACKGROUND if resource == EVENTS else Urgency.URGENT


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
