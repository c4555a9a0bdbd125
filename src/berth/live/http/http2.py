"""HTTP/2: all requests go over one connection, side by side.

One connection saves handshakes, and most system calls and wake-ups: everything that is sent in one turn of
the event loop is one write, and all answers that arrived together are one read.

Only what a client needs of RFC 9113: no server push, no priorities, no dynamic header table.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass
from struct import Struct
from typing import cast

from berth.live.http import hpack
from berth.live.http.exchange import ConnectionPool, Exchange, NotCarriedOutError, Request

# Seconds of silence after which a PING is sent, and seconds to wait for its answer.
QUIET = 15.0
# Flow control: bytes of an answer that the server may send before they are acknowledged.
WINDOW = 2**22
# Bytes of the head of an answer.
_LARGEST_HEAD = 2**18
_LAST_NUMBER = _MOST = 2**31 - 1
_FRAME = 2**14  # bytes that a frame may have, unless other sizes are agreed on
_FIRST_WINDOW = 2**16 - 1

_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _RST_STREAM, _SETTINGS, _PUSH_PROMISE = 0, 1, 3, 4, 5
_PING, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 6, 7, 8, 9
_END_STREAM = _ACK = 0x1
_END_HEADERS, _PADDED, _PRIORITY = 0x4, 0x8, 0x20
_NO_ERROR, _REFUSED, _CANCEL = 0x0, 0x7, 0x8
_TABLE_SIZE, _ENABLE_PUSH, _CONCURRENT, _INITIAL_WINDOW, _FRAME_SIZE = 1, 2, 3, 4, 5
_HEAD = Struct(">BHBBL")
_SETTING = Struct(">HL")
_METHODS = {"GET": b"\x82", "POST": b"\x83"}
_HTTPS = b"\x87"
_PATH, _LENGTH = b"\x04", b"\x0f\x0d"


class _ProtocolError(ValueError):
    """The server does not speak HTTP/2."""


@dataclass(slots=True)
class _Unsent:
    """The unsent rest of a body, and the stream's flow-control window."""

    body: bytes
    window: int


