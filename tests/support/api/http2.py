"""Servers that speak HTTP/2: by another implementation of it, or frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from berth.live.client import Client
from tests.support.api.wire import certified
from tests.support.waiting import until

Answering = Callable[["Call"], Awaitable[None]]


@dataclass
class Call:
    """A request that came, and the way to answer it."""

    link: Link
    number: int
    fields: list[tuple[str, str]]
    body: bytearray = field(default_factory=bytearray)

    @property
    def headers(self) -> dict[str, str]:
        return dict(self.fields)

    @property
    def path(self) -> str:
        return self.headers[":path"]

    async def answer(
        self, status: int = 201, body: bytes = b"{}", headers: Mapping[str, str] | None = None
    ) -> None:
        await self.begin(status, headers)
        await self.send(body, end=True)

    async def begin(self, status: int = 200, headers: Mapping[str, str] | None = None) -> None:
        self.link.protocol.send_headers(self.number, [(":status", str(status)), *(headers or {}).items()])
        await self.link.flush()

    async def send(self, body: bytes, *, end: bool = False, padding: int | None = None) -> None:
        """Send as the client takes it."""
        protocol = self.link.protocol
        while body:
            room = protocol.local_flow_control_window(self.number) - 1 - (padding or 0)
            size = min(room, len(body), protocol.max_outbound_frame_size - 1 - (padding or 0))
            if size <= 0:
                await self.link.changed()
                continue
            protocol.send_data(self.number, body[:size], pad_length=padding)
            body = body[size:]
            await self.link.flush()
        if end:
            protocol.end_stream(self.number)
            await self.link.flush()


class Link:
    """One connection of a client."""

    def __init__(self, server: Http2Server, writer: asyncio.StreamWriter) -> None:
        self.protocol = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.writer = writer
        self.calls: dict[int, Call] = {}
        self.resets: list[int] = []
        self._server = server
        self._tasks: set[asyncio.Task[None]] = set()
        self._change = asyncio.Event()

    async def flush(self) -> None:
        self.writer.write(self.protocol.data_to_send())
        await self.writer.drain()

    async def changed(self) -> None:
        """Wait until something comes from the client."""
        self._change.clear()
        await self._change.wait()

    async def serve(self, reader: asyncio.StreamReader) -> None:
        self.protocol.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                h2.settings.SettingCodes(key): value for key, value in self._server.settings.items()
            },
        )
        self.protocol.initiate_connection()
        await self.flush()
        while data := await reader.read(2**16):
            if self._server.deaf:
                continue
            for event in self.protocol.receive_data(data):
                self._take(event)
            self._change.set()
            await self.flush()
        for task in self._tasks:
            task.cancel()

    def _take(self, event: object) -> None:
        if isinstance(event, h2.events.RequestReceived):
            fields = [(name.decode(), value.decode()) for name, value in event.headers or ()]
            self.calls[event.stream_id or 0] = Call(self, event.stream_id or 0, fields)
        elif isinstance(event, h2.events.DataReceived):
            number = event.stream_id or 0
            self.calls[number].body += event.data or b""
            self.protocol.acknowledge_received_data(event.flow_controlled_length or 0, number)
        elif isinstance(event, h2.events.StreamEnded):
            call = self.calls[event.stream_id or 0]
            self._server.calls.append(call)
            task = asyncio.create_task(self._answer(call))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif isinstance(event, h2.events.StreamReset):
            self.resets.append(event.stream_id or 0)

    async def _answer(self, call: Call) -> None:
        # The client may give a request up at any moment.
        with contextlib.suppress(ConnectionError, h2.exceptions.ProtocolError):
            await self._server.answering(call)


class Http2Server:
    """Does something about every request.

    Attributes:
        calls: What came, over whichever connection.
        links: All connections that were made.
        open: How many there are.
        deaf: It does not react any more to what comes.
    """

    def __init__(self, answering: Answering, settings: Mapping[int, int]) -> None:
        self.answering = answering
        self.settings = settings
        self.calls: list[Call] = []
        self.links: list[Link] = []
        self.open = 0
        self.deaf = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(self, writer)
        self.links.append(link)
        self.open += 1
        try:
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await link.serve(reader)
        finally:
            self.open -= 1
            writer.close()


@asynccontextmanager
async def speaking(
    folder: Path,
    answering: Answering,
    *,
    seconds: float = 20.0,
    settings: Mapping[int, int] | None = None,
) -> AsyncIterator[tuple[Http2Server, Client]]:
    """A server that speaks HTTP/2, and a client of it."""
    server = Http2Server(answering, settings or {})
    async with serving(folder, server.serve, seconds) as client:
        yield server, client
    await until(lambda: server.open == 0)


@asynccontextmanager
async def saying(folder: Path, *frames: bytes) -> AsyncIterator[Client]:
    """A server that says what it is told to once it was asked something, and a client of it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            writer.write(frame(4, 0, 0))
            await reader.readuntil(b"default")  # a namespace, as the path is sent as it is
            writer.write(b"".join(frames))
            await reader.read()
        writer.close()

    async with serving(folder, serve) as client:
        yield client


@asynccontextmanager
async def serving(
    folder: Path,
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    seconds: float = 5.0,
) -> AsyncIterator[Client]:
    """A client of a server that does with every connection what it is told to."""
    context, trusting = certified(folder, "127.0.0.1")
    context.set_alpn_protocols(["h2", "http/1.1"])
    async with await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context) as listener:
        url = f"https://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        async with Client.with_token(url, "token", context=trusting, timeout=seconds) as client:
            yield client


def frame(kind: int, flags: int, number: int, payload: bytes = b"") -> bytes:
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + number.to_bytes(4, "big") + payload
