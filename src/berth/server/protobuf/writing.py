"""Fields of a protobuf message as bytes, each with its number in front."""

from __future__ import annotations

import struct

from berth.server.protobuf.wire import BYTES, FIXED64, VARINT

_MASK = (1 << 64) - 1


def varint(number: int) -> bytes:
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
    return varint(tag << 3 | VARINT) + varint(int(number))


def double(tag: int, number: float) -> bytes:
    return varint(tag << 3 | FIXED64) + struct.pack("<d", number)


def run(tag: int, data: bytes) -> bytes:
    """A message, a text or plain bytes."""
    return varint(tag << 3 | BYTES) + varint(len(data)) + data


def text(tag: int, written: str) -> bytes:
    return run(tag, written.encode())
