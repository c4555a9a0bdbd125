"""One connection to a server: a request at a time, and its answer, as a whole or piece by piece.

llhttp reads the answers.  Nothing is repeated here: whether a request without an answer was carried out is
for its sender to find out.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import Mapping
from typing import Protocol, cast

import msgspec
from httptools import HttpParserError, HttpResponseParser

# Bytes that wait for the reader of a stream before the server has to wait, too.
AHEAD = 2**21


class Answer(msgspec.Struct, frozen=True):
    """`headers` are those that matter to who made a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Owner(Protocol):
    """Who has connections."""

    def give_back(self, connection: Connection) -> None:
        """An exchange is over, one way or another."""

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""


class Connection(asyncio.Protocol):
    """One connection, and the answer it waits for.

    Attributes:
        idle_since: When its last answer came.
        deadline: When the answer has to be there; of a stream, when something has to come.
        stream: What is being read piece by piece.
    """

    def __init__(self, owner: Owner) -> None:
        self.transport: asyncio.Transport
        self.idle_since = 0.0
        self.deadline = math.inf
        self.stream: Stream | None = None
        self._owner = owner
        self._parser = HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer | Stream] | None = None
        self._busy = self._broken = self._streamed = False
        self._largest = 0
        self._begin()

    def _begin(self) -> None:
        self._size = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._measured = self._headed = self._gzipped = False

    @property
    def usable(self) -> bool:
        """Whether it can be asked: open, with no answer to come, and nothing odd said before."""
        return not (self._busy or self._broken)

    @property
    def heard(self) -> bool:
        """Whether anything came of the answer that was asked for last."""
        return self._size > 0

    def send(
        self, request: bytes, answer: asyncio.Future[Answer | Stream], *, largest: int, streamed: bool = False
    ) -> None:
        """Write a request.

        The answer may have `largest` bytes; a good one of a `streamed` request is a stream from its head on.
        """
        self._begin()
        self._busy = True
        self._waiting = answer
        self._largest, self._streamed = largest, streamed
        self.transport.write(request)

    def fail(self, error: OSError) -> None:
        """Nothing more is expected of it."""
        self._give_up(error)
        self.transport.abort()

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        self._tell(error)
        if self.stream is not None:
            self.stream.end(error)

    def _tell(self, found: Answer | Stream | OSError) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is None or waiting.done():
            return
        if isinstance(found, OSError):
            waiting.set_exception(found)
        else:
            waiting.set_result(found)

    def close(self) -> None:
        self._broken = True
        if self._busy:
            self.fail(ConnectionAbortedError("the connection was closed"))
        self.transport.close()

    def release(self) -> None:
        """Its stream is of no more interest."""
        self.stream = None
        self._owner.give_back(self)

    def read_on(self) -> None:
        """The reader has caught up."""
        if not self.transport.is_closing():
            self.transport.resume_reading()

    # --- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if not self._busy:
            self.close()  # nobody asked
            return
        if self.stream is None:
            self._size += len(data)
            if self._size > self._largest:
                self.fail(ConnectionAbortedError(f"the answer has more than {self._largest} bytes"))
                return
        try:
            self._parser.feed_data(data)
        except HttpParserError as error:
            self.fail(ConnectionAbortedError(f"the answer is not HTTP: {error}"))
        if self.stream is not None and self.stream.arrived():
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._busy and self._headed and not self._measured and exc is None:
            self.on_message_complete()  # its end is that of the connection
        self._owner.forget(self)
        self._give_up(ConnectionResetError(str(exc) if exc else "the server closed the connection"))

    # --- called by the parser -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if not self._busy:
            self._broken = True  # more than one answer

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._measured = True
            case b"content-encoding":
                self._gzipped = value.lower() == b"gzip"
            case b"retry-after":
                self._headers["Retry-After"] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._headed = True
        if self._streamed and 200 <= self._parser.get_status_code() < 300:
            self.stream = Stream(self)
            self._tell(self.stream)

    def on_body(self, body: bytes) -> None:
        if self.stream is None:
            self._body.append(body)
        else:
            self.stream.pieces.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # only announces the answer
            self._begin()
            return
        self._broken = self._broken or not (self._measured and self._parser.should_keep_alive())
        self._busy = False
        if self.stream is not None:
            self.stream.end(None)
            return
        body = b"".join(self._body)
        self._body = []
        if not self._gzipped:
            self._tell(Answer(status, self._headers, body))
            return
        try:
            self._tell(Answer(status, self._headers, unpacked(body, self._largest)))
        except OSError as error:
            self._tell(error)


class Stream:
    """What a server sends on and on: as much at a time as came since it was read last.

    Attributes:
        pieces: What came and was not read yet.
    """

    def __init__(self, connection: Connection) -> None:
        self.pieces: list[bytes] = []
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self._heard = self._loop.time()
        self._reader: asyncio.Future[None] | None = None
        self._ended = self._paused = False
        self._error: OSError | None = None

    async def read(self) -> bytes:
        """What came, once something did; nothing at the end.

        Raises:
            TimeoutError: nothing came for long.
            OSError: the connection broke before the end.
        """
        while not self.pieces:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._reader = self._loop.create_future()
            await self._reader
        pieces, self.pieces = self.pieces, []
        if self._paused:
            self._paused = False
            self._connection.read_on()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Read no more; unless it was read to its end that ends the connection."""
        self._connection.release()

    def due(self, now: float, silence: float) -> float:
        """When something has to come next; it is not late as long as there is something to be read."""
        return (now if self.pieces else self._heard) + silence

    # --- called by the connection -------------------------------------------------------------------

    def arrived(self) -> bool:
        """Something came; whether the server is to wait until it was read."""
        self._heard = self._loop.time()
        if self.pieces:
            self._wake()
        if self._paused or self._ended or sum(map(len, self.pieces)) <= AHEAD:
            return False
        self._paused = True
        return True

    def end(self, error: OSError | None) -> None:
        if not self._ended:
            self._ended, self._error = True, error
            self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


def unpacked(body: bytes, largest: int) -> bytes:
    """What a gzipped answer says.

    Raises:
        OSError: it is not gzipped, is cut off, or has more than `largest` bytes.
    """
    unpacking = zlib.decompressobj(wbits=31)
    try:
        found = unpacking.decompress(body, largest)
    except zlib.error as error:
        raise ConnectionAbortedError(f"the answer is not gzipped: {error}") from None
    if unpacking.unconsumed_tail:
        raise ConnectionAbortedError(f"the answer has more than {largest} bytes")
    if not unpacking.eof:
        raise ConnectionAbortedError("the answer is cut off")
    return found
