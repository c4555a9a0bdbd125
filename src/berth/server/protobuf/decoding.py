"""Objects out of protobuf: the envelope Kubernetes puts around them, the messages inside, and single values.

A Go program writes every field that is no pointer, even a zero one, where its JSON form would leave it out;
so here, too, such zeros are left out. Which fields the messages have is read from the packaged table.

A message maps the numbers of its fields to an expression: the name in JSON, the type, and perhaps
``keep``. ``[T]`` is a list, ``{T}`` a map of strings to T; a type with a capital letter is a message,
of the same package unless another one is named. The name ``.`` stands for a message whose fields
belong to the outer one in JSON. ``keep`` marks what JSON shows even if it is zero: optional values
that are present, and fields that are never left out.
"""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.resources import files
from typing import Any, Literal

import msgspec

from berth.server.protobuf.wire import (
    BYTES,
    FIXED64,
    NOTHING,
    VARINT,
    Field,
    ProtobufError,
    UnknownKindError,
    fields,
    varint,
)

Json = Any
FieldShape = Literal["one", "list", "map"]

CONTENT_TYPE = "application/vnd.kubernetes.protobuf"
PREFIX = b"k8s\x00"
_DEPTH = 100  # of messages in messages
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = 1 << 53  # up to here every whole number has a float of its own
# Every group version knows these kinds, whatever else it holds.
_EVERYWHERE = frozenset({"CreateOptions", "DeleteOptions", "PatchOptions", "Status", "UpdateOptions"})


def decode(body: bytes) -> dict[str, Json]:
    """The object in a body, as its JSON form would give it.

    Raises:
        UnknownKindError: the kind it names has no protobuf form here.
        ProtobufError: it is malformed.
    """
    if not body.startswith(PREFIX):
        raise ProtobufError("data does not start with the prefix of a Kubernetes protobuf message")
    type_meta: dict[int, str] = {}
    raw = NOTHING
    for field in fields(memoryview(body)[len(PREFIX) :]):
        if field.tag == 1:
            field.expect(BYTES)
            type_meta |= {part.tag: scalar(part, "string") for part in fields(field.data)}
        elif field.tag == 2:
            field.expect(BYTES)
            raw = field.data
        elif field.tag == 3 and scalar(field, "string"):
            raise ProtobufError("encoded contents are not supported")
    api_version, kind = type_meta.get(1, ""), type_meta.get(2, "")
    if not api_version or not kind:
        raise ProtobufError("the message does not name its apiVersion and kind")
    message = message_of(api_version, kind)
    if message is None:
        raise UnknownKindError(f'kind "{kind}" of version "{api_version}" has no protobuf form')
    obj: dict[str, Json] = {"apiVersion": api_version, "kind": kind}
    _fill(obj, message, raw, 1)
    return obj


def _fill(target: dict[str, Json], message: str, data: memoryview, depth: int) -> None:
    """Set the fields found in a message; one that is there already is overwritten or added to."""
    if depth > _DEPTH:
        raise ProtobufError("messages are nested too deeply")
    known = fields_of(message)
    for field in fields(data):
        kind = known.get(field.tag)
        if kind is None:
            continue
        if kind.name == ".":
            field.expect(BYTES)
            _fill(target, kind.type, field.data, depth + 1)
        elif kind.shape == "list":
            parts = (field,) if kind.message else unpacked(field, kind.type)
            target.setdefault(kind.name, []).extend([_value(part, kind, depth) for part in parts])
        elif kind.shape == "map":
            target.setdefault(kind.name, {}).update(_entry(field, kind, depth))
        else:
            value = _value(field, kind, depth, target.get(kind.name))
            if value is None or not (value or kind.keep):
                target.pop(kind.name, None)
            else:
                target[kind.name] = value


def _value(field: Field, kind: FieldType, depth: int, before: Json = None) -> Json:
    if not kind.message:
        return scalar(field, kind.type)
    field.expect(BYTES)
    shape = SHAPES.get(kind.type)
    found: dict[str, Json] = before if shape is None and isinstance(before, dict) else {}
    if field.data:
        _fill(found, kind.type, field.data, depth + 1)
    return found if shape is None else shape(found)


def _entry(field: Field, kind: FieldType, depth: int) -> dict[str, Json]:
    """One key of a map and its value; either may be left out if it is empty."""
    field.expect(BYTES)
    key, given = "", Field(2, BYTES if kind.message else SCALARS[kind.type][0], 0, NOTHING)
    for part in fields(field.data):
        if part.tag == 1:
            key = scalar(part, "string")
        elif part.tag == 2:
            given = part
    value = _value(given, kind, depth)
    return {} if value is None else {key: value}


