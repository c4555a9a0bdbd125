"""Requests to one server: HTTP/2 on one connection if it speaks that, else HTTP/1.1 on several that are kept.

Sending a binding with a general HTTP client takes longer than deciding on it, and importing one longer than
listing a cluster.  Here the head of a request is made once, and only path, length and body differ.  A write
is not repeated unless the server says that it has not begun with it.  No redirects, no cookies.
"""

from __future__ import annotations

import asyncio
import base64
import math
import os
import re
import ssl
from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from berth.live.errors import NotSent
from berth.live.http import hpack
from berth.live.http.exchange import (
    Answer,
    Connection,
    ConnectionPool,
    Exchange,
    NotCarriedOutError,
    Request,
    RequestHead,
    Stream,
)
from berth.live.http.http1 import Http1Connection
from berth.live.http.http2 import QUIET, Http2Connection
from berth.live.rate_limit import Fence
from berth.sockets import url_host

# Bytes of an answer with its head: one object, and API servers store none this large.
LARGEST = 2**24
# Bytes of a list, more than a hundred thousand nodes take.
LARGEST_LIST = 2**31
# Seconds after which a connection that was not used is not trusted any more.
IDLE = 15.0
_CLOSING = 1.0  # seconds for connections to close in order
_AS_IT_IS = re.compile(r"[A-Za-z0-9/._:~-]*")  # a path that needs no quoting
_NOT_QUOTED = "/:~%@!$&'()*+,;="
_PORTS = {"http": 80, "https": 443}
_HTTP2 = "h2"  # as TLS calls it
_ATTEMPTS = 3  # at a request that the server says it has not begun with


