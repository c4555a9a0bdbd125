"""Answers: objects in the form a client asked for, and how they are sent (YAML, compressed, in pieces)."""

from __future__ import annotations

import asyncio
import bisect
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate, chain

import msgspec
from starlette.types import Send

from berth.kube import well_known
from berth.kube.objects import RawObject
from berth.kube.text import yaml_writer
from berth.server.connections import answer_at_once
from berth.server.errors import StatusError
from berth.server.http.requests import PARTIAL, TABLE, YAML, ApiRequest
from berth.server.registry.strategy import Endpoint
from berth.server.storage.bucket import Record, decode, encode
from berth.server.tables import partial_metadata, render_row, table_head

JSON_TYPE, _YAML = well_known.JSON.encode(), well_known.YAML.encode()
_GZIP_FROM = 128 * 1024  # kube-apiserver's threshold
_PIECE = 128 * 1024  # made before others have a turn, or a little more
_LARGEST_PIECE = 2 * _PIECE
_CLOSING = b"]}\n"  # of a list
_PRETTY_UP_TO = 16 * 1024 * 1024  # what is larger is not for eyes


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """The form in which a client wants objects. Watchers with equal shapes share encoded bytes."""

    endpoint: Endpoint
    form: str
    include: str  # how much of each object a table row carries

    def data(self, record: Record, *, headers: bool = True) -> bytes:
        """An object in this form; a table has `headers` but for later events of a watch."""
        if self.form == TABLE:
            version = {"resourceVersion": str(record.rv)}
            head = table_head(self.endpoint.strategy.columns, version, headers=headers)
            return encode({**head, "rows": [self.row(record)]})
        if self.form == PARTIAL:
            return encode(partial_metadata(decode(record.data)))
        return self.endpoint.data(record)

    def row(self, record: Record) -> RawObject:
        obj = self.endpoint.object(record)
        return render_row(self.endpoint.strategy.columns, obj, time.time(), self.include)


def shape_of(request: ApiRequest) -> AnswerShape:
    return AnswerShape(request.endpoint, request.accept, request.query.get("includeObject") or "Metadata")


@dataclass(frozen=True, slots=True)
class ListBody:
    """A list whose items are encoded already."""

    head: RawObject
    items: list[bytes]
    name: str = "items"

    @property
    def size(self) -> int:
        """Bytes of its JSON."""
        commas = max(len(self.items) - 1, 0)
        return len(self._opening()) + sum(map(len, self.items)) + commas + len(_CLOSING)

    def parts(self) -> Iterator[bytes]:
        """Its JSON; each part has as many items as make a piece."""
        before, items = self._opening(), self.items
        ends = [*accumulate(map(len, items))]
        start = done = 0
        while start < len(items):
            stop = min(bisect.bisect_left(ends, done + _PIECE) + 1, len(items))
            yield b",".join([before + items[start], *items[start + 1 : stop]])
            before, start, done = b",", stop, ends[stop - 1]
        yield _CLOSING if items else before + _CLOSING

    def _opening(self) -> bytes:
        return b'%s,"%s":[' % (encode(self.head)[:-1], self.name.encode())

    def pretty_parts(self) -> Iterator[bytes]:
        """The same for eyes, an item at a time."""
        if not self.items:
            yield msgspec.json.format(b"".join(self.parts()), indent=2) + b"\n"
            return
        yield b'%s,\n  "%s": [' % (msgspec.json.format(encode(self.head), indent=2)[:-2], self.name.encode())
        for i, item in enumerate(self.items):
            # What is in a string has no line of its own.
            lines = msgspec.json.format(item, indent=2).replace(b"\n", b"\n    ")
            yield (b",\n    " if i else b"\n    ") + lines
        yield b"\n  ]\n}\n"


@dataclass(slots=True)
class Reply:
    """An answer; a list is sent in pieces."""

    status: int
    body: bytes | ListBody
    content_type: bytes = JSON_TYPE
    headers: Mapping[str, str] = field(default_factory=dict)


def of_object(obj: object, status: int = 200) -> Reply:
    return Reply(status, encode(obj))


def of_record(request: ApiRequest, record: Record, status: int = 200) -> Reply:
    return Reply(status, shape_of(request).data(record))


def of_error(error: StatusError) -> Reply:
    return Reply(error.code, encode(error.status()), headers=error.headers)


