"""Sets of field paths, and the two ways they are written.

A path is a tuple of elements spelled as in ``fieldsV1``: ``f:name`` for a field or map entry,
``k:{"name":"a"}`` for an element of a list of maps, ``v:"a"`` for an element of a set.
Plain frozensets of such paths make union and difference what they say.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

KeyPath = tuple[str, ...]
FieldSet = frozenset[KeyPath]

MEMBER = "."  # marks where a path ends


def keys(values: dict[str, Any]) -> str:
    return f"k:{quoted(dict(sorted(values.items())))}"


def value(member: object) -> str:
    return f"v:{quoted(member)}"


def quoted(raw: object) -> str:
    return msgspec.json.encode(raw).decode()


def encode(paths: Iterable[KeyPath]) -> dict[str, Any]:
    """The ``fieldsV1`` form: nested objects, ``.`` where a path ends that others go beyond."""
    return _ordered(trie(paths))


def _ordered(node: dict[str, Any]) -> dict[str, Any]:
    """The same by name, level by level: to sort the paths would stop all threads while there are many.

    An element without children needs no mark.
    """
    return {name: {} if [*node[name]] == [MEMBER] else _ordered(node[name]) for name in sorted(node)}


def decode(fields: object) -> FieldSet:
    """The set a ``fieldsV1`` value describes; anything that is not one is an empty set."""
    found: set[KeyPath] = set()
    if isinstance(fields, dict):
        _collect(fields, (), found)
    return frozenset(found)


def _collect(node: dict[str, Any], path: KeyPath, found: set[KeyPath]) -> None:
    for element, child in node.items():
        if element == MEMBER:
            if path:
                found.add(path)
        elif not isinstance(child, dict) or not child:
            found.add((*path, element))
        else:
            _collect(child, (*path, element), found)


def trie(paths: Iterable[KeyPath]) -> dict[str, Any]:
    """Nested objects in which every path's end is marked; what :func:`encode` starts from."""
    root: dict[str, Any] = {}
    for path in paths:
        at = root
        for element in path:
            at = at.setdefault(element, {})
        at[MEMBER] = {}
    return root


def holds(fields: dict[str, Any], path: KeyPath) -> bool:
    """Whether a ``fieldsV1`` value contains a path."""
    at: Any = fields
    for element in path:
        if not isinstance(at, dict):
            return False
        at = at.get(element)
        if at is None:
            return False
    return not at or MEMBER in at


def show(path: KeyPath) -> str:
    """A path as conflict messages write it: ``.spec.containers[name="a"].image``."""
    return "".join(map(_show_element, path))


def _show_element(element: str) -> str:
    kind, _, rest = element.partition(":")
    if kind == "f":
        return f".{rest}"
    if kind == "v":
        return f"[={rest}]"
    if kind == "k":
        pairs = msgspec.json.decode(rest)
        return "[" + ",".join(f"{name}={quoted(held)}" for name, held in pairs.items()) + "]"
    return f"[{rest}]"


def parents(paths: Iterable[KeyPath]) -> frozenset[KeyPath]:
    """Every proper prefix of every path."""
    return frozenset(path[:length] for path in paths for length in range(1, len(path)))
