"""An encoder of its own for the tests: messages are written as ``{field number: value}``."""

from __future__ import annotations

import struct
from typing import Any

Message = dict[int, Any]


def varint(number: int) -> bytes:
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def sized(data: bytes) -> bytes:
    return varint(len(data)) + data


def field(number: int, value: Any) -> bytes:
    """One field; a list is written as so many fields, a mapping with text keys as a map."""
    if isinstance(value, list):
        return b"".join(field(number, item) for item in value)
    if isinstance(value, float):
        return varint(number << 3 | 1) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    elif isinstance(value, dict):
        if value and all(isinstance(key, str) for key in value):
            return field(number, [{1: key, 2: item} for key, item in value.items()])
        value = message(value)
    return varint(number << 3 | 2) + sized(value)


def message(fields: Message) -> bytes:
    return b"".join(field(number, value) for number, value in fields.items())


def envelope(api_version: str, kind: str, body: Message | bytes) -> bytes:
    raw = body if isinstance(body, bytes) else message(body)
    return b"k8s\x00" + message({1: {1: api_version, 2: kind}, 2: raw, 3: "", 4: ""})


def number(value: int) -> Message:
    """An IntOrString that is a number; Go writes the empty text, too."""
    return {1: 0, 2: value, 3: ""}


def text(value: str) -> Message:
    return {1: 1, 2: 0, 3: value}


def meta(name: str, **more: Any) -> Message:
    """Metadata as Go writes it, with the fields that are empty."""
    labels = {11: more["labels"]} if "labels" in more else {}
    return {1: name, 2: "", 3: more.get("namespace", ""), 4: "", 5: "", 6: "", 7: 0, 8: {}, **labels}
