"""Whether a custom resource's schema is structural: every place has one type, so it can be pruned and merged.

Upstream: apiextensions-apiserver/pkg/apiserver/schema (validation.go). Checked are the rules a schema
has to follow to be served; values of defaults are not checked against it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from berth.kube.validation.errors import FORBIDDEN, INVALID, NOT_SUPPORTED, REQUIRED, FieldError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_ROOT, _FIELD, _ITEM = "at the root", "for specified object fields", "for specified array items"
_UNSUPPORTED = ("$ref", "definitions", "dependencies", "deprecated", "id", "patternProperties", "readOnly")
_LIST_TYPES = ("atomic", "map", "set")


def structural_errors(schema: object, path: str) -> list[FieldError]:
    """What is wrong with a schema; `path` is where its definition has it."""
    if not isinstance(schema, dict):
        return [FieldError(path, REQUIRED, "schemas are required")]
    found = list(_place(schema, path, _ROOT))
    if schema.get("type") not in (None, "", "object"):
        found.append(FieldError(f"{path}.type", INVALID, "must be object at the root", schema["type"]))
    return found


def _place(schema: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    yield from _type(schema, path, where)
    for name in _UNSUPPORTED:
        if schema.get(name):
            yield FieldError(f"{path}.{name}", FORBIDDEN, f"{name} is not supported")
    if schema.get("uniqueItems"):
        yield FieldError(
            f"{path}.uniqueItems",
            FORBIDDEN,
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic",
        )
    yield from _list(schema, path)
    yield from _object(schema, path)


def _type(schema: Mapping[str, Any], path: str, where: str) -> Iterator[FieldError]:
    kind = schema.get("type")
    either = schema.get("x-kubernetes-int-or-string")
    if not kind:
        if not either and not schema.get("x-kubernetes-preserve-unknown-fields"):
            yield FieldError(f"{path}.type", REQUIRED, f"must not be empty {where}")
    elif kind not in _TYPES:
        listed = ", ".join(f'"{name}"' for name in _TYPES)
        yield FieldError(f"{path}.type", NOT_SUPPORTED, f"supported values: {listed}", kind)
    elif either:
        yield FieldError(f"{path}.type", INVALID, "must be empty if x-kubernetes-int-or-string is true", kind)
    if schema.get("x-kubernetes-embedded-resource") and kind != "object":
        yield FieldError(
            f"{path}.type", INVALID, "must be object if x-kubernetes-embedded-resource is true", kind or ""
        )


def _list(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    items = schema.get("items")
    if isinstance(items, list):
        yield FieldError(f"{path}.items", FORBIDDEN, "items must be a schema object and not an array")
    elif isinstance(items, dict):
        yield from _place(items, f"{path}.items", _ITEM)
    elif schema.get("type") == "array":
        yield FieldError(f"{path}.items", REQUIRED, "must be specified")
    list_type, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys")
    if list_type is not None:
        at = f"{path}.x-kubernetes-list-type"
        if list_type not in _LIST_TYPES:
            listed = ", ".join(f'"{name}"' for name in _LIST_TYPES)
            yield FieldError(at, NOT_SUPPORTED, f"supported values: {listed}", list_type)
        elif schema.get("type") != "array":
            yield FieldError(
                f"{path}.type", INVALID, "must be array if x-kubernetes-list-type is specified", ""
            )
    if list_type == "map" and not keys:
        yield FieldError(
            f"{path}.x-kubernetes-list-map-keys",
            REQUIRED,
            "must not be empty if x-kubernetes-list-type is map",
        )
    if keys and list_type == "map" and isinstance(items, dict):
        yield from _map_keys(items, keys, path)


def _map_keys(items: Mapping[str, Any], keys: list[Any], path: str) -> Iterator[FieldError]:
    properties, required = items.get("properties") or {}, items.get("required") or ()
    for index, key in enumerate(keys):
        at = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if key not in properties:
            yield FieldError(at, INVALID, "entries must all be names of item properties", key)
        elif key not in required and "default" not in properties[key]:
            yield FieldError(
                f"{path}.items.properties[{key}].default",
                REQUIRED,
                "this property is in x-kubernetes-list-map-keys, so it must have a default"
                " or be a required property",
            )


def _object(schema: Mapping[str, Any], path: str) -> Iterator[FieldError]:
    properties, extra = schema.get("properties") or {}, schema.get("additionalProperties")
    for name, inner in properties.items():
        if isinstance(inner, dict):
            yield from _place(inner, f"{path}.properties[{name}]", _FIELD)
    if extra is False:
        yield FieldError(
            f"{path}.additionalProperties", FORBIDDEN, "additionalProperties cannot be set to false"
        )
    elif extra and properties:
        yield FieldError(
            f"{path}.additionalProperties",
            FORBIDDEN,
            "additionalProperties and properties are mutual exclusive",
        )
    elif isinstance(extra, dict):
        yield from _place(extra, f"{path}.additionalProperties", _FIELD)