async def send_reply(request: ApiRequest, send: Send, reply: Reply) -> None:
    body = reply.body
    if isinstance(body, bytes) and _is_plain(request, reply, len(body)):
        if request.cycle is not None and answer_at_once(request.cycle, reply.status, body):
            return
        headers = [(b"content-length", b"%d" % len(body)), (b"content-type", JSON_TYPE)]
        await _send_whole(send, reply.status, headers, body)
        return
    headers = [(name.lower().encode(), value.encode()) for name, value in reply.headers.items()]
    if reply.status == 304:
        # A cache takes over whatever header comes with this: nothing but the tag may.
        await _send_whole(send, 304, headers, b"")
        return
    headers.extend(_warning(text) for text in (request.notice, *request.warnings) if text)
    content_type, size = reply.content_type, len(body) if isinstance(body, bytes) else body.size
    is_json = content_type is JSON_TYPE
    pretty = is_json and request.query.get("pretty") in ("1", "true") and size <= _PRETTY_UP_TO
    if pretty and (size < _PIECE or isinstance(body, bytes)):
        body, pretty = msgspec.json.format(_joined(body), indent=2) + b"\n", False
        size = len(body)
    if isinstance(body, ListBody) and size < _PIECE and request.accept != YAML:
        body = _joined(body)
    compress = size >= _GZIP_FROM and b"gzip" in request.headers.get(b"accept-encoding", b"")
    parts: Iterable[bytes] = [body] if isinstance(body, bytes) else body.parts()
    if is_json and b"yaml" in request.headers.get(b"accept", b"") and request.accept == YAML:
        content_type, parts = _YAML, _as_yaml(body)
    elif pretty and isinstance(body, ListBody):
        parts = body.pretty_parts()
    elif not compress:
        headers.append((b"content-length", str(size).encode()))
    headers.append((b"content-type", content_type))
    if compress:
        await _send_compressed(send, reply.status, headers, pieces(parts))
    elif isinstance(body, bytes) and size < _PIECE and content_type is not _YAML:
        await _send_whole(send, reply.status, headers, body)
    else:
        await send({"type": "http.response.start", "status": reply.status, "headers": headers})
        for piece in pieces(parts):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            await asyncio.sleep(0)  # let others run: sending does not wait while the client keeps up
        await send({"type": "http.response.body", "body": b""})


async def _send_whole(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_plain(request: ApiRequest, reply: Reply, size: int) -> bool:
    """Whether a body is sent as it is, with nothing to say about it, as most are."""
    return (
        reply.content_type is JSON_TYPE
        and size < _GZIP_FROM
        and not reply.headers
        and not request.warnings
        and not request.notice
        and "pretty" not in request.query
        and b"yaml" not in request.headers.get(b"accept", b"")
    )


def _as_yaml(body: bytes | ListBody) -> Iterator[bytes]:
    if isinstance(body, bytes):
        lines = yaml_writer.write(decode(body))
    elif not body.items:
        lines = yaml_writer.write({**body.head, "items": []})
    else:
        lines = chain(
            yaml_writer.write(body.head), ("items:\n",), yaml_writer.write_items(map(decode, body.items))
        )
    return (line.encode() for line in lines)


def _joined(body: bytes | ListBody) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body.parts())


def _warning(text: str) -> tuple[bytes, bytes]:
    # What a client named a field may hold anything; a header may not.
    printable = "".join(c if c.isprintable() else "?" for c in text)
    quoted = printable.replace("\\", "\\\\").replace('"', '\\"')
    return b"warning", f'299 - "{quoted}"'.encode("latin-1", "replace")


def pieces(parts: Iterable[bytes]) -> Iterable[bytes]:
    """The parts joined or cut to pieces that are worth a write each; so much waits for who reads slowly."""
    waiting: list[bytes] = []
    size = 0
    for part in parts:
        if waiting and (size >= _PIECE or size + len(part) > _LARGEST_PIECE):
            yield b"".join(waiting)
            waiting, size = [], 0
        if len(part) > _LARGEST_PIECE:
            yield from (part[start : start + _PIECE] for start in range(0, len(part), _PIECE))
        else:
            waiting.append(part)
            size += len(part)
    if waiting:
        yield b"".join(waiting)


async def _send_compressed(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: Iterable[bytes]
) -> None:
    headers += [(b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    compressor = zlib.compressobj(1, wbits=31)
    loop = asyncio.get_running_loop()
    for piece in body:
        # zlib lets go of the interpreter: other requests are answered meanwhile.
        compressed = await loop.run_in_executor(None, compressor.compress, piece)
        if compressed:
            await send({"type": "http.response.body", "body": compressed, "more_body": True})
    await send({"type": "http.response.body", "body": compressor.flush()})
