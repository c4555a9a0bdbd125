"""The OpenAPI v2 document in protobuf: gnostic's ``openapi.v2.Document``, the only form kubectl asks for.

Each message is a table of keywords of the JSON document (``OpenAPIv2.proto`` of google/gnostic-models).
Only what our document or a custom resource's schema can hold is here; a keyword that its message has no field
for is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import msgspec

from berth.server.protobuf.wire import double, run, text, whole

MEDIA_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
# What clients ask for; "@" is no legal character in a media type, but came first.
MEDIA_TYPES = (MEDIA_TYPE, "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")

# --- messages -------------------------------------------------------------------------------------

# The keywords of each message in the order of their fields, which are numbered from 1. Behind a colon stands
# the type, unless it is text: `[T]` is a list, `{T}` a map of names to T, `_OTHERS` has what is no table.
# "-" is a field that nothing here has; the one at "x-" holds every keyword that begins so.
_MESSAGES = {
    "document": "swagger info:info - - - - - paths:paths definitions:{schema} parameters:{parameter} -"
    " security:[{scopes}] securityDefinitions:{scheme} - - x-",
    "info": "title version - - - - x-",
    "path": "- get:operation put:operation post:operation delete:operation - - patch:operation"
    " parameters:[parameter_or_reference] x-",
    "operation": "tags:[text] summary description - operationId produces:[text] consumes:[text]"
    " parameters:[parameter_or_reference] responses:{answer} - - security:[{scopes}] x-",
    "response": "description schema:item - - x-",
    "schema": "$ref format title description default:any multipleOf:double maximum:double"
    " exclusiveMaximum:whole minimum:double exclusiveMinimum:whole maxLength:whole minLength:whole pattern"
    " maxItems:whole minItems:whole uniqueItems:whole maxProperties:whole minProperties:whole"
    " required:[text] enum:[any] additionalProperties:schema_or_flag type:type items:item allOf:[schema]"
    " properties:{schema} - - - externalDocs:docs example:any x-",
    "docs": "description url x-",
    "body_parameter": "description name in required:whole schema:schema",
    "query_parameter": "required:whole in description name - type format",
    "path_parameter": "required:whole in description name type format",
    "reference": "$ref description",
    "api_key": "type name in description x-",
}


@cache
def _fields(message: str) -> dict[str, tuple[int, str]]:
    """The number of each keyword's field, and its type."""
    words = enumerate(_MESSAGES[message].split(), 1)
    parted = ((number, *word.partition(":")) for number, word in words if word != "-")
    return {keyword: (number, kind or "text") for number, keyword, _, kind in parted}


def encode(document: Mapping[str, Any]) -> bytes:
    """The message for a whole ``swagger: "2.0"`` document."""
    return _message("document", document)


def _message(name: str, held: Mapping[str, Any]) -> bytes:
    known, written = _fields(name), []
    for keyword, value in held.items():
        if keyword in known:
            written.append(_field(*known[keyword], value))
        elif "x-" in known and keyword.startswith("x-"):
            written.append(run(known["x-"][0], _named(keyword, _any(value))))
    return b"".join(written)


def _field(tag: int, kind: str, value: Any) -> bytes:  # noqa: ANN401 -- each type has values of its own
    if kind in _SCALARS:
        return _SCALARS[kind](tag, value)
    if kind[0] == "[":
        return b"".join(_field(tag, kind[1:-1], one) for one in value)
    return run(tag, _entries(1, kind[1:-1], value) if kind[0] == "{" else _content(kind, value))


def _entries(tag: int, kind: str, held: Mapping[str, Any]) -> bytes:
    """Names and what they stand for, in order."""
    return b"".join(run(tag, _named(name, _content(kind, value))) for name, value in held.items())


def _named(name: str, value: bytes) -> bytes:
    return text(1, name) + run(2, value)


def _content(kind: str, value: Any) -> bytes:  # noqa: ANN401 -- as above
    return _OTHERS[kind](value) if kind in _OTHERS else _message(kind, value)


# --- types that are no tables ---------------------------------------------------------------------

# Go's YAML reader refuses these or takes them for line ends; JSON has them as they are.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _any(value: Any) -> bytes:  # noqa: ANN401 -- any JSON value
    """Any value, in YAML, of which JSON is a part but for a few characters."""
    written = msgspec.json.encode(value).decode()
    return text(2, _UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", written))


def _parameter(held: Mapping[str, Any]) -> bytes:
    if held["in"] == "body":
        return _field(1, "body_parameter", held)
    return run(2, _field(3 if held["in"] == "query" else 4, f"{held['in']}_parameter", held))


def _parameter_or_reference(held: Mapping[str, Any]) -> bytes:
    return _field(2, "reference", held) if "$ref" in held else _field(1, "parameter", held)


def _schema_or_flag(held: Any) -> bytes:  # noqa: ANN401 -- a schema or a boolean
    return whole(2, held) if isinstance(held, bool) else _field(1, "schema", held)


_SCALARS: dict[str, Callable[[int, Any], bytes]] = {"text": text, "double": double, "whole": whole}
_OTHERS: dict[str, Callable[[Any], bytes]] = {
    "answer": lambda held: _field(1, "response", held),
    "any": _any,
    "item": lambda held: _field(1, "schema", held),
    "parameter": _parameter,
    "parameter_or_reference": _parameter_or_reference,
    "paths": lambda held: _entries(2, "path", held),
    "schema_or_flag": _schema_or_flag,
    "scheme": lambda held: _field(2, "api_key", held),
    "scopes": lambda held: _field(1, "[text]", held),
    "type": lambda name: text(1, name),
}