# --- messages -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FieldType:
    """One field of a message, taken from its expression."""

    name: str
    type: str
    shape: FieldShape
    keep: bool
    message: bool


class Table(msgspec.Struct, frozen=True):
    """The packaged file: the package of each group version, and the fields of each message."""

    groups: dict[str, str]
    messages: dict[str, dict[str, str]]


@cache
def table() -> Table:
    raw = files("berth.server.protobuf").joinpath("fields.json").read_bytes()
    return msgspec.json.decode(raw, type=Table)


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
    shape: FieldShape = "one"
    if base[0] in "[{":
        shape = "list" if base[0] == "[" else "map"
        base = base[1:-1]
    message = base.rpartition(".")[2][0].isupper()
    if message and "." not in base:
        base = f"{home}.{base}"
    return FieldType(name, base, shape, keep="keep" in flags, message=message)


# --- values ---------------------------------------------------------------------------------------


def _text(field: Field) -> str:
    try:
        return str(field.data, "utf-8")
    except UnicodeDecodeError:
        raise ProtobufError(f"field {field.tag}: text is not UTF-8") from None


def _whole(bits: int, field: Field) -> int:
    number = field.number & ((1 << bits) - 1)
    return number - (1 << bits) if number >> (bits - 1) else number


def _double(field: Field) -> float:
    (value,) = struct.unpack("<d", field.data)
    if not math.isfinite(value):
        raise ProtobufError(f"field {field.tag}: {value} has no JSON form")
    number: float = value
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _embedded(field: Field) -> Json:
    """JSON inside protobuf; nothing at all stands for null."""
    if not field.data:
        return None
    try:
        return msgspec.json.decode(field.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(f"field {field.tag}: embedded data is not JSON: {error}") from None


SCALARS: dict[str, tuple[int, Callable[[Field], Json]]] = {
    "string": (BYTES, _text),
    "bytes": (BYTES, lambda field: b64encode(field.data).decode("ascii")),
    "bool": (VARINT, lambda field: field.number != 0),
    "int32": (VARINT, partial(_whole, 32)),
    "int64": (VARINT, partial(_whole, 64)),
    "double": (FIXED64, _double),
    "json": (BYTES, _embedded),
}


def scalar(field: Field, kind: str) -> Json:
    wire, read = SCALARS[kind]
    field.expect(wire)
    return read(field)


def unpacked(field: Field, kind: str) -> Iterator[Field]:
    """The elements of a list of numbers, which may be written in one run of bytes."""
    if field.wire != BYTES or SCALARS[kind][0] != VARINT:
        yield field
        return
    at = 0
    while at < len(field.data):
        number, at = varint(field.data, at)
        yield Field(field.tag, VARINT, number, NOTHING)


# --- messages that are one value in JSON ------------------------------------------------------------


def _moment(found: dict[str, Json]) -> datetime:
    try:
        microseconds = int(found.get("nanos", 0) / 1000)
        return _EPOCH + timedelta(seconds=found.get("seconds", 0), microseconds=microseconds)
    except OverflowError:
        raise ProtobufError(f"time out of range: {found.get('seconds')} seconds") from None


def _time(found: dict[str, Json]) -> str | None:
    whole = {"seconds": found.get("seconds", 0)}
    return _moment(whole).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20) if found else None


def _micro_time(found: dict[str, Json]) -> str | None:
    return _moment(found).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27) if found else None


def _int_or_string(found: dict[str, Json]) -> int | str:
    name, empty = ("strVal", "") if found.get("type") else ("intVal", 0)
    value: int | str = found.get(name, empty)
    return value


SHAPES: dict[str, Callable[[dict[str, Json]], Json]] = {
    "meta.v1.Time": _time,
    "meta.v1.MicroTime": _micro_time,
    "meta.v1.FieldsV1": lambda found: found.get("raw"),
    "runtime.RawExtension": lambda found: found.get("raw"),
    "resource.Quantity": lambda found: found.get("string", "0"),
    "intstr.IntOrString": _int_or_string,
    "authentication.v1.ExtraValue": lambda found: found.get("items", []),
    "authorization.v1.ExtraValue": lambda found: found.get("items", []),
    "apiextensions.v1.JSON": lambda found: found.get("raw"),
    "apiextensions.v1.JSONSchemaPropsOrArray": lambda found: found.get("jSONSchemas", found.get("schema")),
    "apiextensions.v1.JSONSchemaPropsOrBool": lambda found: found.get("schema", found.get("allows", False)),
    "apiextensions.v1.JSONSchemaPropsOrStringArray": lambda found: found.get("property", found.get("schema")),
}
