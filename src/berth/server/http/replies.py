"""Answers: objects in the form a client asked for, and how they are sent (YAML, compressed, in pieces)."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec
import yaml

from berth.kube.objects import RawObject
from berth.server.errors import StatusError
from berth.server.http.requests import PARTIAL, TABLE, YAML, ApiRequest, Send
from berth.server.registry.strategy import Endpoint
from berth.server.storage.history import Record
from berth.server.storage.store import decode, encode
from berth.server.tables import partial_metadata, render_table

META_V1 = "meta.k8s.io/v1"
_JSON = b"application/json"
_YAML = b"application/yaml"
_GZIP_FROM = 128 * 1024  # kube-apiserver's threshold
_PIECE = 512 * 1024


@dataclass(slots=True)
class Reply:
    """`body` is one piece or many; many are sent as they come."""

    status: int
    body: bytes | list[bytes]
    content_type: bytes = _JSON
    headers: Mapping[str, str] = field(default_factory=dict)


def of_object(obj: object, status: int = 200) -> Reply:
    return Reply(status, encode(obj))


def of_record(request: ApiRequest, endpoint: Endpoint, record: Record, status: int = 200) -> Reply:
    form = request.accept
    if form == TABLE:
        rendered = table(endpoint, [record], include(request))
        rendered["metadata"] = {"resourceVersion": str(record.rv)}
        return Reply(status, encode(rendered))
    if form == PARTIAL:
        return Reply(status, partial_data(record))
    return Reply(status, endpoint.data(record))


def include(request: ApiRequest) -> str:
    """How much of each object a table row carries."""
    return request.query.get("includeObject") or "Metadata"


def partial_data(record: Record) -> bytes:
    return encode(partial_metadata(decode(record.data)))


def table(
    endpoint: Endpoint, records: Sequence[Record], include_object: str, *, headers: bool = True
) -> RawObject:
    return render_table(
        endpoint.strategy.columns,
        [endpoint.object(record) for record in records],
        time.time(),
        include_object,
        headers=headers,
    )


def of_error(error: StatusError) -> Reply:
    return Reply(error.code, encode(error.status()), headers=error.headers)


async def send_reply(request: ApiRequest, send: Send, reply: Reply) -> None:
    body = reply.body
    if reply.status == 304:
        # A cache takes over whatever header comes with this: nothing but the tag may.
        headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
        await send({"type": "http.response.start", "status": 304, "headers": headers})
        await send({"type": "http.response.body", "body": b""})
        return
    if reply.content_type is _JSON:
        reply, body = _shaped(request, reply, body)
    size = len(body) if isinstance(body, bytes) else sum(map(len, body))
    headers = [(b"content-type", reply.content_type)]
    headers.extend((name.lower().encode(), value.encode()) for name, value in reply.headers.items())
    headers.extend(_warning(text) for text in request.warnings)
    if size >= _GZIP_FROM and b"gzip" in request.headers.get(b"accept-encoding", b""):
        await _send_compressed(send, reply.status, headers, body)
        return
    headers.append((b"content-length", str(size).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    if isinstance(body, bytes):
        await send({"type": "http.response.body", "body": body})
        return
    for piece in pieces(body):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _shaped(
    request: ApiRequest, reply: Reply, body: bytes | list[bytes]
) -> tuple[Reply, bytes | list[bytes]]:
    """The body as the client wants to read it."""
    if request.query.get("pretty") in ("1", "true"):
        return reply, msgspec.json.format(_joined(body), indent=2) + b"\n"
    accept = request.headers.get(b"accept", b"")
    if b"yaml" in accept and request.accept == YAML:
        text = yaml.safe_dump(decode(_joined(body)), sort_keys=False).encode()
        return Reply(reply.status, text, _YAML, reply.headers), text
    return reply, body


def _joined(body: bytes | list[bytes]) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)


def _warning(text: str) -> tuple[bytes, bytes]:
    # What a client named a field may hold anything; a header may not.
    printable = "".join(c if c.isprintable() else "?" for c in text)
    quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
    return b"warning", f'299 - "{quoted}"'.encode("latin-1", "replace")


def pieces(parts: Iterable[bytes]) -> Iterable[bytes]:
    """The parts joined to pieces that are worth a write each."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        waiting.append(part)
        size += len(part)
        if size >= _PIECE:
            yield b"".join(waiting)
            waiting, size = [], 0
    if waiting:
        yield b"".join(waiting)


async def _send_compressed(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes | list[bytes]
) -> None:
    headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    compressor = zlib.compressobj(1, wbits=31)
    loop = asyncio.get_running_loop()
    for piece in pieces([body] if isinstance(body, bytes) else body):
        # zlib lets go of the interpreter: other requests are answered meanwhile.
        compressed = await loop.run_in_executor(None, compressor.compress, piece)
        if compressed:
            await send({"type": "http.response.body", "body": compressed, "more_body": True})
    await send({"type": "http.response.body", "body": compressor.flush()})