class Transport:
    """Connections to one server: one for all requests, or as many as there are requests at a time.

    With $DISABLE_HTTP2 it is always HTTP/1.1, as in other Kubernetes clients.

    Args:
        url: Of the server; its path goes before every other. A name and a password in it prove who we are,
            if nothing else does.
        context: For https.
        server_hostname: The name that the certificate must have, if it is not the URL's host.
        proxy: The URL of one that connections are made by.
        compressed: Whether answers may be gzipped; streams never are.
        fields: What every request has in its head besides, each as often as it is named.

    Raises:
        ValueError: a URL cannot be used.
    """

    def __init__(
        self,
        url: str,
        context: ssl.SSLContext | None = None,
        *,
        server_hostname: str | None = None,
        proxy: str | None = None,
        compressed: bool = False,
        fields: Sequence[tuple[str, str]] = (),
    ) -> None:
        parts = _split(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = _place(parts)
        self._context = context if self._secure else None
        self._may_share = self._context is not None and not os.environ.get("DISABLE_HTTP2")
        if self._context is not None:
            self._context.set_alpn_protocols([_HTTP2, "http/1.1"] if self._may_share else ["http/1.1"])
        self._server_hostname = (server_hostname or self._host) if self._secure else None
        self._name = _netloc(parts)
        self._prefix = quote(parts.path.rstrip("/"), safe=_NOT_QUOTED)
        self._own = _basic(parts, "Authorization")
        self._proxy = None if proxy is None else _split(proxy if "://" in proxy else f"http://{proxy}")
        if self._proxy is not None and not self._secure:
            self._prefix = f"http://{self._name}{self._prefix}"
            self._own |= _basic(self._proxy, "Proxy-Authorization")
        self._fields = tuple(fields)
        self._encoding = "gzip" if compressed else "identity"
        self._heads: dict[tuple[str, str, bool], tuple[Mapping[str, str], RequestHead]] = {}
        self._open: set[Connection] = set()
        self._shared: Http2Connection | None = None
        self._sharing = asyncio.Lock()  # held until the first connection shows whether it is HTTP/2
        self._idle: deque[Http1Connection] = deque()  # the one used last is the last
        self._awaited: set[Exchange] = set()
        self._all_gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._closed = False

    async def ask(  # noqa: PLR0913 - all but six are optional
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        headers: Mapping[str, str],
        kind: tuple[str, str],
        seconds: float,
        parameters: Mapping[str, str] | None = None,
        largest: int | None = None,
        fence: Fence | None = None,
    ) -> Answer:
        """Make a request; its answer, whatever it says.

        `headers` prove who we are, `kind` is Content-Type and Accept, `seconds` are for the request as a
        whole, `largest` is how many bytes its answer may have, and the `fence` is asked right before it is
        written.

        Raises:
            NotSent: the fence did not let it through.
            OSError: there is no connection, or it broke, or was silent for too long.
        """
        request = self._request(method, path, parameters, self._head(headers, kind), body)
        deadline = self._loop.time() + seconds
        refused = 0
        while True:
            kept = self._kept()
            connection = kept or await self._connection(deadline, seconds)
            if fence is not None and not fence.lets_through():
                self.give_back(connection)
                raise NotSent
            exchange = Exchange(self._loop, connection, LARGEST if largest is None else largest)
            connection.send(request, exchange)
            self._expect(exchange, deadline)
            try:
                return await exchange.answer  # type: ignore[return-value]  # only streams are streamed
            except TimeoutError:
                raise TimeoutError(f"no answer for {seconds:g} seconds") from None
            except NotCarriedOutError:
                refused += 1
                if refused == _ATTEMPTS:
                    raise
            except ConnectionResetError:
                # The server had closed the kept connection. Questions can be asked again, nothing else.
                if kept is None or method != "GET" or exchange.heard:
                    raise
            finally:
                connection.release(exchange)

    async def open(
        self,
        path: str,
        parameters: Mapping[str, str],
        *,
        headers: Mapping[str, str],
        accept: str,
        seconds: float,
        silence: float,
    ) -> Answer | Stream:
        """Ask for what is sent on and on; a stream, which has to be closed, or what the server says instead.

        Args:
            path: Of what is asked for.
            parameters: Of the question.
            headers: They prove who we are.
            accept: As what it is to be sent.
            seconds: For the connection.
            silence: How long nothing may come, before the answer and in between.

        Raises:
            OSError: there is no connection, or it broke, or was silent for too long.
        """
        head = self._head(headers, ("", accept), streamed=True)
        request = self._request("GET", path, parameters, head, None)
        connection = self._kept() or await self._connection(self._loop.time() + seconds, seconds)
        exchange = Exchange(self._loop, connection, LARGEST, streamed=True)
        exchange.silence = silence
        connection.send(request, exchange)
        self._expect(exchange, self._loop.time() + silence)
        try:
            found = await exchange.answer
        except BaseException as error:
            connection.release(exchange)
            if isinstance(error, TimeoutError):
                raise TimeoutError(f"no answer for {silence:g} seconds") from None
            raise
        if isinstance(found, Answer):
            connection.release(exchange)
        return found

    async def close(self) -> None:
        """Close every connection; requests that are under way fail."""
        self._closed = True
        self._all_gone.clear()
        for connection in list(self._open):
            connection.close()
        try:
            async with asyncio.timeout(_CLOSING):
                if self._open:
                    await self._all_gone.wait()
        except TimeoutError:
            for connection in list(self._open):
                connection.abort()
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # --- what is written ----------------------------------------------------------------------------

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None,
        head: RequestHead,
        body: bytes | None,
    ) -> Request:
        if _AS_IT_IS.fullmatch(path) is None:
            path = quote(path, safe=_NOT_QUOTED)
        if parameters:
            path = f"{path}?{urlencode(parameters, quote_via=quote)}"
        return Request(method, f"{self._prefix}{path}", head, body)

    def _head(
        self, headers: Mapping[str, str], kind: tuple[str, str], *, streamed: bool = False
    ) -> RequestHead:
        key = (*kind, streamed)
        known = self._heads.get(key)
        if known is not None and known[0] == headers:
            return known[1]
        content_type, accept = kind
        fields = {
            "Accept": accept,
            "Accept-Encoding": "identity" if streamed else self._encoding,
            "Content-Type": content_type,
            **headers,
        }
        given = {name.lower() for name in headers}
        fields |= {name: value for name, value in self._own.items() if name.lower() not in given}
        named = [*((name, value) for name, value in fields.items() if value), *self._fields]
        lines = [f"Host: {self._name}", *(f"{name}: {value}" for name, value in named)]
        if any("\r" in line or "\n" in line for line in lines):
            raise OSError("a header cannot have a line break")
        block = [(":authority", self._name), *named]
        head = RequestHead("\r\n".join(lines).encode(), b"".join(hpack.packed(*field) for field in block))
        self._heads[key] = dict(headers), head
        return head

    # --- connections --------------------------------------------------------------------------------

    def _kept(self) -> Connection | None:
        """An idle connection, None if there is none; those that were idle for long are closed."""
        now = self._loop.time()
        if self._shared is not None:
            if self._shared.trusted(now):
                return self._shared
            self._part()
        idle = self._idle
        while idle and (idle[0].idle_since < now - IDLE or not idle[0].usable):
            idle.popleft().close()
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    def _part(self) -> None:
        """Send no more requests over the HTTP/2 connection; it closes when those under way are answered."""
        if self._shared is not None:
            shared, self._shared = self._shared, None
            shared.close_if_done()

    def give_back(self, connection: Connection, exchange: Exchange | None = None) -> None:
        """An exchange is over, one way or another."""
        if exchange is not None:
            self._awaited.discard(exchange)
        if isinstance(connection, Http2Connection):
            if connection is not self._shared or not connection.usable:
                connection.close_if_done()
        elif isinstance(connection, Http1Connection):
            if connection.usable:
                connection.idle_since = self._loop.time()
                self._idle.append(connection)
            else:
                connection.close()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        if connection is self._shared:
            self._shared = None
        if not self._open:
            self._all_gone.set()

    async def _connection(self, deadline: float, seconds: float) -> Connection:
        """A new connection, or the HTTP/2 connection that another request has made meanwhile."""
        try:
            async with asyncio.timeout_at(deadline):
                if not self._may_share:
                    return await self._connect()
                async with self._sharing:
                    found = self._kept() if self._shared is not None else None
                    if found is None and self._may_share:
                        found = await self._connect()
                        self._may_share = isinstance(found, Http2Connection)
                return found or await self._connect()
        except TimeoutError:
            raise TimeoutError(f"no connection for {seconds:g} seconds") from None

    async def _connect(self) -> Connection:
        connection = await (self._direct() if self._proxy is None else self._by_proxy(self._proxy))
        self._open.add(connection)
        if isinstance(connection, Http2Connection):
            try:
                await connection.agreed
            except BaseException:
                connection.abort()
                raise
        if self._closed or not connection.usable:
            connection.abort()
            raise ConnectionResetError("the connection was closed at once")
        if isinstance(connection, Http2Connection):
            self._part()
            self._shared = connection
        return connection

    async def _direct(self) -> Connection:
        _, negotiation = await self._loop.create_connection(
            lambda: _Negotiation(self),
            self._host,
            self._port,
            ssl=self._context,
            server_hostname=self._server_hostname,
        )
        return negotiation.speaking

    async def _by_proxy(self, proxy: SplitResult) -> Connection:
        """A connection to a proxy; for https through a CONNECT tunnel to the server."""
        host, port = _place(proxy)
        context = ssl.create_default_context() if proxy.scheme == "https" else None
        transport, connection = await self._loop.create_connection(
            lambda: Http1Connection(self), host, port, ssl=context
        )
        if self._context is None:
            return connection
        try:
            await self._lead_on(connection, _basic(proxy, "Proxy-Authorization"))
            negotiation = _Negotiation(self)
            made = await self._loop.start_tls(
                transport, negotiation, self._context, server_hostname=self._server_hostname
            )
        except BaseException:
            transport.abort()
            raise
        if made is None:
            raise ConnectionResetError("the proxy closed the connection")
        negotiation.connection_made(made)
        return negotiation.speaking

    async def _lead_on(self, connection: Http1Connection, authorization: Mapping[str, str]) -> None:
        target = f"{url_host(self._host)}:{self._port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in authorization.items()]
        exchange = Exchange(self._loop, connection, LARGEST, streamed=True)
        connection.write("\r\n".join((*lines, "", "")).encode(), exchange)
        if isinstance(found := await exchange.answer, Answer):
            raise ConnectionRefusedError(f"the proxy does not lead to {target}: HTTP status {found.status}")

    # --- one timer for all --------------------------------------------------------------------------

    def _expect(self, exchange: Exchange, deadline: float) -> None:
        """Set the deadline of an exchange."""
        exchange.deadline = deadline
        self._awaited.add(exchange)
        if self._sweep is None:
            self._sweep = self._loop.call_at(min(deadline, self._loop.time() + QUIET), self._look_around)
        elif self._sweep.when() > deadline:
            self._sweep.cancel()
            self._sweep = self._loop.call_at(deadline, self._look_around)

    def _look_around(self) -> None:
        now, following = self._loop.time(), math.inf
        for exchange in list(self._awaited):
            if exchange.stream is not None:
                exchange.deadline = exchange.stream.due(now, exchange.silence)
            if exchange.deadline <= now:
                exchange.connection.time_out(exchange)
            else:
                following = min(following, exchange.deadline)
        for connection in list(self._open):
            if isinstance(connection, Http2Connection):
                following = min(following, connection.look_after(now))
        self._sweep = None if following == math.inf else self._loop.call_at(following, self._look_around)


