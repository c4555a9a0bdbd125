"""JSON merge patch (RFC 7386), JSON patch (RFC 6902), strategic merge patch. No object is changed in place.

A strategic merge patch knows which lists merge by which key. Directives inside it
(apimachinery/pkg/util/strategicpatch): ``$patch: replace|delete`` on a map or list element, ``$retainKeys``,
``$deleteFromPrimitiveList/<field>`` and ``$setElementOrder/<field>``.
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
from berth.server.errors import StatusError, bad_request, refuse_depth, unprocessable

MAX_OPERATIONS = 10_000
# Deep copies multiply; the body limit does not bound the size of the outcome.
_MAX_COPIED = 3 * 1024 * 1024

_MISSING = object()


@refuse_depth()
def merge_patch(obj: dict[str, Any], patch: object) -> dict[str, Any]:
    if not isinstance(patch, dict):
        raise bad_request("error decoding patch: a merge patch is an object")
    return _merge(obj, patch)


def _merge(target: Any, patch: dict[str, Any]) -> dict[str, Any]:  # noqa: ANN401 -- any JSON value
    merged = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif isinstance(value, dict):
            merged[name] = _merge(merged.get(name), value)
        else:
            merged[name] = copy.deepcopy(value)
    return merged


@refuse_depth()
def json_patch(obj: dict[str, Any], operations: object) -> dict[str, Any]:
    """The object after all operations, or a :class:`StatusError` and no change at all."""
    if not isinstance(operations, list):
        raise bad_request("error decoding patch: a JSON patch is a list of operations")
    if len(operations) > MAX_OPERATIONS:
        raise StatusError(
            413,
            "RequestEntityTooLarge",
            f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(operations)}",
        )
    document = _Document(copy.deepcopy(obj))
    for operation in operations:
        if not isinstance(operation, dict):
            raise bad_request("error decoding patch: an operation is an object")
        document.run(operation)
    if not isinstance(document.whole[""], dict):
        raise unprocessable("the patch does not leave an object behind")
    return document.whole[""]


class _Document:
    """An object under the empty name, with which every pointer begins: it has a place, as all in it has."""

    def __init__(self, root: dict[str, Any]) -> None:
        self.whole: dict[str, Any] = {"": root}
        self._copied = 0

    def run(self, operation: dict[str, Any]) -> None:
        step()
        name = operation.get("op")
        path = _pointer(operation, "path")
        match name:
            case "add":
                self.add(name, path, copy.deepcopy(_value(operation)))
            case "remove":
                self.remove(name, path)
            case "replace":
                parent, place = self.place(name, path)
                parent[place] = copy.deepcopy(_value(operation))
            case "move":
                self.move(_pointer(operation, "from"), path)
            case "copy":
                self.copy(_pointer(operation, "from"), path)
            case "test":
                value = self.find(path)
                if not _equal(None if value is _MISSING else value, operation.get("value")):
                    raise unprocessable(f"testing value {_text(path)} failed: test failed")
            case _:
                raise unprocessable(f"Unexpected kind: {name}")

    def find(self, path: list[str]) -> Any:  # noqa: ANN401
        """What is at a path, `_MISSING` if nothing is."""
        value: Any = self.whole
        for token in path:
            if isinstance(value, dict):
                value = value.get(token, _MISSING)
            else:
                index = _index(token, len(value)) if isinstance(value, list) else None
                value = value[index] if index is not None else _MISSING
        return value

    def get(self, operation: str, path: list[str]) -> Any:  # noqa: ANN401
        value = self.find(path)
        if value is _MISSING:
            raise _missing(operation, path)
        return value

    def place(self, operation: str, path: list[str]) -> tuple[Any, Any]:
        """What holds the value at a path, and under which key or index."""
        self.get(operation, path)
        parent = self.find(path[:-1])
        return parent, _index(path[-1], len(parent)) if isinstance(parent, list) else path[-1]

    def add(self, operation: str, path: list[str], value: Any) -> None:  # noqa: ANN401
        parent = self.get(operation, path[:-1])
        token = path[-1]
        if isinstance(parent, list):
            parent.insert(_insertion(parent, token, operation), value)
        elif isinstance(parent, dict):
            parent[token] = value
        else:
            raise _missing(operation, path)

    def remove(self, operation: str, path: list[str]) -> None:
        parent, place = self.place(operation, path)
        if parent is self.whole:
            raise unprocessable("Unable to remove the whole document")
        del parent[place]

    def move(self, source: list[str], path: list[str]) -> None:
        value = self.get("move", source)
        if path[: len(source)] == source and len(path) > len(source):
            raise unprocessable(f'Unable to move "{_text(source)}" into itself')
        self.remove("move", source)
        self.add("move", path, value)

    def copy(self, source: list[str], path: list[str]) -> None:
        value = self.get("copy", source)
        self._copied += len(repr(value))
        if self._copied > _MAX_COPIED:
            raise unprocessable(f"Unable to copy, the accumulated size exceeds the limit {_MAX_COPIED}")
        self.add("copy", path, copy.deepcopy(value))


def _missing(operation: str, path: list[str]) -> StatusError:
    reason = f'doc is missing path: "{_text(path)}": missing value'
    return unprocessable(f"{operation} operation does not apply: {reason}")


def _value(operation: dict[str, Any]) -> Any:  # noqa: ANN401
    if "value" not in operation:
        raise unprocessable(f"{operation.get('op')} operation is missing its value")
    return operation["value"]


def _pointer(operation: dict[str, Any], member: str) -> list[str]:
    raw = operation.get(member)
    if not isinstance(raw, str) or (raw and not raw.startswith("/")):
        raise unprocessable(
            f"{operation.get('op')} operation does not apply: {member} {raw!r} is no JSON pointer"
        )
    return [token.replace("~1", "/").replace("~0", "~") for token in raw.split("/")]


def _text(path: list[str]) -> str:
    return "/".join(token.replace("~", "~0").replace("/", "~1") for token in path)


def _index(token: str, length: int) -> Any:  # noqa: ANN401 -- None only where the caller checks for it
    """The list index a token stands for; leading zeros and ``-`` stand for none."""
    if not token.isascii() or not token.isdigit() or (len(token) > 1 and token[0] == "0") or len(token) > 9:
        return None
    index = int(token)
    return index if index < length else None


def _insertion(parent: list[Any], token: str, operation: str) -> int:
    if token == "-":  # noqa: S105 -- a JSON pointer's token
        return len(parent)
    index = _index(token, len(parent) + 1)
    if index is None:
        raise unprocessable(f'{operation} operation does not apply: "{token}": invalid index referenced')
    return int(index)


def _equal(left: object, right: object) -> bool:
    """JSON equality: 1 equals 1.0, true does not equal 1."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and left == right


# --- strategic merge patch

_PATCH = "$patch"
_RETAIN = "$retainKeys"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"
_GONE = object()


@refuse_depth()
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
        taken: list[Any] = _settled(patches)
        return taken
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
