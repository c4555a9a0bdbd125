"""Custom resources: their structural schema as nodes, and the defaults it asks for.

CEL rules (``x-kubernetes-validations``) are kept in the CustomResourceDefinition but not evaluated.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from berth.kube.schema import builtin
from berth.kube.schema.nodes import INT_OR_STRING, NO_DEFAULT, SchemaNode, SchemaStruct, Type

_TYPES: dict[str, Type] = {name: name for name in get_args(Type)}
# Deeper schemas than this come from nobody's hand.
_MAX_DEPTH = 64
_MOST_FILLED_IN = 4 * 1024 * 1024  # characters of defaults in one object


def root_node(schema: Mapping[str, Any], name: str) -> SchemaNode:
    """The node of a whole custom object; `schema` is its ``openAPIV3Schema``."""
    node = _node(schema, name, 0)
    node.type = "object"
    return _with_envelope(node, name)


def _with_envelope(node: SchemaNode, name: str) -> SchemaNode:
    """Every whole object has these three, whatever its schema says."""
    fields = {
        **node.fields,
        "apiVersion": SchemaNode(type="string"),
        "kind": SchemaNode(type="string"),
        "metadata": replace(builtin.object_node("meta.v1.ObjectMeta"), inline=True),
    }
    node.struct = SchemaStruct(name, lambda: fields)
    return node


def _node(schema: Mapping[str, Any], name: str, depth: int) -> SchemaNode:
    if depth > _MAX_DEPTH:
        return SchemaNode(type="any", preserve_unknown=True, rules=schema)
    preserve = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    int_or_string = bool(schema.get("x-kubernetes-int-or-string"))
    kind: Type = "string" if int_or_string else _TYPES.get(str(schema.get("type", "")), "any")
    node = SchemaNode(
        type=kind,
        format=INT_OR_STRING if int_or_string else str(schema.get("format", "")),
        nullable=bool(schema.get("nullable")),
        default=schema.get("default", NO_DEFAULT),
        preserve_unknown=preserve,
        embedded=bool(schema.get("x-kubernetes-embedded-resource")),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        rules=schema,
    )
    if kind == "array":
        _as_list(node, schema, name, depth)
    elif kind == "object":
        _as_object(node, schema, name, depth)
    return node


def _as_list(node: SchemaNode, schema: Mapping[str, Any], name: str, depth: int) -> None:
    items = schema.get("items")
    node.items = _node(items, f"{name}.items", depth + 1) if isinstance(items, dict) else None
    list_type = schema.get("x-kubernetes-list-type", "atomic")
    keys = tuple(map(str, schema.get("x-kubernetes-list-map-keys") or ()))
    if list_type == "set" or (list_type == "map" and keys):
        node.list_type, node.list_keys = list_type, keys if list_type == "map" else ()


def _as_object(node: SchemaNode, schema: Mapping[str, Any], name: str, depth: int) -> None:
    extra = schema.get("additionalProperties")
    properties = schema.get("properties") or {}
    if extra and not properties:
        node.values = (
            _node(extra, f"{name}.values", depth + 1)
            if isinstance(extra, dict)
            else SchemaNode(type="any", preserve_unknown=True)
        )
        return
    required = frozenset(schema.get("required") or ())
    fields = {field: _node(inner, f"{name}.{field}", depth + 1) for field, inner in properties.items()}
    for field, inner in fields.items():
        inner.required = field in required
    node.struct = SchemaStruct(name, lambda: fields)
    if node.embedded:
        _with_envelope(node, name)


class TooManyDefaultsError(ValueError):
    """What is missing is more than an object may hold."""


def apply_defaults(value: Any, node: SchemaNode, room: list[int] | None = None) -> None:  # noqa: ANN401
    """Fill in what is missing, in place. A null where none is allowed counts as missing.

    Raises:
        TooManyDefaultsError: a short object would become a very long one.
    """
    room = [_MOST_FILLED_IN] if room is None else room
    if isinstance(value, dict) and node.type == "object":
        for name, inner in node.struct.defaulted.items() if node.struct is not None else ():
            if name not in value or (value[name] is None and not inner.nullable):
                room[0] -= len(name) + len(str(inner.default))
                if room[0] < 0:
                    raise TooManyDefaultsError
                value[name] = copy.deepcopy(inner.default)
        for name, item in value.items():
            apply_defaults(item, node.child(name), room)
    elif isinstance(value, list) and node.type == "array":
        for item in value:
            apply_defaults(item, node.element(), room)
