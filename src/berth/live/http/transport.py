"""Requests to one server: HTTP/1.1 on kept-alive connections, and nothing around it.

A binding through a full HTTP client costs more than deciding on it, and importing one costs more than listing
a cluster.  Here the head of a request is made once and only path, length and body differ.  One request is
under way on a connection at a time, and none that could change something is repeated.  No redirects, no
cookies.
"""

from __future__ import annotations

import asyncio
import base64
import math
import re
import ssl
from collections import deque
from collections.abc import Mapping
from urllib.parse import SplitResult, quote, unquote, urlencode, urlsplit

from berth.live.errors import NotSent
from berth.live.http.connection import Answer, Connection, Stream
from berth.live.turns import Fence

# Bytes of an answer, its head included: it is one object, and servers store none of this size.
LARGEST = 2**24
# Bytes of a list: a hundred thousand nodes have fewer.
LARGEST_LIST = 2**31
# Seconds after which a connection that was not used is not trusted any more.
IDLE = 15.0
_CLOSING = 1.0  # seconds for connections to say goodbye
_AS_IT_IS = re.compile(r"[A-Za-z0-9/._:~-]*")  # a path that needs no quoting
_NOT_QUOTED = "/:~%@!$&'()*+,;="
_PORTS = {"http": 80, "https": 443}