class _Negotiation(asyncio.Protocol):
    """A new connection until TLS has negotiated HTTP/1.1 or HTTP/2.

    Attributes:
        speaking: The connection with the negotiated protocol.
    """

    def __init__(self, owner: ConnectionPool) -> None:
        self.speaking: Http1Connection | Http2Connection
        self._owner = owner
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        secure: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
        shared = secure is not None and secure.selected_alpn_protocol() == _HTTP2
        self.speaking = (Http2Connection if shared else Http1Connection)(self._owner)
        cast("asyncio.Transport", transport).set_protocol(self.speaking)
        self.speaking.connection_made(transport)
        for data in self._early:
            self.speaking.data_received(data)

    def data_received(self, data: bytes) -> None:
        self._early.append(data)  # servers may speak first


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is not the URL of an HTTP server")
    return parts


def _place(parts: SplitResult) -> tuple[str, int]:
    host = parts.hostname or ""
    return host if host.isascii() else host.encode("idna").decode(), parts.port or _PORTS[parts.scheme]


def _netloc(parts: SplitResult) -> str:
    """Host and port of a URL, without user and password."""
    host, _ = _place(parts)
    return url_host(host) if parts.port is None else f"{url_host(host)}:{parts.port}"


def _basic(parts: SplitResult, field: str) -> dict[str, str]:
    """The header of basic authentication for the user and password in a URL."""
    if parts.username is None:
        return {}
    name = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {field: f"Basic {base64.b64encode(name.encode()).decode()}"}
