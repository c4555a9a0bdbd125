"""HTTP/1.1: a connection has one request at a time.

llhttp parses the answers.  Nothing is sent twice here: the caller has to find out whether a request without
an answer was carried out.
"""

from __future__ import annotations

import asyncio
from typing import cast

from httptools import HttpParserError, HttpResponseParser

from berth.live.http.exchange import ConnectionPool, Exchange, Request


class Http1Connection(asyncio.Protocol):
    """One connection, and the exchange that it is busy with.

    Attributes:
        idle_since: When its last answer came.
    """

    def __init__(self, owner: ConnectionPool) -> None:
        self.transport: asyncio.Transport
        self.idle_since = 0.0
        self._owner = owner
        self._parser = HttpResponseParser(self)
        self._exchange: Exchange | None = None
        self._broken = False
        self._begin()

    def _begin(self) -> None:
        self._retry_after: bytes | None = None
        self._encoding: bytes | None = None
        self._measured = self._headed = False

    @property
    def usable(self) -> bool:
        """Whether a request can be sent: no answer is to come, and the server kept to the protocol so far."""
        return self._exchange is None and not self._broken

    def send(self, request: Request, exchange: Exchange) -> None:
        line = f"{request.method} {request.target} HTTP/1.1\r\n".encode("ascii")
        lines, body = request.head.lines, request.body
        if body is None:
            self.write(b"%b%b\r\n\r\n" % (line, lines), exchange)
        else:
            length = b"\r\nContent-Length: %d\r\n\r\n" % len(body)
            self.write(b"%b%b%b%b" % (line, lines, length, body), exchange)

    def write(self, request: bytes, exchange: Exchange) -> None:
        """Write a request that is made already."""
        self._begin()
        self._exchange = exchange
        self.transport.write(request)

    def fail(self, error: OSError) -> None:
        """Fail the exchange under way, and take no further one."""
        self._give_up(error)
        self.transport.abort()

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        if self._exchange is not None:
            self._exchange.fail(error)

    def close(self) -> None:
        self._broken = True
        if self._exchange is not None:
            self.fail(ConnectionAbortedError("the connection was closed"))
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def release(self, exchange: Exchange) -> None:
        exchange.stream = None
        self._owner.give_back(self, exchange)

    def read_on(self, exchange: Exchange) -> None:  # noqa: ARG002 - there is but one
        if not self.transport.is_closing():
            self.transport.resume_reading()

    def time_out(self, exchange: Exchange) -> None:  # noqa: ARG002 - there is but one
        self.fail(TimeoutError("silent for too long"))

    # --- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self.close()  # bytes without a request
            return
        if not exchange.received(len(data)):
            self._broken = True
            self.transport.abort()
            return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self.fail(ConnectionAbortedError(f"the answer is not HTTP: {error}"))
        stream = exchange.stream
        if stream is not None and not stream.behind:
            stream.arrived()
            if stream.behind:
                self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._exchange is not None and self._headed and not self._measured and exc is None:
            self.on_message_complete()  # an answer without a length ends with the connection
        self._owner.forget(self)
        self._give_up(ConnectionResetError(str(exc) if exc else "the server closed the connection"))

    # --- called by the parser -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._exchange is None:
            self._broken = True  # more than one answer

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._measured = True
            case b"content-encoding":
                self._encoding = value
            case b"retry-after":
                self._retry_after = value

    def on_headers_complete(self) -> None:
        self._headed = True
        status = self._parser.get_status_code()
        if self._exchange is not None and status >= 200:
            self._exchange.head(status, self._retry_after, self._encoding)

    def on_body(self, body: bytes) -> None:
        if self._exchange is not None:
            self._exchange.take(body)

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() < 200:  # 1xx: the answer is yet to come
            self._begin()
            return
        self._broken = self._broken or not (self._measured and self._parser.should_keep_alive())
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.end()
