"""Objects seen through their schema: which fields they set, how two differ, how one is laid over another.

The semantics are those of sigs.k8s.io/structured-merge-diff: structs and maps merge field by field
unless they are atomic, lists only if they are sets or maps. Where nothing is known, maps merge and
lists do not.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from berth.kube.schema import NO_DEFAULT, SchemaNode, budget
from berth.server.errors import StatusError, bad_request
from berth.server.patch import fieldset
from berth.server.patch.fieldset import KeyPath

MISSING: Any = object()

# Values that lie deeper are owned as a whole; objects are hardly ever nested like that.
_MAX_DEPTH = 100


def is_granular_map(value: object, node: SchemaNode) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict) and not node.is_atomic and node.type in ("object", "any")


def is_granular_list(value: object, node: SchemaNode) -> TypeGuard[list[Any]]:
    return isinstance(value, list) and node.list_type != "atomic"


def element_of(item: object, node: SchemaNode) -> str | None:
    """The path element of a list element, None if it lacks what identifies it."""
    if node.list_type == "set":
        return fieldset.value(item) if not isinstance(item, dict | list) else None
    if not isinstance(item, dict):
        return None
    values = {}
    for key in node.list_keys:
        held = item.get(key)
        if held is None:
            known = node.element().fields.get(key)
            if known is None or known.default is NO_DEFAULT:
                return None
            held = known.default
        values[key] = held
    return fieldset.keys(values)


def _elements(value: object, node: SchemaNode) -> dict[str, Any] | None:
    """The elements of a list by identity; None if it can only be taken whole, as when some share one."""
    if not is_granular_list(value, node):
        return None
    found: dict[str, Any] = {}
    for item in value:
        element = element_of(item, node)
        if element is None or element in found:
            return None
        found[element] = item
    return found


_Parts = list[tuple[str, Any, SchemaNode, bool]]


def _parts(value: Any, node: SchemaNode, path: KeyPath) -> _Parts | None:  # noqa: ANN401
    """What is inside a value: path element, item, its node, and whether it is owned apart from what it holds.

    None if the value is owned as a whole.
    """
    budget.step()
    if len(path) > _MAX_DEPTH:
        return None
    if is_granular_map(value, node):
        known = node.fields
        return [
            (f"f:{name}", item, node.child(name), item is not None and name not in known)
            for name, item in value.items()
        ]
    elements = _elements(value, node)
    if elements is None:
        return None
    inner = node.element()
    return [(element, item, inner, True) for element, item in elements.items()]


def fields_of(value: Any, node: SchemaNode, path: KeyPath = ()) -> Iterator[KeyPath]:  # noqa: ANN401
    """The fields an applied configuration lays claim to; some come twice."""
    parts = _parts(value, node, path)
    if parts is None and path:
        yield path
    for step, item, inner, apart in parts or ():
        at = (*path, step)
        if apart or item == {}:
            yield at
        if item is not None:
            yield from fields_of(item, inner, at)


@dataclass(slots=True)
class Difference:
    """What changed between two states of an object."""

    added: set[KeyPath] = field(default_factory=set)
    removed: set[KeyPath] = field(default_factory=set)
    modified: set[KeyPath] = field(default_factory=set)


def compare(old: Any, new: Any, node: SchemaNode) -> Difference:  # noqa: ANN401
    difference = Difference()
    _compare(old, new, node, (), difference)
    return difference


def _compare(old: Any, new: Any, node: SchemaNode, path: KeyPath, out: Difference) -> None:  # noqa: ANN401
    if old is new:
        return
    if old is None:
        if new is not None:
            _came(new, node, path, out.added, fresh=False)
    elif new is None:
        _went(old, node, path, out.removed)
    elif len(path) > _MAX_DEPTH:
        if old != new:
            out.modified.add(path)
    elif is_granular_map(old, node) and is_granular_map(new, node):
        budget.step()
        known = node.fields
        for name in (*old, *(name for name in new if name not in old)):
            at = (*path, f"f:{name}")
            _compare(old.get(name), new.get(name), node.child(name), at, out)
            if name not in old and name not in known:
                out.added.add(at)
    elif isinstance(old, list):
        _compare_lists(old, new, node, path, out)
    elif old != new:
        out.modified.add(path)


def _compare_lists(old: list[Any], new: object, node: SchemaNode, path: KeyPath, out: Difference) -> None:
    before, after = _elements(old, node), _elements(new, node)
    if before is None or after is None:
        if old != new:
            out.modified.add(path)
        return
    for element in (*before, *(element for element in after if element not in before)):
        at = (*path, element)
        _compare(before.get(element), after.get(element), node.element(), at, out)
        if element not in before:
            out.added.add(at)


def _came(value: Any, node: SchemaNode, path: KeyPath, out: set[KeyPath], *, fresh: bool) -> None:  # noqa: ANN401
    """Everything inside a value that came, and the value itself unless an empty one was there before.

    `fresh`: What holds the value came, too.
    """
    parts = _parts(value, node, path)
    was_there = not fresh and (not path or node.is_there(value))
    if not was_there or (parts is None and value != {}):
        out.add(path)
    for step, item, inner, apart in parts or ():
        if apart:
            out.add((*path, step))
        if item is not None:
            _came(item, inner, (*path, step), out, fresh=not was_there)


def _went(value: Any, node: SchemaNode, path: KeyPath, out: set[KeyPath]) -> None:  # noqa: ANN401
    """A value was removed: add its path and all paths inside it to `out`."""
    out.add(path)
    for step, item, inner, _ in _parts(value, node, path) or ():
        _went(item, inner, (*path, step), out)


def merge(live: Any, config: Any, node: SchemaNode) -> Any:  # noqa: ANN401
    """The live value with an applied configuration laid over it."""
    if config is None:
        return live
    if is_granular_map(live, node) and is_granular_map(config, node):
        merged = dict(live)
        for name, item in config.items():
            if item is not None:
                merged[name] = merge(live.get(name), item, node.child(name))
        return merged
    before, after = _elements(live, node), _elements(config, node)
    if before is None or after is None:
        return config
    merged = dict(before)
    for element, item in after.items():
        merged[element] = merge(before.get(element), item, node.element())
    return [merged[element] for element in _order(before, after)]


def _order(before: Collection[str], after: Collection[str]) -> list[str]:
    """The configuration's order; what only others have stays where it was among the rest."""
    waiting, taken = iter(after), set[str]()
    ordered: list[str] = []
    for element in before:
        if element not in after:
            ordered.append(element)
        elif element not in taken:
            for one in waiting:
                ordered.append(one)
                taken.add(one)
                if one == element:
                    break
    return [*ordered, *waiting]


