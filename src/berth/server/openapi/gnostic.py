"""The OpenAPI v2 document in protobuf: gnostic's ``openapi.v2.Document``, the only form kubectl asks for.

Each message is a table from the keywords of the JSON document to field numbers (``OpenAPIv2.proto`` of
google/gnostic-models). Only what our document or a custom resource's schema can hold is here; a keyword
that its message has no field for is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from berth.server.protobuf.wire import double, run, text, whole

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for; "@" is no legal character in a media type, but came first.
MEDIA_TYPES = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")

# JSON values are of many types, and each keyword knows its own.
_Body = Callable[[Any], bytes]
_Write = Callable[[int, Any], bytes]
_Keywords = Mapping[str, tuple[int, _Write]]


# --- how values are written -----------------------------------------------------------------------


def _message(keywords: _Keywords, extensions: int = 0) -> _Body:
    """A message with these keywords, and with a field for those that begin with ``x-`` if it has one."""

    def body(held: Mapping[str, Any]) -> bytes:
        written = []
        for keyword, value in held.items():
            if keyword in keywords:
                tag, write = keywords[keyword]
                written.append(write(tag, value))
            elif extensions and keyword.startswith("x-"):
                written.append(run(extensions, _named(keyword, _any(value))))
        return b"".join(written)

    return body


def _one(body: _Body) -> _Write:
    return lambda tag, value: run(tag, body(value))


def _many(write: _Write) -> _Write:
    return lambda tag, values: b"".join(write(tag, value) for value in values)


def _mapping(body: _Body, tag: int = 1) -> _Body:
    """A message that is nothing but names and what they stand for, in order."""
    return lambda held: b"".join(run(tag, _named(name, body(value))) for name, value in held.items())


def _named(name: str, value: bytes) -> bytes:
    return text(1, name) + run(2, value)


# Go's YAML reader refuses these or takes them for line ends; JSON has them as they are.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _any(value: Any) -> bytes:  # noqa: ANN401 -- any JSON value
    """Any value, in YAML, of which JSON is a part but for a few characters."""
    written = msgspec.json.encode(value).decode()
    return text(2, _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written))


# --- schemas --------------------------------------------------------------------------------------

_external_docs = _message({"description": (1, text), "url": (2, text)}, 3)


def _schema(held: Mapping[str, Any]) -> bytes:
    return _schema_message(held)


def _schema_or_flag(held: Any) -> bytes:  # noqa: ANN401 -- a schema or a boolean
    return whole(2, held) if isinstance(held, bool) else run(1, _schema(held))


_schema_message = _message(
    {
        "$ref": (1, text),
        "format": (2, text),
        "title": (3, text),
        "description": (4, text),
        "default": (5, _one(_any)),
        "multipleOf": (6, double),
        "maximum": (7, double),
        "exclusiveMaximum": (8, whole),
        "minimum": (9, double),
        "exclusiveMinimum": (10, whole),
        "maxLength": (11, whole),
        "minLength": (12, whole),
        "pattern": (13, text),
        "maxItems": (14, whole),
        "minItems": (15, whole),
        "uniqueItems": (16, whole),
        "maxProperties": (17, whole),
        "minProperties": (18, whole),
        "required": (19, _many(text)),
        "enum": (20, _many(_one(_any))),
        "additionalProperties": (21, _one(_schema_or_flag)),
        "type": (22, _one(lambda name: text(1, name))),
        "items": (23, _one(lambda held: run(1, _schema(held)))),
        "allOf": (24, _many(_one(_schema))),
        "properties": (25, _one(_mapping(_schema))),
        "externalDocs": (29, _one(_external_docs)),
        "example": (30, _one(_any)),
    },
    31,
)

# --- parameters -----------------------------------------------------------------------------------

_json_reference = _message({"$ref": (1, text), "description": (2, text)})
_body_parameter = _message(
    {
        "description": (1, text),
        "name": (2, text),
        "in": (3, text),
        "required": (4, whole),
        "schema": (5, _one(_schema)),
    },
    6,
)
_BESIDE: _Keywords = {
    "required": (1, whole),
    "in": (2, text),
    "description": (3, text),
    "name": (4, text),
}
_query_parameter = _message({**_BESIDE, "type": (6, text), "format": (7, text)}, 23)
_path_parameter = _message({**_BESIDE, "type": (5, text), "format": (6, text)}, 22)


def _parameter(held: Mapping[str, Any]) -> bytes:
    where = held["in"]
    if where == "body":
        return run(1, _body_parameter(held))
    inner = run(3, _query_parameter(held)) if where == "query" else run(4, _path_parameter(held))
    return run(2, inner)


def _parameter_or_reference(held: Mapping[str, Any]) -> bytes:
    return run(2, _json_reference(held)) if "$ref" in held else run(1, _parameter(held))


# --- paths ----------------------------------------------------------------------------------------

_response = _message({"description": (1, text), "schema": (2, _one(lambda held: run(1, _schema(held))))}, 5)
_security = _many(_one(_mapping(lambda scopes: _many(text)(1, scopes))))
_operation = _message(
    {
        "tags": (1, _many(text)),
        "summary": (2, text),
        "description": (3, text),
        "operationId": (5, text),
        "produces": (6, _many(text)),
        "consumes": (7, _many(text)),
        "parameters": (8, _many(_one(_parameter_or_reference))),
        "responses": (9, _one(_mapping(lambda held: run(1, _response(held))))),
        "deprecated": (11, whole),
        "security": (12, _security),
    },
    13,
)
_path_item = _message(
    {
        "get": (2, _one(_operation)),
        "put": (3, _one(_operation)),
        "post": (4, _one(_operation)),
        "delete": (5, _one(_operation)),
        "options": (6, _one(_operation)),
        "head": (7, _one(_operation)),
        "patch": (8, _one(_operation)),
        "parameters": (9, _many(_one(_parameter_or_reference))),
    },
    10,
)

# --- the document ---------------------------------------------------------------------------------

_info = _message({"title": (1, text), "version": (2, text), "description": (3, text)}, 7)
_api_key = _message({"type": (1, text), "name": (2, text), "in": (3, text), "description": (4, text)}, 5)
# The message for a whole ``swagger: "2.0"`` document.
encode = _message(
    {
        "swagger": (1, text),
        "info": (2, _one(_info)),
        "paths": (8, _one(_mapping(_path_item, 2))),
        "definitions": (9, _one(_mapping(_schema))),
        "parameters": (10, _one(_mapping(_parameter))),
        "security": (12, _security),
        "securityDefinitions": (13, _one(_mapping(lambda held: run(2, _api_key(held))))),
    },
    16,
)
