"""Comparing an object with its schema: unknown fields, values of the wrong type, pruning.

Nearly every object is fine, so the first look (:func:`conforms`) builds no paths and allocates
nothing; only when it fails is the object walked again to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import is_
from typing import Any, NamedTuple

from berth.kube.schema.budget import step
from berth.kube.schema.nodes import SchemaNode
from berth.kube.schema.scalars import fits, problem


class FieldProblem(NamedTuple):
    """One thing wrong with an object: an unknown field if there is no message, else a wrong type."""

    path: str
    message: str = ""


def conforms(value: Any, node: SchemaNode) -> bool:  # noqa: ANN401 -- any JSON value
    """Whether there are neither unknown fields nor values of the wrong type."""
    if value is None or node.type == "any":
        return True
    if node.type == "object":
        return isinstance(value, dict) and _object_conforms(value, node)
    if node.type == "array":
        element = node.element()
        return isinstance(value, list) and all(conforms(item, element) for item in value)
    return fits(value, node)


def _object_conforms(value: dict[str, Any], node: SchemaNode) -> bool:
    if node.values is not None:
        inner = node.values
        return all(conforms(item, inner) for item in value.values())
    if node.struct is None:
        return True
    fields = node.struct.fields
    for name, item in value.items():
        known = fields.get(name)
        if known is None:
            if not node.preserve_unknown:
                return False
        elif not conforms(item, known):
            return False
    return True


class _Place(NamedTuple):
    """Where a walk is: the JSON path, and what Go's decoder would call the place."""

    path: str = ""
    struct: str = ""
    fields: str = ""

    @property
    def go(self) -> str:
        return f"Go struct field {self.struct}.{self.fields}" if self.fields else "Go value"


_TOP = _Place()


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def problems(value: Any, node: SchemaNode, place: _Place = _TOP) -> Iterator[FieldProblem]:  # noqa: ANN401
    """Everything :func:`conforms` objects to, in the order of the object."""
    step()
    if value is None or node.type == "any":
        return
    if node.type == "object" and isinstance(value, dict):
        yield from _walk_object(value, node, place)
    elif node.type == "array" and isinstance(value, list):
        for index, item in enumerate(value):
            yield from problems(item, node.element(), place._replace(path=f"{place.path}[{index}]"))
    elif not fits(value, node):
        yield FieldProblem(place.path, problem(value, node, place.go))


def _walk_object(value: dict[str, Any], node: SchemaNode, place: _Place) -> Iterator[FieldProblem]:
    if node.values is not None:
        for name, item in value.items():
            yield from problems(item, node.values, place._replace(path=join(place.path, name)))
    elif node.struct is not None:
        short = node.struct.short_name
        for name, item in value.items():
            known, path = node.struct.fields.get(name), join(place.path, name)
            if known is not None:
                yield from problems(item, known, _Place(path, short, join(place.fields, name)))
            elif not node.preserve_unknown:
                yield FieldProblem(path)


def prune(value: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    """The object without unknown fields; the same object if there are none."""
    if node.values is None and node.struct is None:
        return value
    kept: dict[str, Any] = {}
    for name, item in value.items():
        known = node.values if node.values is not None else node.fields.get(name)
        if known is not None:
            kept[name] = _pruned(item, known)
        elif node.preserve_unknown:
            kept[name] = item
    same = len(kept) == len(value) and all(map(is_, kept.values(), value.values()))
    return value if same else kept


def _pruned(value: Any, node: SchemaNode) -> Any:  # noqa: ANN401
    if isinstance(value, dict) and node.type == "object":
        return prune(value, node)
    if isinstance(value, list) and node.type == "array":
        element = node.element()
        kept = [_pruned(item, element) for item in value]
        return value if all(map(is_, kept, value)) else kept
    return value