def without(
    value: Any,  # noqa: ANN401
    node: SchemaNode,
    marked: dict[str, Any],
    owned: Collection[KeyPath],
    path: KeyPath = (),
    keep: tuple[str, ...] = (),
) -> Any:  # noqa: ANN401
    """The value without the places marked in a :func:`fieldset.trie`, or left empty by that and not owned.

    `keep` names the fields that identify a list element: without them it would be another one.
    """

    def inside(item: Any, inner: SchemaNode, step: str, keep: tuple[str, ...]) -> Any:  # noqa: ANN401
        mark = marked.get(step)
        if mark is None:
            return item
        if fieldset.MEMBER in mark:
            return MISSING
        at = (*path, step)
        left = without(item, inner, mark, owned, at, keep)
        return MISSING if left in ({}, []) and left != item and at not in owned else left

    if is_granular_map(value, node):
        fields = {
            name: item if name in keep else inside(item, node.child(name), f"f:{name}", ())
            for name, item in value.items()
        }
        return {name: left for name, left in fields.items() if left is not MISSING}
    if is_granular_list(value, node):
        items = (inside(item, node.element(), element_of(item, node) or "", node.list_keys) for item in value)
        return [left for left in items if left is not MISSING]
    return value


def require_schema(value: Any, node: SchemaNode, path: str = "") -> None:  # noqa: ANN401
    """Refuse a configuration that the schema cannot make sense of, as server-side apply does."""
    budget.step()
    if isinstance(value, dict) and node.type == "object":
        closed = node.values is None and node.struct is not None and not node.preserve_unknown
        for name, item in value.items():
            at = f"{path}.{name}"
            if closed and name not in node.fields:
                raise _untyped(at, "field not declared in schema")
            require_schema(item, node.child(name), at)
    elif isinstance(value, list) and node.type == "array":
        _require_elements(value, node, path)


def _require_elements(value: list[Any], node: SchemaNode, path: str) -> None:
    seen: set[str] = set()
    for index, item in enumerate(value):
        at = f"{path}[{index}]"
        if node.list_type != "atomic":
            element = element_of(item, node)
            if element is None:
                raise _untyped(path, _omits(index, item, node))
            shown = fieldset.show((element,))
            if element in seen:
                raise _untyped(path, f"duplicate entries for key {shown}")
            seen.add(element)
            at = f"{path}{shown}"
        require_schema(item, node.element(), at)


def _untyped(path: str, why: str) -> StatusError:
    return bad_request(f"failed to create typed patch object: {path}: {why}")


def _omits(index: int, item: object, node: SchemaNode) -> str:
    start = f"element {index}: associative list"
    if not isinstance(item, dict) or node.list_type == "set":
        return f"{start} may not have such an element"
    missing = next((key for key in node.list_keys if item.get(key) is None), "")
    return (
        f'{start} with keys has an element that omits key field "{missing}" (and doesn\'t have default value)'
    )
