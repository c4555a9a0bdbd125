"""Watches: changes to clients as they are committed, each encoded once for all of them.

A watcher is offered every change of its bucket and keeps what matches in a buffer; its task sends
the buffer.  One that does not keep up is cut off, as upstream does: it can resume from the history.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from starlette.types import Receive, Send

from berth.kube.objects import RawObject
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.server import errors
from berth.server.errors import StatusError
from berth.server.http import lists, replies
from berth.server.http.replies import AnswerShape
from berth.server.http.requests import PARTIAL, TABLE, ApiRequest
from berth.server.http.state import ServerState
from berth.server.registry.checks import FieldErrors, forbidden
from berth.server.storage.bucket import Record, WatchEvent, decode, encode
from berth.server.storage.selectors import Match
from berth.server.tables import META_V1, partial_metadata, table_head

_log = logging.getLogger(__name__)
BOOKMARK, ERROR = "BOOKMARK", "ERROR"
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BUFFER_LIMIT, _BUFFER_BYTES = 20_000, 32 * 1024 * 1024  # that a slow client may be behind
_LAST_WORDS = 10.0  # seconds for a client that was cut off to read what is under way
_INITIAL_STEP = 500


class ClientWatcher:
    """Collects what one client is to be sent."""

    def __init__(self, shape: AnswerShape, namespace: str, match: Match) -> None:
        self.since = 0  # the client has seen all up to this version, which may not have come yet
        self._shape = shape
        self._namespace = namespace
        self._match = None if match.everything else match
        self._columns_due = shape.form == TABLE
        self.buffer: list[tuple[str, WatchEvent]] = []
        self._size = 0
        self.closed = False
        self.too_slow: Callable[[], None] | None = None  # called when it is cut off for that
        self._waiter: asyncio.Future[None] | None = None

    # --- taking in

    def offer(self, event: WatchEvent) -> None:
        kind = self._kind(event)
        if kind is None or self.closed:
            return
        self._size += event.size
        if len(self.buffer) >= _BUFFER_LIMIT or self._size > _BUFFER_BYTES:
            self.buffer.clear()
            self.close()
            if self.too_slow is not None:
                self.too_slow()
            return
        self.buffer.append((kind, event))
        self.wake()

    def _kind(self, event: WatchEvent) -> str | None:
        """What the change is to this watcher; None if it is nothing."""
        if event.record.rv <= self.since or (self._namespace and event.record.key[0] != self._namespace):
            return None
        return event.type if self._match is None else self._seen(event, self._match)

    def _seen(self, event: WatchEvent, match: Match) -> str | None:
        """What the change looks like to someone who sees only matching objects."""
        if event.type == DELETED:
            last = event.prev if event.prev is not None else event.record
            return DELETED if match.matches(last) else None
        now = match.matches(event.record)
        # Without a previous version it is new, or nothing a selector sees has changed.
        before = match.matches(event.prev) if event.prev is not None else now and event.type == MODIFIED
        if now:
            return MODIFIED if before else ADDED
        return DELETED if before else None

    def close(self) -> None:
        self.closed = True
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until there is something to send, the watch is closed, or time is up."""
        if self.buffer or self.closed:
            return
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_later(max(seconds, 0), self.wake)
        try:
            await self._waiter
        finally:
            timer.cancel()
            self._waiter = None

    def take(self) -> Iterator[bytes]:
        taken, self.buffer = self.buffer, []
        self._size = 0
        return (self._frame(kind, event) for kind, event in taken)

    def missed(self, events: Iterable[WatchEvent]) -> Iterator[bytes]:
        """Frames of what happened before it was there."""
        return (self._frame(kind, event) for event in events if (kind := self._kind(event)) is not None)

    # --- encoding

    def _frame(self, kind: str, event: WatchEvent) -> bytes:
        if self._columns_due:
            return self.initial(kind, event.record)
        key = (self._shape, kind)
        frame = event.frames.get(key)
        if frame is None:
            record = event.record
            if kind == DELETED and event.type != DELETED and event.prev is not None and event.prev.data:
                record = _as_of(event.prev, event.record.rv)
            frame = event.frames[key] = self._encode(kind, record)
        return frame

    def initial(self, kind: str, record: Record) -> bytes:
        """A frame for this watcher alone: the state it starts from, or its first table row."""
        frame = self._encode(kind, record, columns=self._columns_due)
        self._columns_due = False
        return frame

    def _encode(self, kind: str, record: Record, *, columns: bool = False) -> bytes:
        data = self._shape.data(record, headers=columns)
        return b'{"type":"%s","object":%s}\n' % (kind.encode(), data)

    def bookmark(self, rv: int, *, initial_end: bool = False) -> bytes:
        metadata: RawObject = {"resourceVersion": str(rv), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        resource = self._shape.endpoint.resource
        obj: RawObject = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
        if self._shape.form == PARTIAL:
            obj.update(kind="PartialObjectMetadata", apiVersion=META_V1)
        elif self._shape.form == TABLE:
            rows = [{"cells": [], "object": partial_metadata(obj)}]
            obj = {**table_head((), {"resourceVersion": str(rv)}, headers=False), "rows": rows}
        return encode({"type": BOOKMARK, "object": obj}) + b"\n"


def _as_of(record: Record, rv: int) -> Record:
    """The record's content under a later version: what a client sees go that no longer matches."""
    obj = decode(record.data)
    obj["metadata"]["resourceVersion"] = str(rv)
    return Record(record.key, rv, encode(obj), record.uid, record.labels, record.fields)


# --- a watch from its request to its end --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Start:
    """What a watch begins with."""

    initial: Sequence[Record] = ()
    missed: Sequence[WatchEvent] = ()
    since: int = 0  # a version of which the client asks for what comes later
    announced: int | None = None  # the version in a bookmark after the initial state
    error: StatusError | None = None


async def watch(request: ApiRequest, send: Send) -> None:
    endpoint, watchers = request.endpoint, request.state.metrics.watchers
    match = lists.match_of(request)
    lists.refuse(_wrong_options(request))
    shape, bookmarks = replies.shape_of(request), request.flag("allowWatchBookmarks")
    timeout = request.number("timeoutSeconds")
    lasts = float(timeout) if timeout else 1800 * (1 + random.random())  # noqa: S311 - spreads reconnects
    watcher = ClientWatcher(shape, request.address.namespace, match)
    start = _start(request)
    watcher.since = start.since
    endpoint.bucket.listeners.add(watcher)  # no await since the state was looked at
    watchers.inc()
    gone = asyncio.create_task(_disconnect(request.receive, watcher))
    request.streaming = True
    try:
        headers = [(b"content-type", replies.JSON_TYPE), (b"cache-control", b"no-cache, private")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        stream = _frames(request.state, watcher, start, match, lasts, bookmarks=bookmarks)
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(None) as patience, contextlib.aclosing(stream) as frames:
            watcher.too_slow = lambda: patience.reschedule(loop.time() + _LAST_WORDS)
            async for piece in frames:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
    except TimeoutError:
        _log.info("watch ended path=%s: the client does not read", request.path)
    finally:
        watcher.too_slow = None
        gone.cancel()
        endpoint.bucket.listeners.discard(watcher)
        watchers.dec()


async def _disconnect(receive: Receive, watcher: ClientWatcher) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    watcher.close()


def _wrong_options(request: ApiRequest) -> FieldErrors:
    initial, matching = "sendInitialEvents" in request.query, request.query.get("resourceVersionMatch", "")
    if initial and matching != "NotOlderThan":
        detail = 'sendInitialEvents requires setting resourceVersionMatch to "NotOlderThan"'
        yield forbidden("resourceVersionMatch", detail)
    if matching and not initial:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        yield forbidden("resourceVersionMatch", detail)
    if request.query.get("continue"):
        yield forbidden("continue", "continue is forbidden for watch")


def _start(request: ApiRequest) -> _Start:
    bucket, namespace = request.endpoint.bucket, request.address.namespace
    asked = lists.parse_version(request)
    if request.flag("sendInitialEvents"):
        lists.check_version(request)
        return _Start(bucket.in_namespace(namespace), announced=request.registry.store.rv)
    if not asked:
        return _Start(() if "sendInitialEvents" in request.query else bucket.in_namespace(namespace))
    if not bucket.history.reaches(asked):
        message = f"too old resource version: {asked} ({bucket.history.trimmed})"
        return _Start(error=errors.expired(message))
    return _Start(missed=bucket.history.after(asked), since=asked)


async def _frames(
    state: ServerState, watcher: ClientWatcher, start: _Start, match: Match, lasts: float, *, bookmarks: bool
) -> AsyncGenerator[bytes, None]:
    """Everything the client gets to read, in pieces."""
    if start.error is not None:
        yield encode({"type": ERROR, "object": start.error.status()}) + b"\n"
        return
    for piece in replies.pieces(watcher.missed(start.missed)):
        yield piece
        await asyncio.sleep(0)
    loop = asyncio.get_running_loop()
    ends = loop.time() + lasts
    for step in range(0, len(start.initial), _INITIAL_STEP):
        records = start.initial[step : step + _INITIAL_STEP]
        frames = [watcher.initial(ADDED, record) for record in records if match.matches(record)]
        for piece in replies.pieces(frames):
            yield piece
        await asyncio.sleep(0)
    if start.announced is not None:
        yield watcher.bookmark(start.announced, initial_end=True)
    interval = state.settings.bookmark_interval
    due = loop.time() + interval
    while not state.stopping:
        for piece in replies.pieces(watcher.take()):
            yield piece
        now = loop.time()
        if watcher.closed or now >= ends:
            break
        if now >= due and not watcher.buffer:
            due = now + interval
            if bookmarks and state.registry.store.rv > watcher.since:
                yield watcher.bookmark(state.registry.store.rv)
        await watcher.wait(min(ends, due) - loop.time())
