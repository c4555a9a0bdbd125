"""HTTP connections with limits: how long the head of a request may be, and how long a client may take.

uvicorn bounds neither.  A timer for every wait would cost more than many a request does: all connections
are looked at once a second instead (:mod:`~berth.server.serving`), and whose client has been slow for too
long is ended.  The sizes of bodies are looked at where they are read (:mod:`~berth.server.http.bodies`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import re
import time
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from berth.server.settings import HEAD_LIMIT

LASTING = "berth.lasting"  # in the scope of a request whose answer has no end
CYCLE = "berth.cycle"  # in the scope of every request: itself as uvicorn sees it, for `answer_at_once`
_HEAD_SECONDS = 32.0  # as kube-apiserver's
_READING_SECONDS = 300.0  # for a client to read an answer
_TIDY_SECONDS, _WORTH_TIDYING = 5.0, 200  # how often to look, and connections that have ended since


class _TooLargeError(Exception):
    """Ends parsing."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection. It is closed if a request does not arrive, its head has no end, or nobody reads."""

    lost: ClassVar[int] = 0  # connections that have ended, in all

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's business
        super().__init__(*arguments, **options)
        self._chunk = 0  # bytes that came last
        self._first = 0  # bytes that came together with the beginning of the head, whatever else they were
        self._size = 0  # bytes that came after these
        self._in_head = self._too_large = False
        self._due = 0.0  # when a head must have arrived; 0 while none is waited for
        self._slow: tuple[object, float] = (None, 0.0)  # the answer that waits to be read, and since when

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        LimitedProtocol.lost += 1
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._chunk = len(data)
        self._size += self._chunk
        super().data_received(data)
        if self._in_head and self._size > HEAD_LIMIT:
            if not self.transport.is_closing():
                self._too_large = True
                self.send_400_response("")
        elif not self._due and self._awaits_head():
            self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._first, self._size = True, self._chunk, 0

    def on_headers_complete(self) -> None:
        self._in_head, self._due = False, 0.0
        sizes = (len(name) + len(value) for name, value in self.headers)
        if self._first + self._size > HEAD_LIMIT and len(self.url) + sum(sizes) > HEAD_LIMIT:
            self._too_large = True
            raise _TooLargeError
        if not self.url.startswith(b"/"):
            self._take_host_of_target()
        super().on_headers_complete()
        self.scope[CYCLE] = self.cycle  # type: ignore[literal-required]  # uvicorn lists its own

    def _take_host_of_target(self) -> None:
        """Whom a target names that is a whole URL counts instead of the header (RFC 9112, 3.2.2)."""
        _, scheme, rest = self.url.partition(b"://")
        if scheme:
            host = re.split(rb"[/?#]", rest, maxsplit=1)[0]
            self.headers[:] = [(b"host", host), *(pair for pair in self.headers if pair[0] != b"host")]

    def _unsupported_upgrade_warning(self) -> None:
        """A client may ask for another protocol, as `kubectl exec` does: what is answered says enough."""

    def send_400_response(self, msg: str) -> None:
        if not self._too_large:
            super().send_400_response(msg)
            return
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()

    def sweep(self, now: float) -> None:
        """End the connection if its client is too slow; to be called now and then."""
        cycle = self.cycle
        if self._awaits_head():
            if self._due and self._due <= now:
                self.transport.abort()
        elif self.flow.write_paused:
            if self._slow[0] is not cycle:
                self._slow = (cycle, now)
            elif now - self._slow[1] >= _READING_SECONDS and not cycle.scope.get(LASTING):
                self.transport.abort()
        elif cycle.more_body:
            cycle.message_event.set()  # who reads the body knows how long they wait

    def _awaits_head(self) -> bool:
        return self._in_head or self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._due = time.monotonic() + _HEAD_SECONDS


def answer_at_once(cycle: RequestResponseCycle, status: int, body: bytes) -> bool:
    """Send a whole answer in JSON with one write; False if there is more to it: it is to be sent as usual.

    uvicorn writes the head and the body one after the other, each with encryption of its own, which takes
    a fifth of the time for a small request.
    """
    is_head = cycle.scope["method"] == "HEAD"
    if is_head or cycle.disconnected or cycle.flow.write_paused or not cycle.keep_alive:
        return False
    cycle.response_started, cycle.waiting_for_100_continue = True, False
    head = b"%scontent-length: %d\r\ncontent-type: application/json\r\n\r\n"
    cycle.transport.write(head % (STATUS_LINE[status], len(body)) + body)
    cycle.response_complete = True
    cycle.message_event.set()
    cycle.on_response()
    return True


async def tidy() -> None:
    """Give memory back after many connections have ended.

    What they leave behind refers to itself in circles, which only the garbage collector undoes, and it
    comes rarely; and the allocator keeps what is free until it is told that nobody will ask for it soon.
    """
    before = LimitedProtocol.lost
    while True:
        await asyncio.sleep(_TIDY_SECONDS)
        if LimitedProtocol.lost - before >= _WORTH_TIDYING:
            before = LimitedProtocol.lost
            gc.collect()
            with contextlib.suppress(OSError, AttributeError):  # only glibc has it
                ctypes.CDLL(None).malloc_trim(0)
