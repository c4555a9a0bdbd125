"""Fields a kind does not have, and values of the wrong type, before anything is judged.

``fieldValidation`` decides what becomes of unknown fields: ``Ignore`` drops them, ``Warn`` (the
default) drops them and says so in a Warning header, ``Strict`` refuses the request.
"""

from __future__ import annotations

from collections.abc import Iterator

from berth.kube.objects import RawObject
from berth.kube.schema import Schema, SchemaRegistry
from berth.server import errors
from berth.server.http.requests import ApiRequest
from berth.server.registry.strategy import Endpoint

Gvk = tuple[str, str, str]

_MODES = ("Ignore", "Warn", "Strict")
_MOST_WARNINGS, _MOST_TEXT = 50, 4096  # each is a header


def check(request: ApiRequest, endpoint: Endpoint, obj: RawObject) -> RawObject:
    """The object as its schema knows it.

    Raises:
        StatusError: a value has the wrong type, or a field is unknown and that is to be refused (400).
    """
    if endpoint.schema is None:
        return obj
    return _checked(request, endpoint.schema, endpoint.resource.gvk, obj)


def check_as(request: ApiRequest, schemas: SchemaRegistry, gvk: Gvk, obj: RawObject) -> RawObject:
    """The same for what is sent to a subresource, which has a kind of its own.

    Raises:
        StatusError: as above, or the object says it is of another kind (400).
    """
    group, version, kind = gvk
    api_version = f"{group}/{version}" if group else version
    if obj.get("kind") not in (None, "", kind):
        raise errors.bad_request(f'{obj["kind"]} in version "{version}" cannot be handled as a {kind}')
    if obj.get("apiVersion") not in (None, "", api_version):
        raise errors.bad_request(
            f"the API version in the data ({obj['apiVersion']}) does not match the expected API version "
            f"({api_version})"
        )
    schema = schemas.for_kind(*gvk)
    return obj if schema is None else _checked(request, schema, gvk, obj)


def _checked(request: ApiRequest, schema: Schema, gvk: Gvk, obj: RawObject) -> RawObject:
    mode = validation_mode(request)
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


def validation_mode(request: ApiRequest) -> str:
    mode = request.query.get("fieldValidation") or "Warn"
    if mode not in _MODES:
        listed = ", ".join(f'"{name}"' for name in _MODES)
        raise errors.bad_request(f'fieldValidation: Unsupported value: "{mode}": supported values: {listed}')
    return mode


def _within(warnings: list[str]) -> Iterator[str]:
    """As many as a client takes."""
    text = 0
    for warning in warnings[:_MOST_WARNINGS]:
        text += len(warning)
        if text > _MOST_TEXT:
            return
        yield warning
