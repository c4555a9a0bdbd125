"""Custom resources: nodes from a structural schema, defaults, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from berth.kube.schema import Schema, SchemaRegistry
from berth.kube.schema.registry import TooManyDefaultsError, apply_defaults, root_node


def crd(schema: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": schema}}],
            **spec,
        },
    }


def schema_for(spec: dict[str, Any], **definition: Any) -> Schema:
    registry = SchemaRegistry()
    registry.add_crd(crd({"type": "object", "properties": {"spec": spec}}, **definition))
    found = registry.for_kind("example.com", "v1", "Widget")
    assert found is not None
    return found


def widget(spec: object) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": spec}


def errors(spec_schema: dict[str, Any], spec: object) -> list[str]:
    return [str(error) for error in schema_for(spec_schema).validate(widget(spec))]


def test_definitions_come_and_go() -> None:
    """Adding again replaces, removing removes; built-in kinds are not affected."""
    registry = SchemaRegistry()
    registry.add_crd(crd({"type": "object"}))
    first = registry.for_kind("example.com", "v1", "Widget")
    registry.add_crd(crd({"type": "object"}))
    assert first is not registry.for_kind("example.com", "v1", "Widget")
    registry.remove_crd(crd({}))
    assert registry.for_kind("example.com", "v1", "Widget") is None
    registry.remove_crd(crd({}))


def test_unknown_fields_are_pruned_unless_preserved() -> None:
    """Unknown fields of custom resources are pruned where the schema does not preserve them."""
    schema = schema_for(
        {
            "type": "object",
            "properties": {
                "known": {"type": "object"},
                "free": {
                    "type": "object",
                    "x-kubernetes-preserve-unknown-fields": True,
                    "properties": {"strict": {"type": "object", "properties": {}}},
                },
                "map": {"type": "object", "additionalProperties": {"type": "object"}},
            },
        }
    )
    obj = widget(
        {"known": {"a": 1}, "free": {"b": {"c": 2}, "strict": {"d": 1}}, "map": {"k": {"e": 1}}, "x": 1}
    )
    assert schema.unknown_fields(obj) == ["spec.known.a", "spec.free.strict.d", "spec.map.k.e", "spec.x"]
    assert schema.prune(obj)["spec"] == {"known": {}, "free": {"b": {"c": 2}, "strict": {}}, "map": {"k": {}}}


def test_metadata_is_checked_like_any_other() -> None:
    """The metadata of a custom resource is checked as that of any object."""
    schema = schema_for({"type": "object"})
    obj = widget({})
    obj["metadata"]["labels"] = {"a": 1}
    obj["metadata"]["bogus"] = 1
    assert schema.unknown_fields(obj) == ["metadata.bogus"]
    wrong = schema.type_error(obj)
    assert wrong is not None
    assert wrong[0] == "metadata.labels.a"


def test_a_definition_without_schema_keeps_everything() -> None:
    """A definition without a schema accepts any field."""
    registry = SchemaRegistry()
    registry.add_crd(crd({}))
    schema = registry.for_kind("example.com", "v1", "Widget")
    assert schema is not None
    assert schema.conforms(widget({"anything": [1, {"goes": True}]}))


def test_defaults_are_filled_in() -> None:
    """Defaults are filled in where the parent exists; a null that is not allowed counts as missing."""
    schema = schema_for(
        {
            "type": "object",
            "default": {},
            "properties": {
                "n": {"type": "integer", "default": 3},
                "inner": {"type": "object", "properties": {"x": {"type": "string", "default": "y"}}},
                "list": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"z": {"type": "boolean", "default": True}}},
                },
                "maybe": {"type": "string", "nullable": True, "default": "set"},
            },
        }
    )
    obj = widget({"n": None, "inner": {}, "list": [{}], "maybe": None})
    schema.apply_defaults(obj)
    assert obj["spec"] == {"n": 3, "inner": {"x": "y"}, "list": [{"z": True}], "maybe": None}
    bare = {"kind": "Widget"}
    schema.apply_defaults(bare)
    assert bare == {"kind": "Widget", "spec": {"n": 3, "maybe": "set"}}


def test_builtin_kinds_are_not_defaulted_here() -> None:
    """Schemas of built-in kinds neither default nor validate values."""
    schema = SchemaRegistry().for_kind("", "v1", "Service")
    assert schema is not None
    obj: dict[str, Any] = {"spec": {"ports": [{"port": 1}]}}
    schema.apply_defaults(obj)
    assert obj == {"spec": {"ports": [{"port": 1}]}}
    assert schema.validate(obj) == []


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (
            {"type": "integer"},
            "a",
            'Invalid value: "string": spec.x in body must be of type integer: "string"',
        ),
        (
            {"type": "integer"},
            1.5,
            'Invalid value: "number": spec.x in body must be of type integer: "number"',
        ),
        ({"type": "integer"}, None, 'Invalid value: "null": spec.x in body must be of type integer: "null"'),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'Unsupported value: "c": supported values: "a", "b"'),
        (
            {"type": "integer", "minimum": 1},
            0,
            "Invalid value: 0: spec.x in body should be greater than or equal to 1",
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid value: 1: spec.x in body should be greater than 1",
        ),
        (
            {"type": "number", "maximum": 2},
            3,
            "Invalid value: 3: spec.x in body should be less than or equal to 2",
        ),
        (
            {"type": "number", "maximum": 2, "exclusiveMaximum": True},
            2,
            "Invalid value: 2: spec.x in body should be less than 2",
        ),
        (
            {"type": "integer", "multipleOf": 2},
            3,
            "Invalid value: 3: spec.x in body should be a multiple of 2",
        ),
        (
            {"type": "string", "pattern": "^a$"},
            "b",
            "Invalid value: \"b\": spec.x in body should match '^a$'",
        ),
        (
            {"type": "string", "minLength": 2},
            "a",
            'Invalid value: "a": spec.x in body should be at least 2 chars long',
        ),
        ({"type": "string", "maxLength": 1}, "ab", "Too long: may not be more than 1 bytes"),
        (
            {"type": "string", "format": "date-time"},
            "x",
            'Invalid value: "x": spec.x in body must be of type date-time: "x"',
        ),
        ({"type": "array", "maxItems": 1, "items": {}}, [1, 2], "Too many: 2: must have at most 1 items"),
        (
            {"type": "array", "minItems": 1, "items": {}},
            [],
            "Invalid value: []: spec.x in body should have at least 1 items",
        ),
        ({"x-kubernetes-int-or-string": True}, True, None),
        ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, True, None),
        ({"type": "string", "oneOf": [{"pattern": "a"}, {"pattern": "b"}]}, "ab", None),
        ({"type": "string", "not": {"enum": ["bad"]}}, "bad", None),
        ({"type": "object", "allOf": [{"required": ["y"]}]}, {}, None),
    ],
)
def test_violations(rule: dict[str, Any], value: object, expected: str | None) -> None:
    """Each constraint is reported in the API server's words (None: any words will do)."""
    (found,) = errors({"type": "object", "properties": {"x": rule}}, {"x": value})
    if expected is not None:
        assert f"spec.x: {expected}" == found


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ({"type": "integer"}, 3.0),
        ({"type": "integer", "nullable": True}, None),
        ({"type": "number"}, 3),
        ({"x-kubernetes-int-or-string": True}, "50%"),
        ({"x-kubernetes-int-or-string": True}, 50),
        ({"type": "string", "pattern": "(?<name>go only"}, "anything"),
        ({"oneOf": [{"type": "string"}, {"type": "integer"}]}, "a"),
    ],
)
def test_what_is_allowed(rule: dict[str, Any], value: object) -> None:
    """Values that the schema allows have no errors, a pattern of another dialect included."""
    assert errors({"type": "object", "properties": {"x": rule}}, {"x": value}) == []


