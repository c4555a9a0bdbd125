"""What is spent on judging an object is bounded, and so is what is said of it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.kube.schema import Schema, budget
from berth.kube.schema.registry import root_node

ITEMS = {f"f{i}": {"type": "string"} for i in range(500)}


def schema(items: dict[str, Any]) -> Schema:
    """Of an object with a list of such items."""
    listed = {"l": {"type": "array", "items": items}}
    spec = {"type": "object", "properties": {"spec": {"type": "object", "properties": listed}}}
    return Schema(root_node(spec, "x"), custom=spec)


def listing(items: list[Any]) -> dict[str, Any]:
    return {"apiVersion": "e/v1", "kind": "X", "metadata": {"name": "x"}, "spec": {"l": items}}


def test_a_product_is_given_up() -> None:
    """A few hundred rules for a few hundred items are too much, if somebody says so."""
    either = schema({"type": "string", "anyOf": [{"pattern": f"^a{i}$"} for i in range(200)]})
    obj = listing(["b"] * 200)
    asked = 0

    def spent() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    with pytest.raises(budget.BudgetError), budget.limited(spent):
        either.validate(obj)
    assert asked == 51
    with budget.limited(spent):
        budget.lift()
        assert len(either.validate(obj)) == 200


def test_nobody_asks_without_a_limit() -> None:
    """Outside of a limit nothing is given up, also after one."""
    with budget.limited(lambda: True):
        pass
    assert schema({"type": "string"}).validate(listing(["b"] * 1000)) == []


def test_errors_are_bounded() -> None:
    """Not all of half a million errors are made."""
    fields = {"type": "object", "properties": ITEMS, "required": list(ITEMS)}
    assert len(schema(fields).validate(listing([{}] * 1000))) == 1000


def test_text_of_errors_is_bounded() -> None:
    """Neither is the text of a long one again and again."""
    one_of = schema({"type": "string", "enum": [f"{i}" * 1000 for i in range(100)]})
    assert 1 <= len(one_of.validate(listing(["x"] * 1000))) <= 12


def test_unknown_fields_are_bounded() -> None:
    """No more unknown fields are told of than upstream's decoder does."""
    unknown = {f"u{i}": 1 for i in range(200)}
    found = schema({"type": "object", "properties": ITEMS}).unknown_fields(listing([unknown]))
    assert found == [f"spec.l[0].u{i}" for i in range(100)]


def test_text_of_unknown_fields_is_bounded() -> None:
    """A long key is not told again and again."""
    node = {"type": "object", "additionalProperties": {"type": "object", "properties": {}}}
    long = {"k" * 300_000: {f"u{i}": 1 for i in range(50)}}
    assert len(schema(node).unknown_fields(listing([long]))) == 4
