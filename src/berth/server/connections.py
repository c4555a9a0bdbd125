"""HTTP connections with limits: how long the head of a request may be, and how long it may take to arrive.

uvicorn bounds neither.  Bodies have limits of their own (:mod:`~berth.server.http.bodies`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
from http import HTTPStatus
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from berth.server.settings import HEAD_LIMIT

_HEAD_SECONDS = 32.0  # as kube-apiserver's
_TIDY_SECONDS, _WORTH_TIDYING = 5.0, 200  # how often to look, and connections that have ended since


class _TooLargeError(Exception):
    """Ends parsing."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection. It is closed if a request does not arrive, or its head goes on without end."""

    lost: ClassVar[int] = 0  # connections that have ended, in all

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401 - uvicorn's business
        super().__init__(*arguments, **options)
        self._size = 0  # of the head that is being read
        self._in_head = False
        self._too_large = False
        self._patience: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        LimitedProtocol.lost += 1
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._size > HEAD_LIMIT:
            self._too_large = True
            self.send_400_response("")
        elif (self._in_head or self._is_idle()) and self._patience is None:
            self._wait()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._size = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > HEAD_LIMIT:
            self._too_large = True
            raise _TooLargeError
        self._stop_waiting()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if not self._too_large:
            super().send_400_response(msg)
            return
        status = HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        head = f"HTTP/1.1 {status.value} {status.phrase}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode())
        self.transport.close()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _wait(self) -> None:
        self._patience = self.loop.call_later(_HEAD_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._patience = None
        if self.transport is not None and (self._in_head or self._is_idle()):
            self.transport.abort()


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
