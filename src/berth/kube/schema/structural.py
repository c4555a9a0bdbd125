"""Whether a custom resource's schema is structural: every place has one type, so it can be pruned and merged.

Upstream: apiextensions-apiserver/pkg/apiserver/schema (validation.go, complete.go) and the part of
pkg/apis/apiextensions/validation that forbids what such a schema may not have. Values of defaults are not
checked against it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from berth.kube.schema import patterns
from berth.kube.schema.budget import step
from berth.kube.validation.errors import FORBIDDEN, INVALID, REQUIRED, FieldError, unsupported

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_ROOT, _FIELD, _ITEM = "at the root", "for specified object fields", "for specified array items"
_UNSUPPORTED = (
    "$ref",
    "additionalItems",
    "definitions",
    "dependencies",
    "deprecated",
    "discriminator",
    "id",
    "patternProperties",
    "readOnly",
    "writeOnly",
    "xml",
)
_LIST_TYPES = ("atomic", "map", "set")
_EITHER = [{"type": "integer"}, {"type": "string"}]
_COMBINATIONS = ("allOf", "anyOf", "oneOf")
_DEEPEST = 200

# What a schema inside a combination may not say, and in which words that is refused.
_ONLY_OUTSIDE = {
    "type": "must be empty",
    "additionalProperties": "must be undefined",
    "default": "must be undefined",
    "title": "must be empty",
    "description": "must be empty",
    "nullable": "must be false",
    "x-kubernetes-preserve-unknown-fields": "must be false",
    "x-kubernetes-embedded-resource": "must be false",
    "x-kubernetes-int-or-string": "must be false",
    "x-kubernetes-list-map-keys": "must be empty",
    "x-kubernetes-list-type": "must be undefined",
    "x-kubernetes-map-type": "must be undefined",
    "x-kubernetes-validations": "must be empty",
}


def structural_errors(schema: object, path: str) -> list[FieldError]:
    """What is wrong with a schema; `path` is where its definition has it."""
    if not isinstance(schema, dict):
        return [FieldError(path, REQUIRED, "schemas are required")]
    found = list(_place(schema, path, _ROOT))
    if schema.get("type") not in (None, "", "object"):
        found.append(FieldError(f"{path}.type", INVALID, "must be object at the root", schema["type"]))
    if schema.get("additionalProperties"):
        found.append(FieldError(f"{path}.additionalProperties", FORBIDDEN, "must not be used at the root"))
    return [*found, *_incomplete(schema, schema, path, path)]


def _place(schema: Mapping[str, Any], path: str, where: str, depth: int = 0) -> Iterator[FieldError]:
    if depth > _DEEPEST:
        yield FieldError(path, FORBIDDEN, f"must not be nested more than {_DEEPEST} levels deep")
        return
    yield from _type(schema, path, where)
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield FieldError(f"{path}.{name}", FORBIDDEN, f"{name} is not supported")
    if schema.get("uniqueItems"):
        detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield FieldError(f"{path}.uniqueItems", FORBIDDEN, detail)
    yield from _list(schema, path, depth)
    yield from _object(schema, path, depth)
    yield from _metadata(schema, path, where)
    yield from _combinations(schema, path, depth)


def _type(schema: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    either, embedded = schema.get("x-kubernetes-int-or-string"), schema.get("x-kubernetes-embedded-resource")
    preserve = schema.get("x-kubernetes-preserve-unknown-fields")
    if embedded and kind != "object":
        detail = "must be object if x-kubernetes-embedded-resource is true"
        yield FieldError(f"{path}.type", INVALID if kind else REQUIRED, detail, kind or "")
    elif not kind and not either and not preserve:
        yield FieldError(f"{path}.type", REQUIRED, f"must not be empty {where}")
    if kind and kind not in _TYPES:
        yield unsupported(f"{path}.type", kind, _TYPES)
    elif kind and either:
        yield FieldError(f"{path}.type", INVALID, "must be empty if x-kubernetes-int-or-string is true", kind)
    for name, set_to in (("preserve-unknown-fields", preserve), ("embedded-resource", embedded)):
        if either and set_to:
            detail = "must be false if x-kubernetes-int-or-string is true"
            yield FieldError(f"{path}.x-kubernetes-{name}", INVALID, detail, set_to)
    if embedded and not preserve and not schema.get("properties"):
        detail = (
            "must not be empty if x-kubernetes-embedded-resource is true without "
            "x-kubernetes-preserve-unknown-fields"
        )
        yield FieldError(f"{path}.properties", REQUIRED, detail)


def _list(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[FieldError]:
    items = schema.get("items")
    if isinstance(items, list):
        yield FieldError(f"{path}.items", FORBIDDEN, "items must be a schema object and not an array")
    elif isinstance(items, dict):
        yield from _place(items, f"{path}.items", _ITEM, depth + 1)
    elif schema.get("type") == "array":
        yield FieldError(f"{path}.items", REQUIRED, "must be specified")
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None:
        if list_type not in _LIST_TYPES:
            yield unsupported(f"{path}.x-kubernetes-list-type", list_type, _LIST_TYPES)
        elif schema.get("type") != "array":
            detail = "must be array if x-kubernetes-list-type is specified"
            yield FieldError(f"{path}.type", INVALID, detail, schema.get("type") or "")
    if list_type == "map" and not keys:
        detail = "must not be empty if x-kubernetes-list-type is map"
        yield FieldError(f"{path}.x-kubernetes-list-map-keys", REQUIRED, detail)
    if keys and list_type == "map" and isinstance(items, dict):
        yield from _map_keys(items, keys, path)


def _map_keys(items: Mapping[str, Any], keys: list[Any], path: str) -> Iterator[FieldError]:
    properties, required = items.get("properties") or {}, set(items.get("required") or ())
    for index, key in enumerate(keys):
        at = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if key not in properties:
            yield FieldError(at, INVALID, "entries must all be names of item properties", key)
        elif key not in required and "default" not in properties[key]:
            detail = (
                "this property is in x-kubernetes-list-map-keys, so it must have a default"
                " or be a required property"
            )
            yield FieldError(f"{path}.items.properties[{key}].default", REQUIRED, detail)


def _object(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[FieldError]:
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in properties.items():
        if isinstance(inner, dict):
            yield from _place(inner, f"{path}.properties[{name}]", _FIELD, depth + 1)
    at = f"{path}.additionalProperties"
    if extra is False:
        yield FieldError(at, FORBIDDEN, "additionalProperties cannot be set to false")
    elif extra and properties:
        yield FieldError(at, FORBIDDEN, "additionalProperties and properties are mutual exclusive")
    elif isinstance(extra, dict):
        yield from _place(extra, at, _FIELD, depth + 1)


def _metadata(schema: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    """What stands for a whole object has kind, apiVersion and metadata of the usual types."""
    if where != _ROOT and not schema.get("x-kubernetes-embedded-resource"):
        return
    properties = schema.get("properties") or {}
    for name, wanted in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        inner = properties.get(name)
        if isinstance(inner, dict) and inner.get("type") != wanted:
            at = f"{path}.properties[{name}].type"
            yield FieldError(at, INVALID, f"must be {wanted}", inner.get("type") or "")
    metadata = properties.get("metadata")
    if where == _ROOT and isinstance(metadata, dict):
        said = set(metadata) - {"type", "properties", "description", "default"}
        if said or not set(metadata.get("properties") or ()) <= {"name", "generateName"}:
            detail = (
                "must not specify anything other than name and generateName, but metadata is "
                "implicitly specified"
            )
            yield FieldError(f"{path}.properties[metadata]", FORBIDDEN, detail)


# --- combinations ---------------------------------------------------------------------------------


def _combinations(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[FieldError]:
    """The schemas of allOf, anyOf, oneOf and not, which only constrain; and the pattern."""
    step()
    either = bool(schema.get("x-kubernetes-int-or-string"))
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and pattern:
        try:
            patterns.compiled(pattern)
        except patterns.PatternError as error:
            detail = f"must be a valid regular expression, but isn't: {error}"
            yield FieldError(f"{path}.pattern", INVALID, detail, pattern)
    for name in _COMBINATIONS:
        for index, inner in enumerate(schema.get(name) or ()):
            if not isinstance(inner, dict) or (either and name == "anyOf" and schema[name] == _EITHER):
                continue
            first = either and name == "allOf" and index == 0 and inner.get("anyOf") == _EITHER
            given = {key: value for key, value in inner.items() if key != "anyOf"} if first else inner
            yield from _nested(given, f"{path}.{name}[{index}]", depth + 1)
    if isinstance(schema.get("not"), dict):
        yield from _nested(schema["not"], f"{path}.not", depth + 1)


def _nested(schema: Mapping[str, Any], path: str, depth: int) -> Iterator[FieldError]:
    if depth > _DEEPEST:
        yield FieldError(path, FORBIDDEN, f"must not be nested more than {_DEEPEST} levels deep")
        return
    yield from _combinations(schema, path, depth)
    if isinstance(schema.get("items"), dict):
        yield from _nested(schema["items"], f"{path}.items", depth + 1)
    properties = schema.get("properties") or {}
    for name, inner in properties.items():
        if isinstance(inner, dict):
            yield from _nested(inner, f"{path}.properties[{name}]", depth + 1)
    for name, how in _ONLY_OUTSIDE.items():
        if schema.get(name) is not None and (schema[name] or name == "default"):
            yield FieldError(f"{path}.{name}", FORBIDDEN, f"{how} to be structural")
    if "metadata" in properties:
        detail = "must not be specified in a nested context"
        yield FieldError(f"{path}.properties[metadata]", FORBIDDEN, detail)


def _incomplete(said: Mapping[str, Any], schema: object, path: str, at: str) -> Iterator[FieldError]:
    """Places that a combination speaks of and the schema itself does not have."""
    for name in (*_COMBINATIONS, "not"):
        inner = said.get(name)
        for index, one in enumerate(inner if isinstance(inner, list) else (inner,)):
            if isinstance(one, dict):
                where = f"{at}.{name}[{index}]" if name != "not" else f"{at}.not"
                yield from _incomplete_in(one, schema, path, where)


def _incomplete_in(said: Mapping[str, Any], schema: object, path: str, at: str) -> Iterator[FieldError]:
    step()
    if not isinstance(schema, dict):
        yield FieldError(path, REQUIRED, f"because it is defined in {at}")
        return
    yield from _incomplete(said, schema, path, at)
    if isinstance(said.get("items"), dict):
        yield from _incomplete_in(said["items"], schema.get("items"), f"{path}.items", f"{at}.items")
    own = schema.get("properties") or {}
    for name, inner in (said.get("properties") or {}).items():
        if isinstance(inner, dict):
            here, there = f"{path}.properties[{name}]", f"{at}.properties[{name}]"
            yield from _incomplete_in(inner, own.get(name), here, there)
