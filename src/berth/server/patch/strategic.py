"""Strategic merge patch: a merge patch that knows which lists merge by which key.

Directives inside the patch (apimachinery/pkg/util/strategicpatch): ``$patch: replace|delete`` on a
map or list element, ``$retainKeys``, ``$deleteFromPrimitiveList/<field>`` and
``$setElementOrder/<field>``. The object is never changed in place.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from berth.kube.schema import Schema, SchemaNode
from berth.kube.schema.budget import step
from berth.kube.schema.scalars import json_type
from berth.server.errors import bad_request, refuse_depth, unprocessable

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_GONE = object()


@refuse_depth
def strategic_merge_patch(obj: dict[str, Any], patch: object, schema: Schema) -> dict[str, Any]:
    if not isinstance(patch, dict):
        kind = json_type(patch)
        raise bad_request(f"json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")
    return _merge_map(obj, patch, schema.root)


def _merge_map(original: dict[str, Any], patch: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    step()
    directive = patch.get(_PATCH)
    if directive == "replace":
        taken: dict[str, Any] = _settled(patch)
        return taken
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"unknown patch type found: {directive}")
    merged = _retained(original, patch)
    for name, value in patch.items():
        if name.startswith("$"):
            continue
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge_value(merged.get(name), value, node.child(name))
    _edit_lists(original, merged, patch, node)
    return merged


def _merge_value(held: Any, value: Any, node: SchemaNode) -> Any:  # noqa: ANN401 -- any JSON value
    if isinstance(value, dict):
        if node.replace:
            return _settled(value)
        return _merge_map(held if isinstance(held, dict) else {}, value, node)
    if isinstance(value, list) and node.merge:
        held = held if isinstance(held, list) else []
        return _merge_by_key(held, value, node) if node.merge_key else _merge_primitives(held, value)
    return _settled(value)


def _settled(value: Any) -> Any:  # noqa: ANN401
    """A value taken over whole: nothing to merge with, so nulls and directives have no object to act on."""
    if isinstance(value, dict):
        return {
            name: _settled(inner)
            for name, inner in value.items()
            if inner is not None and not name.startswith("$")
        }
    if isinstance(value, list):
        return [
            _settled(item)
            for item in value
            if not (isinstance(item, dict) and item.get(_PATCH) in ("delete", "replace"))
        ]
    return copy.deepcopy(value)


def _retained(original: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    keys = patch.get(_RETAIN)
    if keys is None:
        return dict(original)
    named = [name for name, value in patch.items() if not name.startswith("$") and value is not None]
    keys = set(map(_hashable, keys)) if isinstance(keys, list) else None
    if keys is None or not keys.issuperset(named):
        raise bad_request("the $retainKeys list does not cover the fields of the patch")
    return {name: value for name, value in original.items() if name in keys}


def _merge_primitives(held: list[Any], values: list[Any]) -> list[Any]:
    """Those of the patch in its order, new ones before those that only the object has."""
    known = set(map(_hashable, held))
    new = {_hashable(value): value for value in values}
    merged = [*held, *(value for name, value in new.items() if name not in known)]
    return _in_order(merged, values, held)


def _merge_by_key(held: list[Any], patches: list[Any], node: SchemaNode) -> list[Any]:
    key = node.merge_key
    if any(isinstance(item, dict) and item.get(_PATCH) == "replace" for item in patches):
        return [
            _settled(item)
            for item in patches
            if not (isinstance(item, dict) and item.get(_PATCH) == "replace")
        ]
    merged = list(held)
    places: dict[object, list[int]] = {}
    for index, other in enumerate(held):
        if isinstance(other, dict):
            places.setdefault(_hashable(other.get(key)), []).append(index)
    for item in patches:
        identity = _hashable(_key_of(item, key))
        found = places.get(identity)
        if item.get(_PATCH) == "delete":
            for index in places.pop(identity, ()):
                merged[index] = _GONE
        elif found:
            merged[found[0]] = _merge_map(merged[found[0]], item, node.element())
        else:
            places[identity] = [len(merged)]
            merged.append(_merge_map({}, item, node.element()))
    named = [item for item in patches if _PATCH not in item]
    return _in_order([item for item in merged if item is not _GONE], named, held, key)


def _hashable(value: object) -> object:
    """The value, or what is equal where it is."""
    return json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value


def _key_of(item: object, key: str) -> Any:  # noqa: ANN401
    if not isinstance(item, dict) or item.get(key) is None:
        raise unprocessable(f"map: {json.dumps(item)} does not contain declared merge key: {key}")
    return item[key]


def _edit_lists(
    original: dict[str, Any], merged: dict[str, Any], patch: dict[str, Any], node: SchemaNode
) -> None:
    """Carry out the directives that stand beside a list rather than inside it."""
    for name, value in patch.items():
        if name.startswith(_DELETE_FROM):
            field = name.removeprefix(_DELETE_FROM)
            if not isinstance(value, list):
                raise bad_request("invalid patch format of primitive list")
            if isinstance(held := merged.get(field), list):
                unwanted = set(map(_hashable, value))
                merged[field] = [item for item in held if _hashable(item) not in unwanted]
    for name, value in patch.items():
        if name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            if not isinstance(value, list):
                raise bad_request("invalid patch format of setElementOrder list")
            if isinstance(held := merged.get(field), list):
                before = original.get(field)
                before = before if isinstance(before, list) else ()
                merged[field] = _in_order(held, value, before, node.child(field).merge_key)


def _in_order(items: list[Any], wanted: list[Any], before: Sequence[Any], key: str = "") -> list[Any]:
    """Items in the order of those wanted; others keep their place relative to where they were.

    `key`: The field by which items are told apart; without one they are so as a whole.
    """

    def identity(item: object) -> object:
        return _hashable(item.get(key) if key and isinstance(item, dict) else item)

    rank, places = _positions(map(identity, wanted)), _positions(map(identity, before))
    known = [(identity(item), item) for item in items]
    named = deque(sorted((one for one in known if one[0] in rank), key=lambda one: rank[one[0]]))
    others = deque(one for one in known if one[0] not in rank)
    merged: list[Any] = []
    while named and others:
        left, right = places.get(others[0][0]), places.get(named[0][0])
        first = left is not None and right is not None and left < right
        merged.append((others if first else named).popleft()[1])
    return [*merged, *(item for _, item in others), *(item for _, item in named)]


def _positions(values: Iterable[object]) -> dict[object, int]:
    """Where each occurs first."""
    found: dict[object, int] = {}
    for place, value in enumerate(values):
        found.setdefault(value, place)
    return found
