"""A request under way: what is sent, how much of the answer has arrived, and who waits for it.

How it goes over the wire is the connections' business, in `http1` and `http2`.
"""

from __future__ import annotations

import asyncio
import math
import zlib
from collections.abc import Mapping
from typing import Protocol

import msgspec

# Unread bytes of a stream from which on the server is told to wait.
AHEAD = 2**21


class RequestHead(msgspec.Struct, frozen=True):
    """The fields of a request, made once for many: lines for HTTP/1.1, and packed for HTTP/2."""

    lines: bytes
    block: bytes


class Request(msgspec.Struct, frozen=True):
    method: str
    target: str
    head: RequestHead
    body: bytes | None


class Answer(msgspec.Struct, frozen=True):
    """What the server answered; of its headers only those that callers use."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class NotCarriedOutError(ConnectionResetError):
    """The server says that it has not begun with a request, so that it may be made again."""


class Connection(Protocol):
    """A connection, as an exchange sees it: HTTP/1.1 or HTTP/2."""

    @property
    def usable(self) -> bool:
        """Whether a request can be sent now."""

    def send(self, request: Request, exchange: Exchange) -> None:
        """Write a request."""

    def release(self, exchange: Exchange) -> None:
        """Give an exchange up: nobody waits for the rest of its answer."""

    def read_on(self, exchange: Exchange) -> None:
        """Let the server go on: the reader of the stream has caught up."""

    def time_out(self, exchange: Exchange) -> None:
        """Let an exchange fail whose answer did not come in time."""

    def close(self) -> None:
        """Close in order; exchanges that are under way fail."""

    def abort(self) -> None:
        """Close without waiting for the server."""


class ConnectionPool(Protocol):
    """The pool as its connections see it."""

    def give_back(self, connection: Connection, exchange: Exchange | None = None) -> None:
        """Take a connection back: an exchange has ended, well or not, or it accepts no more requests."""

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""


class Exchange:
    """A request under way.

    Attributes:
        answer: The result: an answer, or a stream if one was asked for and the status is a success.
        deadline: When the answer must be complete; for a stream, when the next bytes must come.
        silence: For a stream: so many seconds may pass without bytes.
        heard: Whether anything came.
        stream: What is being read piece by piece.
        number: Its stream identifier on an HTTP/2 connection.
        credit: Bytes that came and are not yet acknowledged by a WINDOW_UPDATE.
    """

    __slots__ = (
        "_body",
        "_gzipped",
        "_headers",
        "_largest",
        "_loop",
        "_size",
        "_status",
        "_streamed",
        "answer",
        "connection",
        "credit",
        "deadline",
        "heard",
        "number",
        "silence",
        "stream",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, connection: Connection, largest: int, *, streamed: bool = False
    ) -> None:
        self.answer: asyncio.Future[Answer | Stream] = loop.create_future()
        self.connection = connection
        self.deadline = self.silence = math.inf
        self.heard = False
        self.stream: Stream | None = None
        self.number = self.credit = 0
        self._loop = loop
        self._largest, self._streamed = largest, streamed
        self._status = self._size = 0
        self._headers: Mapping[str, str] = {}
        self._body: list[bytes] = []
        self._gzipped = False

    @property
    def headed(self) -> bool:
        """Whether the head of the answer is there."""
        return self._status > 0

    def received(self, size: int) -> bool:
        """Count bytes that came; False once there are more than the answer may have."""
        self.heard = True
        self._size += size
        if self._size <= self._largest or self.stream is not None:
            return True
        self.fail(ConnectionAbortedError(f"the answer has more than {self._largest} bytes"))
        return False

    def head(self, status: int, retry_after: bytes | None, encoding: bytes | None) -> None:
        self._status = status
        if retry_after is not None:
            self._headers = {"Retry-After": retry_after.decode("latin-1")}
        self._gzipped = encoding is not None and encoding.lower() == b"gzip"
        if self._streamed and 200 <= status < 300:
            self.stream = Stream(self, self._loop)
            self._tell(self.stream)

    def take(self, piece: bytes) -> None:
        if self.stream is None:
            self._body.append(piece)
        else:
            self.stream.take(piece)

    def end(self) -> None:
        """The answer is there as a whole."""
        if self.stream is not None:
            self.stream.end(None)
            return
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        try:
            self._tell(
                Answer(self._status, self._headers, unpacked(body, self._largest) if self._gzipped else body)
            )
        except OSError as error:
            self._tell(error)

    def fail(self, error: OSError) -> None:
        self._tell(error)
        if self.stream is not None:
            self.stream.end(error)

    def _tell(self, found: Answer | Stream | OSError) -> None:
        if self.answer.done():
            return
        if isinstance(found, OSError):
            self.answer.set_exception(found)
        else:
            self.answer.set_result(found)


class Stream:
    """An answer without an end, such as a watch's: a read gives all that came since the last one.

    Attributes:
        pieces: What came and was not read yet.
        behind: Whether the server waits until it was read.
    """

    def __init__(self, exchange: Exchange, loop: asyncio.AbstractEventLoop) -> None:
        self.pieces: list[bytes] = []
        self.behind = False
        self._exchange = exchange
        self._loop = loop
        self._heard = loop.time()
        self._reader: asyncio.Future[None] | None = None
        self._size = 0  # of the pieces
        self._ended = False
        self._error: OSError | None = None

    async def read(self) -> bytes:
        """Wait for bytes, and return all that have come; empty at the end.

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
        pieces, self.pieces, self._size = self.pieces, [], 0
        if self.behind:
            self.behind = False
            self._exchange.connection.read_on(self._exchange)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def close(self) -> None:
        """Read no more."""
        self._exchange.connection.release(self._exchange)

    def due(self, now: float, silence: float) -> float:
        """By when the next bytes must come; while there are unread ones the clock does not run."""
        return (now if self.pieces else self._heard) + silence

    # --- called by the connection -------------------------------------------------------------------

    def take(self, piece: bytes) -> None:
        self.pieces.append(piece)
        self._size += len(piece)

    def arrived(self) -> None:
        """Note that bytes came, and wake the reader if there is something to read."""
        self._heard = self._loop.time()
        if self.pieces:
            self._wake()
            self.behind = self.behind or (not self._ended and self._size > AHEAD)

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
