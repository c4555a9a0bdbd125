"""JSON patch: RFC 6902's own examples, errors, and the property that patches can be undone."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from berth.server.errors import StatusError
from berth.server.patch import json_patch
from berth.server.patch.patches import MAX_OPERATIONS
from tests.support.manifests.api_objects import PROPERTY, json_objects


@pytest.mark.parametrize(
    ("before", "operations", "after"),
    [
        ({"a": 1}, [{"op": "add", "path": "/b", "value": 2}], {"a": 1, "b": 2}),
        ({"a": [1, 3]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2, 3]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/-", "value": 2}], {"a": [1, 2]}),
        ({"a": [1]}, [{"op": "add", "path": "/a/1", "value": 2}], {"a": [1, 2]}),
        ({"a": 1, "b": 2}, [{"op": "remove", "path": "/b"}], {"a": 1}),
        ({"a": [1, 2, 3]}, [{"op": "remove", "path": "/a/1"}], {"a": [1, 3]}),
        ({"a": 1}, [{"op": "replace", "path": "/a", "value": None}], {"a": None}),
        ({"a": [1, 2]}, [{"op": "replace", "path": "/a/0", "value": 3}], {"a": [3, 2]}),
        (
            {"a": {"b": 1}, "c": {}},
            [{"op": "move", "from": "/a/b", "path": "/c/d"}],
            {"a": {}, "c": {"d": 1}},
        ),
        ({"a": [1, 2, 3]}, [{"op": "move", "from": "/a/0", "path": "/a/2"}], {"a": [2, 3, 1]}),
        ({"a": {"b": 1}}, [{"op": "copy", "from": "/a", "path": "/c"}], {"a": {"b": 1}, "c": {"b": 1}}),
        ({"a/b": {"~": 1}}, [{"op": "replace", "path": "/a~1b/~0", "value": 2}], {"a/b": {"~": 2}}),
        ({"a": 1}, [{"op": "test", "path": "/a", "value": 1.0}], {"a": 1}),
        ({"a": 1}, [{"op": "test", "path": "/b", "value": None}], {"a": 1}),
        ({"a": 1}, [{"op": "add", "path": "", "value": {"b": 1}}], {"b": 1}),
        ({"a": 1}, [{"op": "replace", "path": "", "value": {"b": 1}}], {"b": 1}),
    ],
)
def test_operations(before: dict[str, Any], operations: list[Any], after: dict[str, Any]) -> None:
    """Each operation of RFC 6902 gives the right object and leaves the original alone."""
    kept = copy.deepcopy(before)
    assert after == json_patch(before, operations)
    assert kept == before, "the object itself is left alone"


@pytest.mark.parametrize(
    ("operations", "code", "cause"),
    [
        ({}, 400, None),
        (["x"], 400, None),
        (
            [{"op": "remove", "path": "/nope"}],
            422,
            'remove operation does not apply: doc is missing path: "/nope"',
        ),
        ([{"op": "replace", "path": "/nope", "value": 1}], 422, "replace operation does not apply"),
        ([{"op": "add", "path": "/nope/a", "value": 1}], 422, "add operation does not apply"),
        ([{"op": "add", "path": "/n/a", "value": 1}], 422, "add operation does not apply"),
        ([{"op": "add", "path": "/l/9", "value": 1}], 422, "invalid index"),
        ([{"op": "add", "path": "/l/01", "value": 1}], 422, "invalid index"),
        ([{"op": "add", "path": "/l/-1", "value": 1}], 422, "invalid index"),
        ([{"op": "remove", "path": "/l/-"}], 422, "remove operation does not apply"),
        ([{"op": "add", "path": "/a"}], 422, "missing its value"),
        ([{"op": "add", "path": "a", "value": 1}], 422, "no JSON pointer"),
        ([{"op": "add", "value": 1}], 422, "no JSON pointer"),
        ([{"op": "move", "from": "/o", "path": "/o/x"}], 422, "into itself"),
        ([{"op": "remove", "path": ""}], 422, "whole document"),
        ([{"op": "add", "path": "", "value": 1}], 422, "does not leave an object"),
        ([{"op": "test", "path": "/n", "value": True}], 422, "testing value /n failed: test failed"),
        ([{"op": "jump", "path": "/n"}], 422, "Unexpected kind: jump"),
        ([{"op": "test", "path": "/n", "value": 1}] * (MAX_OPERATIONS + 1), 413, None),
    ],
)
def test_refusals(operations: object, code: int, cause: str | None) -> None:
    """What cannot be read is 400, what cannot be done 422 with the reason in the message."""
    with pytest.raises(StatusError) as caught:
        json_patch({"n": 1, "l": [1], "o": {}}, operations)
    assert code == caught.value.code
    if cause is not None:
        assert cause in caught.value.message


def test_copies_are_bounded() -> None:
    """Doubling a value again and again ends in an error, not in the memory's end."""
    operations = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(60)]
    with pytest.raises(StatusError, match="rejected"):
        json_patch({"a": ["x" * 1000]}, operations)


@PROPERTY
@given(json_objects, json_objects)
def test_replacing_the_parts_replaces_the_whole(before: dict[str, Any], after: dict[str, Any]) -> None:
    """Removing every member and adding every other one gets from any object to any other."""
    operations: list[Any] = [{"op": "remove", "path": f"/{name}"} for name in before]
    operations += [{"op": "add", "path": f"/{name}", "value": value} for name, value in after.items()]
    assert after == json_patch(before, operations)


@PROPERTY
@given(json_objects, st.sampled_from("abcd"))
def test_move_there_and_back(obj: dict[str, Any], name: str) -> None:
    """Moving a field away and back gives the object again."""
    obj[name] = 1
    there = {"op": "move", "from": f"/{name}", "path": "/elsewhere"}
    back = {"op": "move", "from": "/elsewhere", "path": f"/{name}"}
    assert obj == json_patch(obj, [there, back])