def test_required_fields_and_duplicate_keys() -> None:
    """Missing required fields and duplicates in sets and maps are named."""
    schema = {
        "type": "object",
        "required": ["must"],
        "properties": {
            "must": {"type": "string"},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
                "items": {"type": "object", "properties": {"name": {"type": "string"}}},
            },
        },
    }
    assert errors(schema, {"set": ["a", "a"], "map": [{"name": "x"}, {"name": "x"}]}) == [
        "spec.must: Required value",
        'spec.set[1]: Duplicate value: "a"',
        'spec.map[1]: Duplicate value: {"name":"x"}',
    ]


def test_embedded_resources_have_metadata() -> None:
    """An embedded resource has checked metadata and pruned contents."""
    schema = schema_for({"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}})
    obj = widget({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "bogus": 1}, "spec": {}})
    assert schema.unknown_fields(obj) == ["spec.metadata.bogus", "spec.spec"]


def test_list_types_become_nodes() -> None:
    """Map and list types of a schema are those of the node; a map list without keys is atomic."""
    schema = schema_for(
        {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "l": {"type": "array", "x-kubernetes-list-type": "map", "items": {"type": "object"}}
            },
        }
    )
    node = schema.root.fields["spec"]
    assert node.is_atomic
    assert node.fields["l"].list_type == "atomic", "a map without keys cannot be one"


def test_defaults_have_a_size() -> None:
    """A short object does not become one of gigabytes by what its schema fills in."""
    fields = {f"f{i}": {"type": "string", "default": "x" * 1000} for i in range(1000)}
    items = {"type": "object", "properties": fields}
    schema = {"type": "object", "properties": {"l": {"type": "array", "items": items}}}
    with pytest.raises(TooManyDefaultsError):
        apply_defaults({"l": [{} for _ in range(2000)]}, root_node(schema, "x"))
