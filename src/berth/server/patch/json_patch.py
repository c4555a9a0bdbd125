"""JSON merge patch, RFC 7386, and JSON patch, RFC 6902. The object is never changed in place."""

from __future__ import annotations

import copy
from typing import Any

from berth.kube.schema.budget import step
from berth.server.errors import StatusError, bad_request, refuse_depth, unprocessable

MAX_OPERATIONS = 10_000
# Deep copies multiply; the body limit does not bound the size of the outcome.
_MAX_COPIED = 3 * 1024 * 1024

_MISSING = object()


@refuse_depth
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


@refuse_depth
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
    if not isinstance(document.root, dict):
        raise unprocessable("the patch does not leave an object behind")
    return document.root


class _Document:
    def __init__(self, root: Any) -> None:  # noqa: ANN401 -- any JSON value
        self.root = root
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
                self.get(name, path)
                self.put(path, copy.deepcopy(_value(operation)))
            case "move":
                self.move(_pointer(operation, "from"), path)
            case "copy":
                self.copy(_pointer(operation, "from"), path)
            case "test":
                self.test(path, operation.get("value"))
            case _:
                raise unprocessable(f"Unexpected kind: {name}")

    def find(self, path: list[str]) -> Any:  # noqa: ANN401
        """What is at a path, `_MISSING` if nothing is."""
        value = self.root
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

    def add(self, operation: str, path: list[str], value: Any) -> None:  # noqa: ANN401
        if not path:
            self.root = value
            return
        parent = self.get(operation, path[:-1])
        token = path[-1]
        if isinstance(parent, list):
            parent.insert(_insertion(parent, token, operation), value)
        elif isinstance(parent, dict):
            parent[token] = value
        else:
            raise _missing(operation, path)

    def put(self, path: list[str], value: Any) -> None:  # noqa: ANN401
        """Overwrite what is known to exist."""
        if not path:
            self.root = value
            return
        parent = self.get("replace", path[:-1])
        parent[_index(path[-1], len(parent)) if isinstance(parent, list) else path[-1]] = value

    def remove(self, operation: str, path: list[str]) -> None:
        self.get(operation, path)
        if not path:
            raise unprocessable("Unable to remove the whole document")
        parent = self.get(operation, path[:-1])
        del parent[_index(path[-1], len(parent)) if isinstance(parent, list) else path[-1]]

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

    def test(self, path: list[str], wanted: object) -> None:
        value = self.find(path)
        if not _equal(None if value is _MISSING else value, wanted):
            raise unprocessable(f"testing value {_text(path)} failed: test failed")


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
    return [token.replace("~1", "/").replace("~0", "~") for token in raw.split("/")[1:]]


def _text(path: list[str]) -> str:
    return "".join("/" + token.replace("~", "~0").replace("/", "~1") for token in path)


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
