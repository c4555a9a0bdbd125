"""JSON manifests, read without building what nobody asked for.

A dump of a large cluster is one ``List`` of a hundred megabytes.  Its items stay slices of the
text until each is decoded on its own, straight into its typed view; managed fields and most of
the status are skipped by the decoder.
"""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec

from berth.kube.decoding import DecodeError, convert, explain, without_nulls

_T = TypeVar("_T")

_byte_position = re.compile(r"\(byte (\d+)\)")


class JsonError(ValueError):
    """The text is not JSON; `line` counts from 1."""

    def __init__(self, detail: str, line: int | None = None) -> None:
        super().__init__(f"line {line}: {detail}" if line else detail)
        self.line = line


class Head(msgspec.Struct, rename="camel", gc=False):
    """As much of an object as tells what it is."""

    api_version: object = None
    kind: object = None
    items: msgspec.Raw = msgspec.Raw()


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def _decoder(kind: type[_T]) -> msgspec.json.Decoder[_T]:
    known = _decoders.get(kind)
    if known is None:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known


def head(text: bytes | msgspec.Raw) -> Head:
    """The head of an object; its items, if it has any, remain a slice of `text`.

    Raises:
        JsonError: this is not JSON.
        DecodeError: it is JSON, but not an object of the expected form.
    """
    return decode(text, Head)


def items(head: Head) -> list[msgspec.Raw] | None:
    """The items of a list, undecoded; None if it has no such thing."""
    if bytes(memoryview(head.items)[:1]) != b"[":
        return None
    return _decoder(list[msgspec.Raw]).decode(head.items)


def decode(text: bytes | msgspec.Raw, kind: type[_T]) -> _T:
    try:
        return _decoder(kind).decode(text)
    except msgspec.ValidationError as error:
        # The slow way: null may stand for an absent field; if that is not it, tell the field.
        raw = without_nulls(to_builtins(text))
        try:
            return convert(raw, kind)
        except DecodeError:
            raise explain(error, raw) from None
    except msgspec.DecodeError as error:
        raise _malformed(error, text) from None


def to_builtins(text: bytes | msgspec.Raw) -> object:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise _malformed(error, text) from None


def _malformed(error: msgspec.DecodeError, text: bytes | msgspec.Raw) -> JsonError:
    detail = str(error).removeprefix("JSON is malformed: ")
    position = _byte_position.search(detail)
    if position is None:
        return JsonError(detail)
    line = bytes(memoryview(text)[: int(position[1])]).count(b"\n") + 1
    return JsonError(_byte_position.sub("", detail).strip(), line)