class Http2Connection(asyncio.Protocol):
    """One connection and the exchanges that go over it.

    Attributes:
        agreed: Done once the server's SETTINGS have come.
    """

    def __init__(self, owner: ConnectionPool) -> None:
        self.transport: asyncio.Transport
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.agreed: asyncio.Future[None] = self._loop.create_future()
        self._exchanges: dict[int, Exchange] = {}
        self._number = 1
        self._heard = self._loop.time()
        self._pinged = -math.inf
        self._broken = self._leaving = False
        self._in = b""
        self._out: list[bytes] = []
        self._unfinished: tuple[int, int, bytearray] | None = None  # a head in several frames
        self._unsent: dict[int, _Unsent] = {}
        # Limits from the server's SETTINGS.
        self._window = self._initial_window = _FIRST_WINDOW
        self._frame, self._concurrent = _FRAME, 100
        self._credit = 0  # bytes that came and are not acknowledged yet
        self._handlers: dict[int, Callable[[int, int, bytes], None]] = {
            _DATA: self._data,
            _HEADERS: self._headers,
            _RST_STREAM: self._reset,
            _SETTINGS: self._settings,
            _PUSH_PROMISE: self._push_promise,
            _PING: self._ping,
            _GOAWAY: self._goaway,
            _WINDOW_UPDATE: self._window_update,
            _CONTINUATION: self._continuation,
        }

    @property
    def usable(self) -> bool:
        """Whether a request can be sent."""
        return (
            not (self._broken or self._leaving)
            and len(self._exchanges) < self._concurrent
            and self._number < _LAST_NUMBER
        )

    def trusted(self, now: float) -> bool:
        """Whether it is usable and not so long unused that it may be dead."""
        return self.usable and (bool(self._exchanges) or self._heard >= now - QUIET)

    # --- asking -------------------------------------------------------------------------------------

    def send(self, request: Request, exchange: Exchange) -> None:
        number = exchange.number = self._number
        self._number += 2
        self._exchanges[number] = exchange
        method, body = request.method, request.body
        begin = _METHODS.get(method) or hpack.packed(":method", method)
        target = hpack.text(request.target.encode("ascii"))
        block = b"%b%b%b%b%b" % (begin, _HTTPS, _PATH, target, request.head.block)
        if not body:
            self._write_head(number, block, _END_STREAM)
            return
        block = b"%b%b%b" % (block, _LENGTH, hpack.text(b"%d" % len(body)))
        self._write_head(number, block, 0)
        if len(body) <= self._frame and len(body) <= self._window and len(body) <= self._initial_window:
            self._window -= len(body)
            self._write(_DATA, _END_STREAM, number, body)
        else:
            self._unsent[number] = _Unsent(body, self._initial_window)
            self._send_on(number)

    def _write_head(self, number: int, block: bytes, flags: int) -> None:
        kind = _HEADERS
        while len(block) > self._frame:
            self._write(kind, flags, number, block[: self._frame])
            block, kind, flags = block[self._frame :], _CONTINUATION, 0
        self._write(kind, flags | _END_HEADERS, number, block)

    def _send_on(self, number: int) -> None:
        """Send as much of a body as the flow-control windows allow."""
        unsent = self._unsent[number]
        while (size := min(len(unsent.body), self._frame, self._window, unsent.window)) > 0:
            piece, unsent.body = unsent.body[:size], unsent.body[size:]
            self._window -= size
            unsent.window -= size
            self._write(_DATA, 0 if unsent.body else _END_STREAM, number, piece)
            if not unsent.body:
                del self._unsent[number]
                return

    def _write(self, kind: int, flags: int, number: int, payload: bytes) -> None:
        """Write a frame, with others of this turn of the loop."""
        if not self._out:
            self._loop.call_soon(self._flush)
        size = len(payload)
        self._out.append(_HEAD.pack(size >> 16, size & 0xFFFF, kind, flags, number))
        self._out.append(payload)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if out and not self.transport.is_closing():
            self.transport.write(b"".join(out))

    # --- giving up ----------------------------------------------------------------------------------

    def release(self, exchange: Exchange) -> None:
        if self._exchanges.get(exchange.number) is exchange:
            self._drop(exchange.number, _CANCEL)
        self._owner.give_back(self, exchange)

    def _drop(self, number: int, code: int) -> None:
        del self._exchanges[number]
        self._unsent.pop(number, None)
        self._write(_RST_STREAM, 0, number, code.to_bytes(4, "big"))

    def read_on(self, exchange: Exchange) -> None:
        if self._exchanges.get(exchange.number) is exchange:
            self._grant(exchange)

    def time_out(self, exchange: Exchange) -> None:
        exchange.fail(TimeoutError("silent for too long"))

    def close(self) -> None:
        self._give_up(ConnectionAbortedError("the connection was closed"))
        self._flush()
        self.transport.close()

    def abort(self) -> None:
        self.transport.abort()

    def close_if_done(self) -> None:
        """Close it once nothing goes over it any more."""
        if not self._exchanges:
            self.close()

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        if not self.agreed.done():
            self.agreed.set_exception(error)
            self.agreed.exception()  # mark it as retrieved: nobody may be waiting for it
        exchanges, self._exchanges = self._exchanges, {}
        for exchange in exchanges.values():
            exchange.fail(error)

    def look_after(self, now: float) -> float:
        """Send a PING if the server was silent for long; returns when to look again."""
        if not self._exchanges:
            return math.inf
        if now < self._heard + QUIET:
            return self._heard + QUIET
        if self._pinged <= self._heard:  # equal if the answer came within one tick of the clock
            self._pinged = now
            self._write(_PING, 0, 0, bytes(8))
        if now < self._pinged + QUIET:
            return self._pinged + QUIET
        self._give_up(ConnectionResetError(f"the server was silent for {2 * QUIET:g} seconds"))
        self.transport.abort()
        return math.inf

    # --- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        agreed = ((_TABLE_SIZE, 0), (_ENABLE_PUSH, 0), (_INITIAL_WINDOW, WINDOW))
        self._out.append(_PREFACE)
        self._write(_SETTINGS, 0, 0, b"".join(_SETTING.pack(*setting) for setting in agreed))
        self._write(_WINDOW_UPDATE, 0, 0, (_MOST - _FIRST_WINDOW).to_bytes(4, "big"))
        self._flush()

    def pause_writing(self) -> None:
        self.transport.pause_reading()  # a server that reads nothing is not read from either

    def resume_writing(self) -> None:
        self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._broken:
            return
        self._heard = self._loop.time()
        if self._in:
            data = self._in + data
        at, end = 0, len(data)
        try:
            while at + 9 <= end and not self._broken:
                high, low, kind, flags, number = _HEAD.unpack_from(data, at)
                size = high << 16 | low
                if size > _FRAME:
                    raise _ProtocolError("a frame is too large")
                following = at + 9 + size
                if following > end:
                    break
                if self._unfinished is not None and kind != _CONTINUATION:
                    raise _ProtocolError("a head is interrupted")
                handler = self._handlers.get(kind)
                if handler is not None:
                    handler(flags, number & _LAST_NUMBER, data[at + 9 : following])
                at = following
        except ValueError as error:
            self._give_up(ConnectionAbortedError(f"the answer is not HTTP: {error}"))
            self.transport.abort()
        self._in = data[at:] if at < end else b""

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.forget(self)
        self._give_up(ConnectionResetError(str(exc) if exc else "the server closed the connection"))

    # --- frames -------------------------------------------------------------------------------------

    def _data(self, flags: int, number: int, payload: bytes) -> None:
        size = len(payload)
        self._credit += size
        if self._credit > _MOST // 2:
            self._write(_WINDOW_UPDATE, 0, 0, self._credit.to_bytes(4, "big"))
            self._credit = 0
        exchange = self._exchanges.get(number)
        if exchange is None:
            return  # the exchange was given up
        if not exchange.headed:
            raise _ProtocolError("an answer has no head")
        if flags & _PADDED:
            payload = _without_padding(payload)
        if not exchange.received(size):
            self._drop(number, _CANCEL)
            return
        if payload:
            exchange.take(payload)
        if flags & _END_STREAM:
            self._end(number, exchange)
            return
        exchange.credit += size
        if exchange.credit > WINDOW:
            raise _ProtocolError("more was sent than may be")
        if exchange.stream is not None:
            exchange.stream.arrived()
            if exchange.stream.behind:
                return
        if exchange.credit >= WINDOW // 2:
            self._grant(exchange)

    def _grant(self, exchange: Exchange) -> None:
        """Acknowledge the bytes that came, so that the server may send as many more."""
        if exchange.credit:
            self._write(_WINDOW_UPDATE, 0, exchange.number, exchange.credit.to_bytes(4, "big"))
            exchange.credit = 0

    def _headers(self, flags: int, number: int, payload: bytes) -> None:
        if flags & _PADDED:
            payload = _without_padding(payload)
        if flags & _PRIORITY:
            payload = payload[5:]
        if flags & _END_HEADERS:
            self._headed(flags, number, payload)
        else:
            self._unfinished = number, flags, bytearray(payload)

    def _continuation(self, flags: int, number: int, payload: bytes) -> None:
        if self._unfinished is None or self._unfinished[0] != number:
            raise _ProtocolError("a head is continued that was not begun")
        _, first, block = self._unfinished
        block += payload
        if len(block) > _LARGEST_HEAD:
            raise _ProtocolError("a head is too large")
        if flags & _END_HEADERS:
            self._unfinished = None
            self._headed(first, number, bytes(block))

    def _headed(self, flags: int, number: int, block: bytes) -> None:
        exchange = self._exchanges.get(number)
        if exchange is None:
            return
        if not exchange.headed:
            status, fields = hpack.read_head(block)
            if not 100 <= status <= 999:
                raise _ProtocolError("an answer has no status")
            exchange.heard = True
            if status >= 200:
                exchange.head(status, fields.get(b"retry-after"), fields.get(b"content-encoding"))
            elif flags & _END_STREAM:
                raise _ProtocolError("an answer is only announced")
        elif not flags & _END_STREAM:
            raise _ProtocolError("an answer has two heads")
        if flags & _END_STREAM:
            self._end(number, exchange)

    def _end(self, number: int, exchange: Exchange) -> None:
        if number in self._unsent:
            self._drop(number, _NO_ERROR)
        else:
            del self._exchanges[number]
        if exchange.stream is not None:
            exchange.stream.arrived()
        exchange.end()

    def _reset(self, _: int, number: int, payload: bytes) -> None:
        exchange = self._exchanges.pop(number, None)
        self._unsent.pop(number, None)
        if exchange is None:
            return
        code = int.from_bytes(payload, "big")
        if code == _REFUSED:
            exchange.fail(NotCarriedOutError("the server does not take the request"))
        else:
            exchange.fail(ConnectionAbortedError(f"the server gave the request up (HTTP/2 error {code})"))

    def _settings(self, flags: int, _: int, payload: bytes) -> None:
        if flags & _ACK:
            return
        if len(payload) % _SETTING.size:
            raise _ProtocolError("settings are cut off")
        for setting, value in _SETTING.iter_unpack(payload):
            if setting == _INITIAL_WINDOW:
                if value > _MOST:
                    raise _ProtocolError("a window is too large")
                for unsent in self._unsent.values():
                    unsent.window += value - self._initial_window
                self._initial_window = value
            elif setting == _FRAME_SIZE:
                if not _FRAME <= value < 2**24:
                    raise _ProtocolError("frames cannot have that size")
                self._frame = value
            elif setting == _CONCURRENT:
                self._concurrent = max(value, 1)  # 0 is passing: a request that is sent then is refused
        self._write(_SETTINGS, _ACK, 0, b"")
        if not self.agreed.done():
            self.agreed.set_result(None)
        self._send_all_on()

    def _send_all_on(self) -> None:
        for number in list(self._unsent):
            self._send_on(number)

    def _push_promise(self, *_: object) -> None:
        raise _ProtocolError("nobody asked")

    def _ping(self, flags: int, _: int, payload: bytes) -> None:
        if not flags & _ACK:
            self._write(_PING, _ACK, 0, payload[:8])

    def _goaway(self, _: int, __: int, payload: bytes) -> None:
        """GOAWAY: the server handles no requests after the one that it names."""
        self._leaving = True
        last = int.from_bytes(payload[:4], "big") & _LAST_NUMBER
        for number in [number for number in self._exchanges if number > last]:
            self._unsent.pop(number, None)
            self._exchanges.pop(number).fail(NotCarriedOutError("the server goes away"))
        self._owner.give_back(self)

    def _window_update(self, _: int, number: int, payload: bytes) -> None:
        size = int.from_bytes(payload, "big") & _MOST
        if number == 0:
            self._window += size
            if self._window > _MOST:
                raise _ProtocolError("a window is too large")
            self._send_all_on()
        elif number in self._unsent:
            self._unsent[number].window += size
            self._send_on(number)


def _without_padding(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise _ProtocolError("a frame has more padding than bytes")
    return payload[1 : len(payload) - payload[0]]
