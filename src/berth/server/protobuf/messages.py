"""Which fields the messages have, read from the packaged table.

A message maps the numbers of its fields to an expression: the name in JSON, the type, and perhaps
``keep``. ``[T]`` is a list, ``{T}`` a map of strings to T; a type with a capital letter is a message,
of the same package unless another one is named. The name ``.`` stands for a message whose fields
belong to the outer one in JSON. ``keep`` marks what JSON shows even if it is zero: optional values
that are present, and fields that are never left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

import msgspec

Shape = Literal["one", "list", "map"]


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a message, taken from its expression."""

    name: str
    type: str
    shape: Shape
    keep: bool
    message: bool

    @property
    def inline(self) -> bool:
        return self.name == "."


class Table(msgspec.Struct, frozen=True):
    """The packaged file: the package of each group version, and the fields of each message."""

    groups: dict[str, str]
    messages: dict[str, dict[str, str]]


@cache
def table() -> Table:
    raw = files("berth.server.protobuf").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(raw, type=Table)


# Every group version knows these kinds, whatever else it holds.
_EVERYWHERE = frozenset({"CreateOptions", "DeleteOptions", "PatchOptions", "Status", "UpdateOptions"})


def message_of(api_version: str, kind: str) -> str | None:
    """The message of a kind, such as ``apps.v1.Deployment``."""
    if kind in _EVERYWHERE:
        return f"meta.v1.{kind}"
    package = table().groups.get(api_version)
    name = f"{package}.{kind}"
    return name if name in table().messages else None


@cache
def fields_of(message: str) -> dict[int, FieldType]:
    home = message.rpartition(".")[0]
    return {int(number): _parsed(text, home) for number, text in table().messages[message].items()}


def _parsed(text: str, home: str) -> FieldType:
    name, base, *flags = text.split(" ")
    shape: Shape = "one"
    if base[0] in "[{":
        shape = "list" if base[0] == "[" else "map"
        base = base[1:-1]
    message = base.rpartition(".")[2][0].isupper()
    if message and "." not in base:
        base = f"{home}.{base}"
    return FieldType(name, base, shape, keep="keep" in flags, message=message)
