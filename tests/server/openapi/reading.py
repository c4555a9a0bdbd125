"""A reader of gnostic's OpenAPI v2 message for the tests, written from the message's definition alone."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import Any

import yaml

# Every message with all its fields, numbered from 1: the keyword and its type, text if none is given.
# A trailing * means that the field may come many times; "-" is a field nothing here may use.
LAYOUTS = {
    name: line.split()
    for name, line in {
        "document": "swagger info:info - - - - - paths:paths definitions:schemas parameters:parameters -"
        " security:requirement* securityDefinitions:securities - - x-:extension*",
        "info": "title version description - - - x-:extension*",
        "paths": "x-:extension* path:named_path*",
        "path": "$ref get:operation put:operation post:operation delete:operation options:operation"
        " head:operation patch:operation parameters:parameter_or_reference* x-:extension*",
        "operation": "tags* summary description - operationId produces* consumes*"
        " parameters:parameter_or_reference* responses:responses schemes* deprecated:flag"
        " security:requirement* x-:extension*",
        "response": "description schema:schema_item - - x-:extension*",
        "schema": "$ref format title description default:any multipleOf:double maximum:double"
        " exclusiveMaximum:flag minimum:double exclusiveMinimum:flag maxLength:int minLength:int pattern"
        " maxItems:int minItems:int uniqueItems:flag maxProperties:int minProperties:int required*"
        " enum:any* additionalProperties:schema_or_flag type:type items:items allOf:schema*"
        " properties:schemas discriminator readOnly:flag - externalDocs:docs example:any x-:extension*",
        "docs": "description url x-:extension*",
        "body": "description name in required:flag schema:schema x-:extension*",
        "query": "required:flag in description name allowEmptyValue:flag type format",
        "path_parameter": "required:flag in description name type format",
        "reference": "$ref description",
        "api_key": "type name in description x-:extension*",
    }.items()
}
# Messages that are one of several, or that only wrap something: field number -> what it holds.
CHOICES = {
    "schema_item": {1: "schema"},
    "schema_or_flag": {1: "schema", 2: "flag"},
    "type": {1: "text"},
    "items": {1: "schema"},
    "parameter_or_reference": {1: "parameter", 2: "reference"},
    "parameter": {1: "body", 2: "beside"},
    "beside": {3: "query", 4: "path_parameter"},
    "response_value": {1: "response", 2: "reference"},
    "security": {2: "api_key"},
    "any": {2: "yaml"},
}
# Messages of named values.
MAPS = {
    "schemas": "schema",
    "parameters": "parameter",
    "responses": "response_value",
    "securities": "security",
    "requirement": "texts",
}
NAMED = {"extension": "any", "named_path": "path"}


def read(data: bytes) -> Any:
    """The JSON document that the message stands for."""
    return _value("document", data)


def _fields(data: bytes) -> list[tuple[int, Any]]:
    found: list[tuple[int, Any]] = []
    at = 0
    while at < len(data):
        head, at = _varint(data, at)
        wire = head & 7
        value: Any
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<d", data, at)[0], at + 8
        else:
            assert wire == 2, wire
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            assert len(value) == size
        found.append((head >> 3, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return number, at


SCALARS: dict[str, Callable[[Any], Any]] = {
    "int": operator.index,
    "double": float,
    "flag": {0: False, 1: True}.__getitem__,
    "text": bytes.decode,
    "yaml": yaml.safe_load,
    "texts": lambda held: [each.decode() for _, each in _fields(held)],
}


def _value(kind: str, held: Any) -> Any:
    if kind in SCALARS:
        return SCALARS[kind](held)
    if kind in CHOICES:
        ((number, inner),) = _fields(held)
        return _value(CHOICES[kind][number], inner)
    if kind in MAPS:
        return dict(_named(MAPS[kind], inner) for _, inner in _fields(held))
    return _message(kind, held)


def _named(kind: str, held: bytes) -> tuple[str, Any]:
    parts = dict(_fields(held))
    return parts[1].decode(), _value(kind, parts[2])


def _message(kind: str, held: bytes) -> dict[str, Any]:
    written: dict[str, Any] = {}
    for number, inner in _fields(held):
        keyword, _, what = LAYOUTS[kind][number - 1].removesuffix("*").partition(":")
        assert keyword != "-", (kind, number)
        if what in NAMED:
            name, value = _named(NAMED[what], inner)
            assert name not in written
            written[name] = value
        elif LAYOUTS[kind][number - 1].endswith("*"):
            written.setdefault(keyword, []).append(_value(what or "text", inner))
        else:
            assert keyword not in written, (kind, keyword)
            written[keyword] = _value(what or "text", inner)
    return written


CRD: dict[str, Any] = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "A widget.",
                        "properties": {
                            "spec": {"type": "object", "properties": {"size": {"type": "string"}}}
                        },
                    }
                },
            }
        ],
    },
}
