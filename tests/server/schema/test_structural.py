"""Which schemas a CustomResourceDefinition may have."""

from __future__ import annotations

from typing import Any

import pytest

from berth.server.schema import structural_errors

STRING = {"type": "string"}


def errors(schema: object) -> list[str]:
    return [str(error) for error in structural_errors(schema, "s")]


def field(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        {"x-kubernetes-preserve-unknown-fields": True},
        field({"x-kubernetes-int-or-string": True}),
        field({"type": "object", "additionalProperties": STRING}),
        field({"type": "object", "additionalProperties": True}),
        field({"type": "array", "items": STRING, "x-kubernetes-list-type": "set"}),
        field(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["a", "b"],
                "items": {
                    "type": "object",
                    "required": ["a"],
                    "properties": {"a": STRING, "b": {"type": "string", "default": "x"}},
                },
            }
        ),
    ],
)
def test_structural(schema: dict[str, Any]) -> None:
    """A structural schema has no errors."""
    assert errors(schema) == []


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (None, "s: Required value: schemas are required"),
        ({}, "s.type: Required value: must not be empty at the root"),
        (STRING, 's.type: Invalid value: "string": must be object at the root'),
        (field({}), "s.properties[x].type: Required value: must not be empty for specified object fields"),
        (
            field({"type": "array", "items": {}}),
            "s.properties[x].items.type: Required value: must not be empty for specified array items",
        ),
        (field({"type": "array"}), "s.properties[x].items: Required value: must be specified"),
        (
            field({"type": "array", "items": [STRING]}),
            "s.properties[x].items: Forbidden: items must be a schema object and not an array",
        ),
        (
            field({"type": "text"}),
            (
                's.properties[x].type: Unsupported value: "text": supported values: "array", "boolean",'
                ' "integer", "number", "object", "string"'
            ),
        ),
        (
            field({"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING}),
            (
                "s.properties[x].additionalProperties: Forbidden:"
                " additionalProperties and properties are mutual exclusive"
            ),
        ),
        (
            field({"type": "object", "additionalProperties": False}),
            "s.properties[x].additionalProperties: Forbidden: additionalProperties cannot be set to false",
        ),
        (
            field({"type": "array", "items": STRING, "x-kubernetes-list-type": "map"}),
            (
                "s.properties[x].x-kubernetes-list-map-keys: Required value:"
                " must not be empty if x-kubernetes-list-type is map"
            ),
        ),
        (field({"type": "string", "$ref": "y"}), "s.properties[x].$ref: Forbidden: $ref is not supported"),
    ],
)
def test_not_structural(schema: object, expected: str) -> None:
    """A schema that is not structural is refused with the one reason."""
    assert errors(schema) == [expected]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "x-kubernetes-int-or-string": True},
        {"type": "string", "x-kubernetes-embedded-resource": True},
        {"type": "string", "x-kubernetes-list-type": "set"},
        {"type": "array", "items": STRING, "x-kubernetes-list-type": "heap"},
        {"type": "array", "items": STRING, "uniqueItems": True},
        {
            "type": "array",
            "items": {"type": "object", "properties": {"a": STRING}},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
        {
            "type": "array",
            "items": {"type": "object"},
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
        },
    ],
)
def test_contradictions(schema: dict[str, Any]) -> None:
    """A schema with contradicting extensions has exactly one error."""
    assert len(errors(field(schema))) == 1