class Transport:
    """Connections to one server, as many as there are requests at a time.

    Args:
        url: Of the server; its path goes before every other. A name and a password in it prove who we are,
            if nothing else does.
        context: For https.
        server_hostname: Whom the certificate is to be of, if not the URL's host.
        proxy: The URL of one that connections are made by.
        compressed: Whether answers may be gzipped; streams never are.

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
    ) -> None:
        parts = _split(url)
        self._secure = parts.scheme == "https"
        self._host, self._port = _place(parts)
        self._context = context if self._secure else None
        self._server_hostname = (server_hostname or self._host) if self._secure else None
        self._name = _netloc(parts)
        self._prefix = quote(parts.path.rstrip("/"), safe=_NOT_QUOTED)
        self._own = _basic(parts, "Authorization")
        self._proxy = None if proxy is None else _split(proxy if "://" in proxy else f"http://{proxy}")
        if self._proxy is not None and not self._secure:
            self._prefix = f"http://{self._name}{self._prefix}"
            self._own |= _basic(self._proxy, "Proxy-Authorization")
        self._encoding = "gzip" if compressed else "identity"
        self._heads: dict[tuple[str, str, bool], tuple[Mapping[str, str], bytes]] = {}
        self._open: set[Connection] = set()
        self._idle: deque[Connection] = deque()  # the one used last is the last
        self._all_gone = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._sweep: asyncio.TimerHandle | None = None
        self._silences: dict[Connection, float] = {}

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
        now = self._loop.time()
        deadline = now + seconds
        kept = self._take(now)
        connection = kept or await self._connect(deadline, seconds)
        if fence is not None and not fence.lets_through():
            connection.close()
            raise NotSent
        most = LARGEST if largest is None else largest
        try:
            return await self._answer(connection, request, most, deadline)
        except TimeoutError:
            raise TimeoutError(f"no answer for {seconds:g} seconds") from None
        except ConnectionResetError:
            if kept is None or method != "GET" or connection.heard:
                raise
        # The server had closed the connection that was kept. Questions can be asked again, nothing else.
        connection = await self._connect(deadline, seconds)
        return await self._answer(connection, request, most, deadline)

    async def _answer(self, connection: Connection, request: bytes, largest: int, deadline: float) -> Answer:
        answer: asyncio.Future[Answer | Stream] = self._loop.create_future()
        connection.send(request, answer, largest=largest)
        self._expect(connection, deadline)
        try:
            return await answer  # type: ignore[return-value]  # nothing else comes of what is not streamed
        finally:
            self.give_back(connection)

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
        now = self._loop.time()
        connection = self._take(now) or await self._connect(now + seconds, seconds)
        answer: asyncio.Future[Answer | Stream] = self._loop.create_future()
        connection.send(request, answer, largest=LARGEST, streamed=True)
        self._silences[connection] = silence
        self._expect(connection, self._loop.time() + silence)
        try:
            found = await answer
        except TimeoutError:
            raise TimeoutError(f"no answer for {silence:g} seconds") from None
        except BaseException:
            self.give_back(connection)
            raise
        if isinstance(found, Answer):
            self.give_back(connection)
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
        if self._sweep is not None:
            self._sweep.cancel()
            self._sweep = None

    # --- what is written ----------------------------------------------------------------------------

    def _request(
        self,
        method: str,
        path: str,
        parameters: Mapping[str, str] | None,
        head: bytes,
        body: bytes | None,
    ) -> bytes:
        if _AS_IT_IS.fullmatch(path) is None:
            path = quote(path, safe=_NOT_QUOTED)
        if parameters:
            path = f"{path}?{urlencode(parameters, quote_via=quote)}"
        line = f"{method} {self._prefix}{path} HTTP/1.1\r\n".encode("ascii")
        if body is None:
            return b"%b%b\r\n\r\n" % (line, head)
        return b"%b%b\r\nContent-Length: %d\r\n\r\n%b" % (line, head, len(body), body)

    def _head(self, headers: Mapping[str, str], kind: tuple[str, str], *, streamed: bool = False) -> bytes:
        key = (*kind, streamed)
        known = self._heads.get(key)
        if known is not None and known[0] == headers:
            return known[1]
        content_type, accept = kind
        fields = {
            "Host": self._name,
            "Accept": accept,
            "Accept-Encoding": "identity" if streamed else self._encoding,
            "Content-Type": content_type,
            **headers,
        }
        given = {name.lower() for name in headers}
        fields |= {name: value for name, value in self._own.items() if name.lower() not in given}
        lines = [f"{name}: {value}" for name, value in fields.items() if value]
        if any("\r" in line or "\n" in line for line in lines):
            raise OSError("a header cannot have a line break")
        head = "\r\n".join(lines).encode()
        self._heads[key] = dict(headers), head
        return head

    # --- connections --------------------------------------------------------------------------------

    def _take(self, now: float) -> Connection | None:
        """A connection that is there; those that nobody used for long are closed."""
        idle = self._idle
        while idle and (idle[0].idle_since < now - IDLE or not idle[0].usable):
            idle.popleft().close()
        while idle:
            connection = idle.pop()
            if connection.usable:
                return connection
        return None

    def give_back(self, connection: Connection) -> None:
        """An exchange is over, one way or another."""
        self._silences.pop(connection, None)
        connection.deadline = math.inf
        if connection.usable:
            connection.idle_since = self._loop.time()
            self._idle.append(connection)
        else:
            connection.close()

    def forget(self, connection: Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        self._silences.pop(connection, None)
        if not self._open:
            self._all_gone.set()

    async def _connect(self, deadline: float, seconds: float) -> Connection:
        try:
            async with asyncio.timeout_at(deadline):
                connection = await (self._direct() if self._proxy is None else self._by_proxy(self._proxy))
        except TimeoutError:
            raise TimeoutError(f"no connection for {seconds:g} seconds") from None
        self._open.add(connection)
        return connection

    async def _direct(self) -> Connection:
        _, connection = await self._loop.create_connection(
            lambda: Connection(self),
            self._host,
            self._port,
            ssl=self._context,
            server_hostname=self._server_hostname,
        )
        return connection

    async def _by_proxy(self, proxy: SplitResult) -> Connection:
        """A connection to a proxy; for https it is told to whom to lead it on."""
        host, port = _place(proxy)
        context = ssl.create_default_context() if proxy.scheme == "https" else None
        transport, connection = await self._loop.create_connection(
            lambda: Connection(self), host, port, ssl=context
        )
        if self._context is None:
            return connection
        try:
            await self._lead_on(connection, _basic(proxy, "Proxy-Authorization"))
            inner = Connection(self)
            made = await self._loop.start_tls(
                transport, inner, self._context, server_hostname=self._server_hostname
            )
        except BaseException:
            transport.abort()
            raise
        if made is None:
            raise ConnectionResetError("the proxy closed the connection")
        inner.connection_made(made)
        return inner

    async def _lead_on(self, connection: Connection, authorization: Mapping[str, str]) -> None:
        target = f"[{self._host}]:{self._port}" if ":" in self._host else f"{self._host}:{self._port}"
        lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
        lines += [f"{name}: {value}" for name, value in authorization.items()]
        answer: asyncio.Future[Answer | Stream] = self._loop.create_future()
        request = "\r\n".join((*lines, "", "")).encode()
        connection.send(request, answer, largest=LARGEST, streamed=True)
        if isinstance(found := await answer, Answer):
            raise ConnectionRefusedError(f"the proxy does not lead to {target}: HTTP status {found.status}")

    # --- one timer for all --------------------------------------------------------------------------

    def _expect(self, connection: Connection, deadline: float) -> None:
        """Let a connection fail if its answer is not there by then."""
        connection.deadline = deadline
        if self._sweep is None or self._sweep.when() > deadline:
            if self._sweep is not None:
                self._sweep.cancel()
            self._sweep = self._loop.call_at(deadline, self._look_around)

    def _look_around(self) -> None:
        now, following = self._loop.time(), math.inf
        for connection in list(self._open):
            silence = self._silences.get(connection)
            if silence is not None and connection.stream is not None:
                connection.deadline = connection.stream.due(now, silence)
            if connection.deadline <= now:
                connection.fail(TimeoutError("silent for too long"))
            else:
                following = min(following, connection.deadline)
        self._sweep = None if following == math.inf else self._loop.call_at(following, self._look_around)


def _split(url: str) -> SplitResult:
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"{url} is not the URL of an HTTP server")
    return parts


def _place(parts: SplitResult) -> tuple[str, int]:
    host = parts.hostname or ""
    return host if host.isascii() else host.encode("idna").decode(), parts.port or _PORTS[parts.scheme]


def _netloc(parts: SplitResult) -> str:
    """As a server is called, without who calls it."""
    host, _ = _place(parts)
    name = f"[{host}]" if ":" in host else host
    return name if parts.port is None else f"{name}:{parts.port}"


def _basic(parts: SplitResult, field: str) -> dict[str, str]:
    """What a name and a password in a URL are sent as."""
    if parts.username is None:
        return {}
    name = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {field: f"Basic {base64.b64encode(name.encode()).decode()}"}
