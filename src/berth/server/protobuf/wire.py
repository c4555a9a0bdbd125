"""The wire format of protobuf: numbered fields, each a number, a few bytes or a run of bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = range(6)
_NAMES = ("a number", "eight bytes", "bytes", "a group", "the end of a group", "four bytes")
_GROUP_DEPTH = 100
_MASK = (1 << 64) - 1


class ProtobufError(ValueError):
    """Bytes that are no protobuf message of the kind they claim to be."""


class UnknownKindError(ProtobufError):
    """A kind that has no protobuf form here."""


class Field(NamedTuple):
    """One field as it stands in a message; `data` is empty for a number, `number` 0 for the others."""

    tag: int
    wire: int
    number: int
    data: memoryview

    def expect(self, wire: int) -> None:
        if self.wire != wire:
            raise ProtobufError(f"field {self.tag}: expected {_NAMES[wire]}, found {_NAMES[self.wire]}")


NOTHING = memoryview(b"")


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message in order, without groups, which no kind uses.

    Raises:
        ProtobufError: the bytes end too early or are no message.
    """
    at, end = 0, len(data)
    while at < end:
        head, at = varint(data, at)
        tag, wire = head >> 3, head & 7
        if not 0 < tag < 1 << 29:
            raise ProtobufError(f"illegal field number {tag}")
        if wire == VARINT:
            number, at = varint(data, at)
            yield Field(tag, wire, number, NOTHING)
        elif wire == GROUP:
            at = _after_group(data, at)
        else:
            start, at = _extent(data, at, wire)
            yield Field(tag, wire, 0, data[start:at])


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """An unsigned number of up to 64 bits, and where it ends."""
    try:
        number = data[at]
        if number < 0x80:
            return number, at + 1
        number &= 0x7F
        for shift in range(7, 70, 7):
            at += 1
            byte = data[at]
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & _MASK, at + 1
    except IndexError:
        raise ProtobufError("unexpected end of data") from None
    raise ProtobufError("a number is longer than 64 bits")


def _extent(data: memoryview, at: int, wire: int) -> tuple[int, int]:
    """Where a value that is no number starts and ends."""
    if wire == BYTES:
        size, at = varint(data, at)
    elif wire in (FIXED64, FIXED32):
        size = 8 if wire == FIXED64 else 4
    else:
        raise ProtobufError(f"illegal wire type {wire}")
    if size > len(data) - at:
        raise ProtobufError("unexpected end of data")
    return at, at + size


def _after_group(data: memoryview, at: int) -> int:
    depth = 1
    while depth:
        head, at = varint(data, at)
        wire = head & 7
        if wire == VARINT:
            _, at = varint(data, at)
        elif wire == GROUP_END:
            depth -= 1
        elif wire == GROUP:
            depth += 1
            if depth > _GROUP_DEPTH:
                raise ProtobufError("groups are nested too deeply")
        else:
            _, at = _extent(data, at, wire)
    return at


# --- writing --------------------------------------------------------------------------------------


def _varint(number: int) -> bytes:
    """A number of 64 bits; negative ones as their complement, as ``int64`` has them."""
    number &= _MASK
    if number < 0x80:
        return bytes((number,))
    written = bytearray()
    while number >= 0x80:
        written.append(number & 0x7F | 0x80)
        number >>= 7
    written.append(number)
    return bytes(written)


def whole(tag: int, number: int) -> bytes:
    return _varint(tag << 3 | VARINT) + _varint(int(number))


def double(tag: int, number: float) -> bytes:
    return _varint(tag << 3 | FIXED64) + struct.pack("<d", number)


def run(tag: int, data: bytes) -> bytes:
    """A message, a text or plain bytes."""
    return _varint(tag << 3 | BYTES) + _varint(len(data)) + data


def text(tag: int, written: str) -> bytes:
    return run(tag, written.encode())
