"""A server whose answers are written out, byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from berth.certificates import self_signed
from tests.support.waiting import until

CREATED = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
Script = Callable[[int], bytes | None]


Answering = Callable[[asyncio.StreamWriter], Awaitable[None]]


class AnsweringServer:
    """A server that does something about every request, until that closes the connection.

    Attributes:
        requests: What came, head and body.
        connections: How many were made.
        open: How many there are.
    """

    def __init__(self, answer: Answering) -> None:
        self.requests: list[bytes] = []
        self.connections = self.open = 0
        self._answer = answer

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open += 1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                _, *length = head.lower().split(b"content-length: ")
                body = await reader.readexactly(int(length[0].split(b"\r\n")[0]) if length else 0)
                self.requests.append(head + body)
                await self._answer(writer)
                await writer.drain()
        self.open -= 1
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


class Wire(AnsweringServer):
    """Answers by a script: bytes to send for the so-manieth request, or None to hang up."""

    def __init__(self, script: Script) -> None:
        super().__init__(self._write)
        self._script = script

    async def _write(self, writer: asyncio.StreamWriter) -> None:
        answer = self._script(len(self.requests))
        if answer is not None:
            writer.write(answer)
            await writer.drain()
        if answer is None or b"until-the-end" in answer:
            writer.close()


@asynccontextmanager
async def listening(script: Script, context: ssl.SSLContext | None = None) -> AsyncIterator[tuple[Wire, int]]:
    wire = Wire(script)
    async with await asyncio.start_server(wire.serve, "127.0.0.1", 0, ssl=context) as server:
        yield wire, server.sockets[0].getsockname()[1]
        await until(lambda: wire.open == 0)


def certified(folder: Path, *names: str) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """TLS for a server of these names, and for who trusts it."""
    certificate, key = self_signed(names[0], names, dt.datetime.now(dt.UTC))
    (folder / "cert.pem").write_bytes(certificate)
    (folder / "key.pem").write_bytes(key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context, ssl.create_default_context(cafile=folder / "cert.pem")
