"""Comparing an object with its schema: unknown fields, values of the wrong type, pruning.

Nearly every object is fine, so the first look (:func:`conforms`) builds no paths and allocates
nothing; only when it fails is the object walked again to say what is wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from berth.kube.schema.budget import step
from berth.kube.schema.nodes import SchemaNode
from berth.kube.schema.scalars import fits, go_type, json_type, problem


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

    def field(self, name: str, struct: str) -> _Place:
        return _Place(join(self.path, name), struct, join(self.fields, name))

    def entry(self, name: str) -> _Place:
        return self._replace(path=join(self.path, name))

    def item(self, index: int) -> _Place:
        return self._replace(path=f"{self.path}[{index}]")

    @property
    def go(self) -> str:
        return f"{self.struct}.{self.fields}"


def join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def problems(value: Any, node: SchemaNode) -> Iterator[FieldProblem]:  # noqa: ANN401
    """Everything :func:`conforms` objects to, in the order of the object."""
    return _walk(value, node, _Place())


def _walk(value: Any, node: SchemaNode, place: _Place) -> Iterator[FieldProblem]:  # noqa: ANN401
    step()
    if value is None or node.type == "any":
        return
    if node.type == "object":
        if isinstance(value, dict):
            yield from _walk_object(value, node, place)
        else:
            yield _wrong(value, node, place)
    elif node.type == "array":
        if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _walk(item, node.element(), place.item(index))
        else:
            yield _wrong(value, node, place)
    elif not fits(value, node):
        yield FieldProblem(place.path, problem(value, node, place.go))


def _wrong(value: object, node: SchemaNode, place: _Place) -> FieldProblem:
    target = f"Go struct field {place.go}" if place.fields else "Go value"
    return FieldProblem(
        place.path, f"json: cannot unmarshal {json_type(value)} into {target} of type {go_type(node)}"
    )


def _walk_object(value: dict[str, Any], node: SchemaNode, place: _Place) -> Iterator[FieldProblem]:
    if node.values is not None:
        for name, item in value.items():
            yield from _walk(item, node.values, place.entry(name))
    elif node.struct is not None:
        short = node.struct.short_name
        for name, item in value.items():
            known = node.struct.fields.get(name)
            if known is not None:
                yield from _walk(item, known, place.field(name, short))
            elif not node.preserve_unknown:
                yield FieldProblem(join(place.path, name))


def prune(value: Any, node: SchemaNode) -> Any:  # noqa: ANN401
    """The value without unknown fields; the same value if there are none."""
    if isinstance(value, dict) and node.type == "object":
        return _prune_object(value, node)
    if isinstance(value, list) and node.type == "array":
        element = node.element()
        kept = [prune(item, element) for item in value]
        return value if all(a is b for a, b in zip(value, kept, strict=True)) else kept
    return value


def _prune_object(value: dict[str, Any], node: SchemaNode) -> dict[str, Any]:
    if node.values is None and node.struct is None:
        return value
    kept: dict[str, Any] = {}
    changed = False
    for name, item in value.items():
        known = node.values if node.values is not None else node.fields.get(name)
        if known is None:
            if node.preserve_unknown:
                kept[name] = item
            else:
                changed = True
            continue
        kept[name] = prune(item, known)
        changed = changed or kept[name] is not item
    return kept if changed else value
