"""Small requests, many of them: HTTP/1.1 on kept-alive connections, and nothing around it.

A binding through a full HTTP client costs more than deciding on it.  Here the head of a request is made once
and only path, length and body differ; the answer is read by llhttp.  One request is under way on a
connection at a time, and none is repeated: whether one without an answer was carried out is for its sender to
find out.  No proxies, no redirects, no cookies: whoever needs them asks through aiohttp.
"""

from __future__ import annotations

import asyncio
import logging
import re
import ssl
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from httptools import HttpParserError, HttpResponseParser

from berth.live.errors import NotSent, Status, Unreachable, from_status
from berth.live.turns import Fence

# Bytes of an answer to a write, its head included: it is one object, and servers store none of this size.
LARGEST = 2**24
# Seconds after which a connection that was not used is not trusted any more.
IDLE = 15.0
_CLOSING = 1.0  # seconds for connections to say goodbye
_AS_IT_IS = re.compile(r"[A-Za-z0-9/._:~-]*")  # a path that needs no quoting


class Answer(msgspec.Struct, frozen=True):
    """`headers` are those that matter to who made a request."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Direct:
    """Connections to one server, as many as there are requests at a time.

    Args:
        url: Of the server; its path goes before every other.
        context: For https.
        server_hostname: Whom the certificate is to be of, if not the URL's host.
    """

    def __init__(
        self, url: str, context: ssl.SSLContext | None, *, server_hostname: str | None = None
    ) -> None:
        parts = urlsplit(url)
        secure = parts.scheme == "https"
        self._host = parts.hostname or ""
        self._port = parts.port or (443 if secure else 80)
        self._context = context if secure else None
        self._server_hostname = (server_hostname or self._host) if secure else None
        self._prefix = parts.path.rstrip("/")
        self._name = parts.netloc
        self._heads: dict[tuple[str, str], tuple[Mapping[str, str], bytes]] = {}
        self._open: set[_Connection] = set()
        self._idle: deque[_Connection] = deque()  # the one used last is the last
        self._all_gone = asyncio.Event()

    @staticmethod
    def reaches(url: str) -> bool:
        """Whether requests can be made this way: not with a name and a password in the URL."""
        parts = urlsplit(url)
        plain = url.isascii() and parts.username is None and _AS_IT_IS.fullmatch(parts.path) is not None
        return plain and parts.scheme in ("http", "https") and bool(parts.hostname)

    @staticmethod
    def takes(path: str) -> bool:
        """Whether a path can be sent as it is."""
        return _AS_IT_IS.fullmatch(path) is not None

    async def ask(
        self,
        method: str,
        path: str,
        body: bytes,
        *,
        headers: Mapping[str, str],
        kind: tuple[str, str],
        seconds: float,
        fence: Fence | None = None,
    ) -> Answer:
        """Make a request for a path that it `takes`; its answer, whatever it says.

        `headers` prove who we are, `kind` is Content-Type and Accept, `seconds` are for the request as a
        whole, and the `fence` is asked right before it is written.

        Raises:
            NotSent: the fence did not let it through.
            OSError: there is no connection, or it broke, or was silent for too long.
        """
        head = self._head(headers, kind)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        connection = self._take(loop.time()) or await self._connect(deadline)
        if fence is not None and not fence.lets_through():
            connection.close()
            raise NotSent
        sent = f"{method} {self._prefix}{path} HTTP/1.1\r\n".encode("ascii")
        answer = connection.send(b"%b%b%d\r\n\r\n%b" % (sent, head, len(body), body), loop.create_future())
        timer = loop.call_at(deadline, connection.fail, TimeoutError(f"no answer for {seconds:g} seconds"))
        try:
            found = await answer
        finally:
            timer.cancel()
            self._give_back(connection, loop.time())
        return found

    async def close(self) -> None:
        """Close every connection; requests that are under way fail."""
        self._all_gone.clear()
        for connection in list(self._open):
            connection.close()
        try:
            async with asyncio.timeout(_CLOSING):
                if self._open:
                    await self._all_gone.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.transport.abort()

    def forget(self, connection: _Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        if not self._open:
            self._all_gone.set()

    def _head(self, headers: Mapping[str, str], kind: tuple[str, str]) -> bytes:
        known = self._heads.get(kind)
        if known is not None and known[0] == headers:
            return known[1]
        content_type, accept = kind
        fields = {
            "Host": self._name,
            "Accept": accept,
            "Accept-Encoding": "identity",
            "Content-Type": content_type,
            **headers,
            "Content-Length": "",
        }
        lines = [f"{name}: {value}" for name, value in fields.items()]
        if any("\r" in line or "\n" in line for line in lines):
            raise OSError("a header cannot have a line break")
        head = "\r\n".join(lines).encode()
        self._heads[kind] = dict(headers), head
        return head

    def _take(self, now: float) -> _Connection | None:
        """A connection that is there; those that nobody used for long are closed."""
        idle = self._idle
        while idle and (idle[0].idle_since < now - IDLE or not idle[0].usable):
            idle.popleft().close()
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    def _give_back(self, connection: _Connection, now: float) -> None:
        if connection.usable:
            connection.idle_since = now
            self._idle.append(connection)
        else:
            connection.close()

    async def _connect(self, deadline: float) -> _Connection:
        async with asyncio.timeout_at(deadline):
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: _Connection(self),
                self._host,
                self._port,
                ssl=self._context,
                server_hostname=self._server_hostname,
            )
        self._open.add(connection)
        return connection


class _Connection(asyncio.Protocol):
    """One connection, and the answer it waits for.

    Attributes:
        idle_since: When its last answer came.
    """

    def __init__(self, owner: Direct) -> None:
        self.transport: asyncio.Transport
        self.idle_since = 0.0
        self._owner = owner
        self._parser = HttpResponseParser(self)
        self._waiting: asyncio.Future[Answer] | None = None
        self._broken = False
        self._begin()

    def _begin(self) -> None:
        self._size = 0
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._measured = self._headed = False

    @property
    def usable(self) -> bool:
        """Whether it can be asked: open, with no answer to come, and nothing odd said before."""
        return self._waiting is None and not self._broken

    def send(self, request: bytes, answer: asyncio.Future[Answer]) -> asyncio.Future[Answer]:
        self._begin()
        self._waiting = answer
        self.transport.write(request)
        return answer

    def fail(self, error: OSError) -> None:
        """Nothing more is expected of it."""
        self._give_up(error)
        self.transport.abort()

    def _give_up(self, error: OSError) -> None:
        self._broken = True
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def close(self) -> None:
        self._broken = True
        if self._waiting is not None:
            self.fail(ConnectionAbortedError("the connection was closed"))
        self.transport.close()

    # --- called by the loop -------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        if self._waiting is None:
            self.close()  # nobody asked
        elif self._size > LARGEST:
            self.fail(ConnectionAbortedError(f"the answer has more than {LARGEST} bytes"))
        else:
            try:
                self._parser.feed_data(data)
            except HttpParserError as error:
                self.fail(ConnectionAbortedError(f"the answer is not HTTP: {error}"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._waiting is not None and self._headed and not self._measured and exc is None:
            self.on_message_complete()  # its end is that of the connection
        self._owner.forget(self)
        self._give_up(ConnectionResetError(str(exc) if exc else "the server closed the connection"))

    # --- called by the parser -----------------------------------------------------------------------

    def on_message_begin(self) -> None:
        if self._waiting is None:
            self._broken = True  # more than one answer

    def on_header(self, name: bytes, value: bytes) -> None:
        match name.lower():
            case b"content-length" | b"transfer-encoding":
                self._measured = True
            case b"retry-after":
                self._headers["Retry-After"] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._headed = True

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        status = self._parser.get_status_code()
        if status < 200:  # only announces the answer
            self._begin()
            return
        self._broken = self._broken or not (self._measured and self._parser.should_keep_alive())
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(Answer(status, self._headers, b"".join(self._body)))


# --- what servers send: lists in pages, and the lines of a watch ----------------------------------

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


def page_of(body: bytes, view: type[_T], path: str) -> Page[_T]:
    """A page as its items are to be seen.

    Raises:
        Unreachable: it is not JSON.
    """
    try:
        decoded = msgspec.json.decode(body, type=_List[view])  # type: ignore[valid-type]
    except msgspec.ValidationError:
        return _readable(body, view, path)
    except msgspec.DecodeError as error:
        raise Unreachable(f"{path}: the answer is not JSON: {error}") from error
    meta = decoded.metadata
    return Page(decoded.items or [], meta.resource_version, meta.continue_, meta.remaining or 0)


def _readable(body: bytes, view: type[_T], path: str) -> Page[_T]:
    """A page without the objects that are not what they should be; the others must not suffer."""
    raw = msgspec.json.decode(body, type=_List[msgspec.Raw])
    items: list[_T] = []
    for item in raw.items or ():
        try:
            items.append(msgspec.json.decode(item, type=view))
        except msgspec.ValidationError as error:
            named = msgspec.json.decode(item, type=Nameplate).metadata
            name = f"{named.namespace}/{named.name}".lstrip("/")
            _log.warning("%s: %s is left out: %s", path, name, error)
    return Page(items, raw.metadata.resource_version, raw.metadata.continue_)


class _Named(msgspec.Struct, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class Nameplate(msgspec.Struct):
    """As much of an object as every object has."""

    metadata: _Named


_FRAMES = msgspec.json.Decoder(Frame)


def frame_of(line: bytes) -> Frame:
    try:
        frame = _FRAMES.decode(line)
    except msgspec.DecodeError as error:
        raise Unreachable(f"the watch sent something else than JSON: {error}") from error
    if frame.type == "ERROR":
        raise from_status(msgspec.json.decode(frame.object, type=Status))
    return frame
