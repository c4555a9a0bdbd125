"""Which schemas of custom resources are structural."""

from __future__ import annotations

from typing import Any

import pytest

from berth.kube.schema.structural import structural_errors


def in_field(**schema: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": schema}}


TEXT = {"type": "string"}
IN_A = "s.properties[a]"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        in_field(type="string", pattern="^a$"),
        in_field(**{"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        in_field(type="array", items=TEXT),
        in_field(type="object", additionalProperties=TEXT),
        {**in_field(type="string"), "anyOf": [{"required": ["a"]}, {"properties": {"a": {"enum": ["x"]}}}]},
        {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": TEXT}}}},
    ],
)
def test_structural(schema: dict[str, Any]) -> None:
    """Schemas as people write them are taken."""
    assert structural_errors(schema, "s") == []


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "string"}, 's.type: Invalid value: "string": must be object at the root'),
        (in_field(), f"{IN_A}.type: Required value: must not be empty for specified object fields"),
        (in_field(type="array"), f"{IN_A}.items: Required value: must be specified"),
        (in_field(type="array", items=TEXT, uniqueItems=True), f"{IN_A}.uniqueItems: Forbidden"),
        (
            in_field(type="string", pattern="("),
            "must be a valid regular expression, but isn't: error parsing",
        ),
        (in_field(type="object", additionalProperties=False), "additionalProperties cannot be set to false"),
        (
            {"type": "object", "additionalProperties": TEXT},
            "s.additionalProperties: Forbidden: must not be used",
        ),
        (
            in_field(type="string", anyOf=[TEXT]),
            f"{IN_A}.anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            in_field(type="string", **{"not": {"nullable": True}}),
            f"{IN_A}.not.nullable: Forbidden: must be false",
        ),
        (
            {"type": "object", "allOf": [{"properties": {"b": {"minLength": 1}}}]},
            "s.properties[b]: Required value: because it is defined in s.allOf[0].properties[b]",
        ),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": TEXT}}},
            },
            "must not specify anything other than name and generateName",
        ),
        ({"type": "object", "$ref": "#/x"}, "s.$ref: Forbidden: $ref is not supported"),
        (
            in_field(**{"x-kubernetes-embedded-resource": True}),
            f"{IN_A}.type: Required value: must be object if",
        ),
    ],
)
def test_not_structural(schema: dict[str, Any], message: str) -> None:
    """What has no single type, or says too much, is refused in the API server's words."""
    assert [str(error) for error in structural_errors(schema, "s") if message in str(error)]


def test_depth() -> None:
    """A schema that is nested without end is refused, not followed."""
    schema: dict[str, Any] = {"type": "object"}
    for _ in range(300):
        schema = {"type": "object", "properties": {"a": schema}}

    assert "nested more than 200 levels" in str(structural_errors(schema, "s")[0])
