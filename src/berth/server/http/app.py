"""The ASGI application: every request is let in, addressed, answered and counted here."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterable

from starlette.types import Receive, Scope, Send

from berth.server import errors
from berth.server.connections import CYCLE, LASTING, tidy
from berth.server.errors import StatusError
from berth.server.http import handlers
from berth.server.http.documents import Documents
from berth.server.http.replies import Reply, of_error, send_reply
from berth.server.http.requests import NOBODY, Address, ApiRequest, Gate, acting_user, parse_path, parse_query
from berth.server.http.state import ServerState
from berth.server.registry import bootstrap
from berth.server.registry.kinds.access.roles import may_everything, require
from berth.server.registry.kinds.cluster.events import expire
from berth.server.storage.journal import JournalError

_log = logging.getLogger(__name__)
_NOWHERE = Address("", "", "")
_EVENT_SECONDS = 3600.0  # that an Event is kept


class Api:
    """The whole API as one plain ASGI callable: nothing between a request and its handler."""

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._gate = Gate(state.settings, state.registry)
        self._documents = Documents(state)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._serve(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        """Run the background tasks from the server's start to its end (ASGI lifespan)."""
        registry, settings = self._state.registry, self._state.settings
        await receive()
        registry.store.start(asyncio.get_running_loop())
        await bootstrap.fill(registry, settings)
        work = (expire(registry, _EVENT_SECONDS), bootstrap.keep(registry, settings), tidy())
        tasks = [asyncio.create_task(each) for each in work]
        self._state.ready = True
        try:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        finally:
            for task in tasks:
                task.cancel()
        await send({"type": "lifespan.shutdown.complete"})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["raw_path"].decode("latin-1") if "raw_path" in scope else scope["path"]
        request = ApiRequest(
            self._state,
            scope["method"],
            path,
            parse_path(path) or _NOWHERE,
            parse_query(scope["query_string"]),
            _headers(scope["headers"]),
            receive,
            scope.pop(CYCLE, None),  # which refers to its scope: nothing is left to collect in the end
        )
        if request.verb == "watch":
            scope[LASTING] = True
        try:
            self._admit(request, scope["headers"])
            reply = await self._answer(request, send)
        except Exception as error:
            reply = _failed(error, request)
            if request.streaming:
                raise
        if reply is not None:
            try:
                await send_reply(request, send, reply)
            except StatusError as error:
                await send_reply(request, send, of_error(error))
        seconds = time.perf_counter() - request.started if reply is not None else None
        code = reply.status if reply is not None else 200
        self._state.metrics.observe(request.verb, request.resource, code, seconds)

    def _admit(self, request: ApiRequest, headers: Iterable[tuple[bytes, bytes]]) -> None:
        """Authenticate a request, and authorize it."""
        registry = self._state.registry
        user = self._gate.check(request.path, request.headers)
        request.user = user = acting_user(registry, user, headers)
        # Without a user a request gets this far only for health checks.
        if user is not NOBODY and not may_everything(user):
            require(registry, user, request.attributes())

    async def _answer(self, request: ApiRequest, send: Send) -> Reply | None:
        address = request.address
        if address is _NOWHERE:
            return self._documents.answer(request)
        endpoint = self._state.registry.lookup(address.group, address.version, address.plural)
        if endpoint is None:
            raise errors.unknown_path()
        request.endpoint, request.resource = endpoint, endpoint.resource.plural
        return await handlers.handle(request, send)


def _headers(given: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    headers = dict(given)
    if len(headers) < len(given):
        hosts = [value for name, value in given if name == b"host"]
        if len(hosts) > 1:  # together they are no valid host
            headers[b"host"] = b", ".join(hosts)
    return headers


def _failed(error: Exception, request: ApiRequest) -> Reply:
    if isinstance(error, StatusError):
        return of_error(error)
    if isinstance(error, RecursionError):
        return of_error(errors.bad_request("the object provided is nested too deeply"))
    if isinstance(error, JournalError):
        return of_error(errors.internal(str(error)))
    _log.error("request failed method=%s path=%s", request.method, request.path, exc_info=error)
    return of_error(errors.internal(f"{type(error).__name__}: {error}"))
