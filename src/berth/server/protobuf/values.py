"""Single values: how a number or a run of bytes reads in JSON, and messages JSON writes as a value."""

from __future__ import annotations

import math
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from berth.server.protobuf.wire import BYTES, FIXED64, NOTHING, VARINT, Field, ProtobufError, varint

Json = Any
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EXACT = 1 << 53  # up to here every whole number has a float of its own


def _signed(number: int, bits: int) -> int:
    number &= (1 << bits) - 1
    return number - (1 << bits) if number >> (bits - 1) else number


def _text(field: Field) -> str:
    field.expect(BYTES)
    try:
        return str(field.data, "utf-8")
    except UnicodeDecodeError:
        raise ProtobufError(f"field {field.tag}: text is not UTF-8") from None


def _base64(field: Field) -> str:
    field.expect(BYTES)
    return b64encode(field.data).decode("ascii")


def _bool(field: Field) -> bool:
    field.expect(VARINT)
    return field.number != 0


def _int32(field: Field) -> int:
    field.expect(VARINT)
    return _signed(field.number, 32)


def _int64(field: Field) -> int:
    field.expect(VARINT)
    return _signed(field.number, 64)


def _double(field: Field) -> float:
    field.expect(FIXED64)
    (value,) = struct.unpack("<d", field.data)
    if not math.isfinite(value):
        raise ProtobufError(f"field {field.tag}: {value} has no JSON form")
    number: float = value
    return int(number) if number.is_integer() and abs(number) < _EXACT else number


def _embedded(field: Field) -> Json:
    """JSON inside protobuf; nothing at all stands for null."""
    field.expect(BYTES)
    if not field.data:
        return None
    try:
        return msgspec.json.decode(field.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ProtobufError(f"field {field.tag}: embedded data is not JSON: {error}") from None


SCALARS: dict[str, Callable[[Field], Json]] = {
    "string": _text,
    "bytes": _base64,
    "bool": _bool,
    "int32": _int32,
    "int64": _int64,
    "double": _double,
    "json": _embedded,
}
_NUMBERS = frozenset({"bool", "int32", "int64"})


def default(kind: str) -> Field:
    """A field that was left out of a map entry."""
    return Field(2, VARINT if kind in _NUMBERS else BYTES, 0, NOTHING)


def unpacked(field: Field, kind: str) -> Iterator[Field]:
    """The elements of a list of numbers, which may be written in one run of bytes."""
    if field.wire != BYTES or kind not in _NUMBERS:
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
    if not found:
        return None
    return _moment({"seconds": found.get("seconds", 0)}).strftime("%Y-%m-%dT%H:%M:%SZ").zfill(20)


def _micro_time(found: dict[str, Json]) -> str | None:
    if not found:
        return None
    return _moment(found).strftime("%Y-%m-%dT%H:%M:%S.%fZ").zfill(27)


def _int_or_string(found: dict[str, Json]) -> int | str:
    name, empty = ("strVal", "") if found.get("type") else ("intVal", 0)
    value: int | str = found.get(name, empty)
    return value


def _schema_or_bool(found: dict[str, Json]) -> Json:
    return found["schema"] if "schema" in found else found.get("allows", False)


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
    "apiextensions.v1.JSONSchemaPropsOrBool": _schema_or_bool,
    "apiextensions.v1.JSONSchemaPropsOrStringArray": lambda found: found.get("property", found.get("schema")),
}
