"""JSON merge patch: the table of RFC 7386, and round trips."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given

from berth.server.errors import StatusError
from berth.server.patch import merge_patch
from tests.support.manifests.api_objects import PROPERTY, json_objects


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_rfc_table(target: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    """Every row of RFC 7386's table holds, and the original is left alone."""
    kept = copy.deepcopy(target)
    assert result == merge_patch(target, patch)
    assert kept == target


@pytest.mark.parametrize("patch", [[], "x", None, 1])
def test_only_objects_are_patches(patch: object) -> None:
    """A merge patch that is no object is a 400."""
    with pytest.raises(StatusError) as caught:
        merge_patch({}, patch)
    assert caught.value.code == 400


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """The obvious merge patch between two objects without nulls."""
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        held = before.get(name)
        if isinstance(held, dict) and isinstance(value, dict):
            patch[name] = difference(held, value)
        elif name not in before or held != value:
            patch[name] = value
    return patch


def without_nulls(value: Any) -> Any:
    """Merge patches cannot express nulls in objects."""
    if isinstance(value, dict):
        return {name: without_nulls(item) for name, item in value.items() if item is not None}
    return value


@PROPERTY
@given(json_objects, json_objects)
def test_a_difference_leads_from_one_object_to_the_other(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Patching with the difference of two objects gives the second."""
    before, after = without_nulls(before), without_nulls(after)
    assert after == merge_patch(before, difference(before, after))


@PROPERTY
@given(json_objects, json_objects)
def test_patching_twice_changes_nothing_more(obj: dict[str, Any], patch: dict[str, Any]) -> None:
    """Applying a merge patch twice is the same as once."""
    once = merge_patch(obj, patch)
    assert once == merge_patch(once, patch)
