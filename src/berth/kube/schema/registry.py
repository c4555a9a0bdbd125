"""Which schema belongs to which kind; those of custom resources come and go at run time.

CEL rules (``x-kubernetes-validations``) are kept in the CustomResourceDefinition but not evaluated.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, get_args

from berth.kube.schema import builtin
from berth.kube.schema.checks import conforms, problems, prune
from berth.kube.schema.constraints import violations
from berth.kube.schema.nodes import FREE_FORM, INT_OR_STRING, NO_DEFAULT, SchemaNode, SchemaStruct, Type
from berth.kube.text.words import told
from berth.kube.validation.errors import FieldError

Gvk = tuple[str, str, str]

_MOST_UNKNOWN = 100  # fields that upstream's decoder tells of, too


@dataclass(frozen=True, slots=True, eq=False)
class Schema:
    """The schema of one kind; `custom` is that of a custom resource as its definition gives it."""

    root: SchemaNode
    custom: Mapping[str, Any] | None = None

    def conforms(self, obj: dict[str, Any]) -> bool:
        """Whether there are neither unknown fields nor wrong types: the quick answer for most objects."""
        return conforms(obj, self.root)

    def unknown_fields(self, obj: dict[str, Any]) -> list[str]:
        """The paths of fields the kind does not have, ``spec.containers[0].imagee``; not all of many."""
        found = (problem.path for problem in problems(obj, self.root) if not problem.message)
        return list(told(found, _MOST_UNKNOWN, len))

    def type_error(self, obj: dict[str, Any]) -> tuple[str, str] | None:
        """Path and message of the first value that could not have been decoded (400 Bad Request).

        For a custom resource only its metadata is decoded like that; see :meth:`validate` for the rest.
        """
        found = (
            (problem.path, problem.message)
            for problem in problems(obj, self.root)
            if problem.message and (self.custom is None or problem.path.partition(".")[0] == "metadata")
        )
        return next(found, None)

    def prune(self, obj: dict[str, Any]) -> dict[str, Any]:
        """The object without unknown fields; the same object if it has none."""
        return prune(obj, self.root)

    def apply_defaults(self, obj: dict[str, Any]) -> None:
        """Fill in a custom resource's defaults, in place; built-in kinds are defaulted elsewhere."""
        if self.custom is not None:
            apply_defaults(obj, self.root)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """What a custom resource's schema objects to (422 Invalid); nothing for built-in kinds."""
        return violations(obj, self.root) if self.custom is not None else []


class SchemaRegistry:
    """The schemas of all kinds that are served."""

    def __init__(self) -> None:
        self._custom: dict[Gvk, Schema] = {}
        self._by_crd: dict[str, list[Gvk]] = {}

    def for_kind(self, group: str, version: str, kind: str) -> Schema | None:
        return self._custom.get((group, version, kind)) or _builtin_schema(group, version, kind)

    def custom(self) -> dict[tuple[str, str], Schema]:
        """The schemas of custom resources by apiVersion and kind."""
        return {(f"{group}/{version}", kind): held for (group, version, kind), held in self._custom.items()}

    def add_crd(self, crd: Mapping[str, Any]) -> None:
        """Take in a CustomResourceDefinition, replacing an earlier state of it."""
        self.remove_crd(crd)
        spec = crd.get("spec") or {}
        group, kind = str(spec.get("group", "")), str((spec.get("names") or {}).get("kind", ""))
        added: list[Gvk] = []
        for version in spec.get("versions") or ():
            key = (group, str(version.get("name", "")), kind)
            self._custom[key] = _custom_schema(key, version, preserve=bool(spec.get("preserveUnknownFields")))
            added.append(key)
        self._by_crd[_name(crd)] = added

    def remove_crd(self, crd: Mapping[str, Any]) -> None:
        for key in self._by_crd.pop(_name(crd), ()):
            self._custom.pop(key, None)


def _name(crd: Mapping[str, Any]) -> str:
    return str((crd.get("metadata") or {}).get("name", ""))


@cache
def _builtin_schema(group: str, version: str, kind: str) -> Schema | None:
    home = builtin.package_of(group, version)
    if home is None or kind not in builtin.package(home).types:
        return None
    return Schema(builtin.object_node(f"{home}.{kind}"))


def _custom_schema(key: Gvk, version: Mapping[str, Any], *, preserve: bool) -> Schema:
    group, name, kind = key
    written = (version.get("schema") or {}).get("openAPIV3Schema") or {}
    if preserve or not written:
        written = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **written}
    # In the manner of the built-in ones: ``io.example.v1.Widget``.
    definition = ".".join([*reversed(group.split(".")), name, kind])
    return Schema(root_node(written, definition), custom=written)


# --- the structural schema of a custom resource as nodes, and the defaults it asks for -----------------

_TYPES: dict[str, Type] = {name: name for name in get_args(Type)}
# Real schemas are not nested deeper than this.
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
        node.values = _node(extra, f"{name}.values", depth + 1) if isinstance(extra, dict) else FREE_FORM
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
