"""Whether a value can be held by a scalar node, in the words of the API server's JSON decoder."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from functools import partial

from berth.kube.amounts import quantity
from berth.kube.schema.nodes import BYTES, INT_OR_STRING, MICRO_TIME, QUANTITY, TIME, SchemaNode

_LIMITS = {"int32": 2**31, "int64": 2**63}
_time = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d"
    r"([.,]\d+)?(Z|[+-]([01]\d|2[0-4]):[0-5]\d)"
).fullmatch


_TYPES: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
}
_OF_GO = {"boolean": "bool", "integer": "number"}


def schema_type(value: object) -> str:
    """The word that schemas have for the type of a JSON value."""
    return _TYPES.get(type(value), "object")


def json_type(value: object) -> str:
    """The word that Go's decoder has for it."""
    return _OF_GO.get(schema_type(value)) or schema_type(value)


def fits(value: object, node: SchemaNode) -> bool:
    """Whether a scalar node can hold a value that is not null."""
    match node.type:
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return _is_int(value, node.format)
        case "number":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "string" if node.format == "":
            return isinstance(value, str)
        case "string":
            return _mistake(value, node) is None
    return node.type == "any"


def problem(value: object, node: SchemaNode, place: str) -> str:
    """Why :func:`fits` said no; `place` names the Go struct and field."""
    if node.type == "string" and (mistake := _mistake(value, node)):
        return mistake
    shown = json_type(value)
    if shown == "number" and node.type == "integer":
        shown = f"number {value}"
    return f"json: cannot unmarshal {shown} into {place} of type {go_type(node)}"


def go_type(node: SchemaNode) -> str:
    """The Go type behind a node, as error messages spell it."""
    if node.type == "array":
        return f"[]{go_type(node.element())}"
    if node.type == "object":
        if node.struct is not None:
            return f"v1.{node.struct.short_name}"
        return f"map[string]{go_type(node.values)}" if node.values is not None else "map[string]interface {}"
    if node.type == "string":
        return _TEXTS[node.format][0] if node.format in _TEXTS else "string"
    words = {"integer": node.format or "int64", "number": "float64", "boolean": "bool"}
    return words.get(node.type, "interface {}")


def _is_int(value: object, form: str) -> bool:
    limit = _LIMITS.get(form, 2**63)
    return isinstance(value, int) and not isinstance(value, bool) and -limit <= value < limit


def _mistake(value: object, node: SchemaNode) -> str | None:
    if node.format in _TEXTS:
        return _TEXTS[node.format][1](value)
    return None if isinstance(value, str) else ""


def _int_or_string_mistake(value: object) -> str | None:
    if isinstance(value, str) or _is_int(value, "int32"):
        return None
    shown = f"number {value}" if json_type(value) == "number" else json_type(value)
    return f"json: cannot unmarshal {shown} into Go value of type int32"


def _quantity_mistake(value: object) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return quantity.FORM
    try:
        quantity.read(value if isinstance(value, str) else str(value))
    except quantity.QuantityError as error:
        return str(error).partition(" is not a quantity: ")[2]
    return None


def _time_mistake(value: object, layout: str = "2006-01-02T15:04:05Z07:00") -> str | None:
    if not isinstance(value, str):
        return f"json: cannot unmarshal {json_type(value)} into Go value of type string"
    if _time(value):
        return None
    return f'parsing time "{value}" as "{layout}": cannot parse "{value}" as "2006"'


def _bytes_mistake(value: object) -> str | None:
    if not isinstance(value, str):
        return ""
    try:
        base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        first = re.search(r"[^A-Za-z0-9+/]", value)
        return f"illegal base64 data at input byte {first.start() if first else len(value)}"
    return None


# By format: the type that Go reads a text into, and what is wrong with one that it cannot read.
_TEXTS: dict[str, tuple[str, Callable[[object], str | None]]] = {
    INT_OR_STRING: ("intstr.IntOrString", _int_or_string_mistake),
    QUANTITY: ("resource.Quantity", _quantity_mistake),
    TIME: ("v1.Time", _time_mistake),
    MICRO_TIME: ("v1.MicroTime", partial(_time_mistake, layout="2006-01-02T15:04:05.000000Z07:00")),
    BYTES: ("[]uint8", _bytes_mistake),
}
