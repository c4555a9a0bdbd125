"""Request bodies: read within limits, decoded from JSON, YAML or protobuf, and held against their schema.

Nothing here may take more than its share, whatever was sent: sizes, depth and aliases are bounded, and
what is long is decoded in a thread (:mod:`~berth.server.http.state`).  Values of the wrong type are refused
before anything is judged; ``fieldValidation`` decides what becomes of unknown fields: ``Ignore`` drops them,
``Warn`` (the default) drops them and says so in a Warning header, ``Strict`` refuses the request.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import msgspec

from berth.kube.objects import RawObject
from berth.kube.schema import Schema, budget
from berth.kube.schema.registry import Gvk
from berth.kube.schema.scalars import json_type
from berth.kube.text import json_reader, yaml_reader
from berth.kube.text.decoding import TOO_DEEP, YamlError, without_nulls
from berth.server import errors, protobuf
from berth.server.http.requests import ApiRequest
from berth.server.registry.strategy import SUBRESOURCES
from berth.server.settings import BODY_LIMIT
from berth.server.storage.bucket import encode

_SECONDS = 60.0  # for the whole of a body, as kube-apiserver's --request-timeout
# How many more values than are written a body may stand for by its aliases.
_MOST_EXPANDED = 20_000
_MODES = ("Ignore", "Warn", "Strict")
_MOST_WARNINGS, _MOST_TEXT = 50, 4096  # each is a header


async def read_body(request: ApiRequest) -> bytes:
    """The whole body; 413 if it is too large, 408 if it does not arrive in time, 400 if it ends too early."""
    length = request.headers.get(b"content-length")
    if length is not None and length.isdigit() and int(length[:18]) > BODY_LIMIT:
        raise errors.too_large(BODY_LIMIT)
    chunks, size = [], 0
    while True:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise errors.bad_request("unexpected EOF")
        body: bytes = message.get("body", b"")
        size += len(body)
        if size > BODY_LIMIT:
            raise errors.too_large(BODY_LIMIT)
        chunks.append(body)
        if not message.get("more_body"):
            return chunks[0] if len(chunks) == 1 else b"".join(chunks)
        # The connection lets us look at the clock now and then, also when nothing comes.
        if time.perf_counter() - request.started > _SECONDS:
            raise errors.StatusError(408, "Timeout", "the body did not arrive in time")


def decode_body(request: ApiRequest, body: bytes) -> RawObject:
    """The object in a body; YAML or protobuf where the content type says so."""
    content_type = request.content_type
    if content_type == protobuf.CONTENT_TYPE:
        try:
            return protobuf.decode(body)
        except protobuf.UnknownKindError:
            raise errors.unsupported_media_type() from None
        except protobuf.ProtobufError as error:
            raise errors.bad_request(f"error decoding protobuf: {error}") from None
    value = decode_value(request, body, yaml_allowed="yaml" in content_type)
    if not isinstance(value, dict):
        raise errors.bad_request(
            "couldn't get version/kind; json parse error: json: cannot unmarshal "
            f"{json_type(value)} into Go value of type struct {{ APIVersion string; Kind string }}"
        )
    return value


def without_nulls_like_go(request: ApiRequest, body: bytes, obj: RawObject) -> RawObject:
    """A built-in object without nulls: they mean an absent field, or an empty element of a list."""
    may_have_null = b"null" in body or "yaml" in request.content_type  # YAML writes null in several ways
    if request.endpoint.strategy.custom or not may_have_null:
        return obj
    return _filled(without_nulls(obj))  # type: ignore[return-value]  # a mapping stays one


def _filled(value: object) -> object:
    if isinstance(value, dict):
        return {name: _filled(item) for name, item in value.items()}
    if isinstance(value, list):
        return [{} if item is None else _filled(item) for item in value]
    return value


def decode_value(request: ApiRequest, body: bytes, *, yaml_allowed: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """The value in a body; what it has twice is noted in the request."""
    request.repeated.clear()
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if yaml_allowed:
            return _decode_yaml(request, body)
        detail = TOO_DEEP if isinstance(error, RecursionError) else str(error)
        detail = detail.removeprefix("JSON is malformed: ")
        raise errors.bad_request(
            f"the object provided is unrecognized (must be of type JSON): {detail}"
        ) from None
    if request.query.get("fieldValidation") != "Ignore" and _may_repeat(body, encode(value)):
        request.repeated += [f'duplicate field "{path}"' for path in json_reader.repeated_keys(body)]
    return value


def _may_repeat(body: bytes, again: bytes) -> bool:
    """Whether something may have been dropped from a body; it has fewer quotes when it is encoded `again`."""
    if b"\\" in body:  # a quote may be written in two ways, then
        return len(again) != len(body.rstrip())  # it is shorter; so is one with blanks
    return again.count(b'"') != body.count(b'"')


def _decode_yaml(request: ApiRequest, body: bytes) -> Any:  # noqa: ANN401 - any JSON value
    repeated: list[str] = []
    try:
        text = body.decode()
        documents = yaml_reader.read(
            text, lambda _: budget.step(), most_expanded=_MOST_EXPANDED, repeated=repeated
        )
        # As upstream, which looks at the first document of several.
        value = next((document.value for document in documents), None)
        _refuse_infinite(value)
    except (YamlError, UnicodeDecodeError, RecursionError) as error:
        raise errors.bad_request(f"error decoding YAML: {error}") from None
    request.repeated += [f"yaml: unmarshal errors:\n  {one}" for one in repeated]
    # Aliases share what they stand for; what is stored must not.
    return msgspec.json.decode(encode(value))


def _refuse_infinite(value: object) -> None:
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, float) and not math.isfinite(one):
            raise YamlError(f"json: unsupported value: {one}")


# --- schemas


def check(request: ApiRequest, obj: RawObject) -> RawObject:
    """The object as its schema knows it; 400 if a value has the wrong type or `Strict` validation fails."""
    return _checked(request, request.endpoint.schema, request.endpoint.resource.gvk, obj)


def check_part(request: ApiRequest, obj: RawObject) -> RawObject:
    """The same for what is sent to a subresource with a kind of its own; 400 if it says it is of another."""
    part = SUBRESOURCES[request.address.subresource]
    gvk = (part.group, part.version, part.kind)
    api_version = f"{part.group}/{part.version}" if part.group else part.version
    if part.older and obj.get("apiVersion") == part.older:
        obj["apiVersion"] = api_version
    if obj.get("kind") not in (None, "", part.kind):
        raise errors.bad_request(
            f'{obj["kind"]} in version "{part.version}" cannot be handled as a {part.kind}'
        )
    if obj.get("apiVersion") not in (None, "", api_version):
        raise errors.bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            f"({api_version})"
        )
    return _checked(request, request.registry.schemas.for_kind(*gvk), gvk, obj)


def _checked(request: ApiRequest, schema: Schema | None, gvk: Gvk, obj: RawObject) -> RawObject:
    if schema is None:
        return obj
    mode = request.query.get("fieldValidation") or "Warn"
    if mode not in _MODES:
        listed = ", ".join(f'"{name}"' for name in _MODES)
        raise errors.bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: {listed}')
    conforms = schema.conforms(obj)
    if conforms and not request.repeated:
        return obj
    _, version, kind = gvk
    handled = f'{kind} in version "{version}" cannot be handled as a {kind}'
    wrong = None if conforms else schema.type_error(obj)
    if wrong:
        _, message = wrong
        raise errors.bad_request(f"{handled}: {message}")
    unknown = () if conforms else schema.unknown_fields(obj)
    objections = [*request.repeated, *(f'unknown field "{path}"' for path in unknown)]
    if objections and mode == "Strict":
        raise errors.bad_request(f"{handled}: strict decoding error: {', '.join(objections)}")
    if mode == "Warn":
        request.warnings = list(_within(objections))
    return schema.prune(obj) if unknown else obj


def _within(warnings: list[str]) -> Iterator[str]:
    """As many as a client takes."""
    text = 0
    for warning in warnings[:_MOST_WARNINGS]:
        text += len(warning)
        if text > _MOST_TEXT:
            return
        yield warning
