"""What somebody may have meant who wrote a field that does not exist."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from berth.kube.schema import SchemaNode
from berth.kube.text.near_names import certain, meant, possible, slip
from berth.kube.validation.errors import Path, render

_DEPTH = 3  # how far below a place a misplaced field is looked for
_LENGTH = 60  # of a path, beyond which its last part is easier to read
_MOST = 2  # places that are named; a name that fits in more says nothing


class Place(NamedTuple):
    """A place in an object that has fields, and the place it is in."""

    path: Path
    node: SchemaNode
    above: Place | None = None


def hint(place: Place, name: str, value: object) -> str:
    """What to write instead of the field `name`, as the rest of a sentence; empty if nothing is like it."""
    near = _near(place, name, value)
    return f"did you mean {' or '.join(near)}?" if near else ""


def _near(place: Place, name: str, value: object) -> list[str]:
    fields = place.node.fields
    if (known := meant(fields, name)) is not None:
        return [_beside(place, known, value)]
    if (slipped := slip(fields, name)) is not None:
        return [_beside(place, slipped, value)]
    if below := _below(place, name, 1):
        return below
    if (alike := certain(fields, name)) is not None:
        return [_beside(place, alike, value)]
    if elsewhere := _below(place, name, _DEPTH) or _above(place, name):
        return elsewhere
    alike = possible(fields, name)
    return [_beside(place, alike, value)] if alike is not None else []


def _beside(place: Place, near: str, value: object) -> str:
    a_list = place.node.fields[near].type == "array" and isinstance(value, dict)
    return f"{_within(place, near)}{', a list' if a_list else ''}"


def _within(place: Place, path: str) -> str:
    """The whole path of what is somewhere in a place; if that is long, only the last part of it."""
    whole = _join(render(place.path), path)
    return whole if len(whole) <= _LENGTH else path


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- the right name in the wrong place ------------------------------------------------------------------


def _below(place: Place, name: str, depth: int) -> list[str]:
    """The nearest fields of this name below a place, if there are few."""
    level = [("", place.node)]
    for step in range(depth):
        level = [inner for path, outer in level for inner in _inner(path, outer, deep=step > 0)]
        found = [_within(place, f"{path}.{name}") for path, inner in level if name in inner.fields]
        if found:
            return found if len(found) <= _MOST else []
    return []


def _above(place: Place, name: str) -> list[str]:
    """The nearest field of this name in the places around this one, and directly below them."""
    outer = place.above
    while outer is not None:
        if name in outer.node.fields:
            return [_join(render(outer.path), name)]
        if below := _below(outer, name, 1):
            return below
        outer = outer.above
    return []


def _inner(path: str, node: SchemaNode, *, deep: bool) -> Iterator[tuple[str, SchemaNode]]:
    """The places directly in a node; nobody means an object's own metadata or status."""
    for name, inner in node.fields.items():
        if not deep and name in ("metadata", "status"):
            continue
        here = _join(path, name)
        if inner.struct is not None:
            yield here, inner
        elif inner.items is not None and inner.items.struct is not None:
            yield f"{here}[]", inner.items
