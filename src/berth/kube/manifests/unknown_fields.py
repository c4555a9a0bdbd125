"""Fields in files that no schema knows: a decoder drops them, and the answer is to another question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple, TypeVar

import msgspec

from berth.kube.api_resources import LABELLED_POD_GROUPS
from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import RawObject
from berth.kube.schema import Schema, SchemaNode, SchemaRegistry, SchemaStruct
from berth.kube.schema.builtin import newer_fields
from berth.kube.schema.checks import join
from berth.kube.schema.registry import root_node
from berth.kube.text import json_reader
from berth.kube.text.near import certain, meant, possible, slip
from berth.kube.validation.errors import Path, render

CustomSchemas = Mapping[tuple[str, str], Schema]  # by apiVersion and kind

_K = TypeVar("_K")
_STABLE = "v1"
# What an earlier version of a kind had and its v1 has not.
_EARLIER = {("Deployment", "spec.rollbackTo"), ("DaemonSet", "spec.templateGeneration")}
# The PodGroup of the coscheduling plugin, a custom resource that is read like a built-in kind.
_POD_GROUP_SPEC: RawObject = {
    "minMember": {"type": "integer"},
    "minResources": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": True}},
    "scheduleTimeoutSeconds": {"type": "integer"},
}
_LABELLED_POD_GROUP: RawObject = {
    "type": "object",
    "properties": {
        "spec": {"type": "object", "properties": _POD_GROUP_SPEC},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


@dataclass(slots=True)
class UnknownPart:
    """Something in files that nothing reads."""

    manifest: Manifest  # the first object that has it
    objects: int = field(default=1, kw_only=True)  # how many have it

    @property
    def who(self) -> str:
        """The objects that have it, as messages begin with them."""
        return f"{self.manifest} and {self.objects - 1} more" if self.objects > 1 else str(self.manifest)


def again(found: Mapping[_K, UnknownPart | None], key: _K) -> bool:
    """Whether this was looked at before; if it is something, it is so with one more object."""
    known = found.get(key)
    if known is not None:
        known.objects += 1
    return key in found


@dataclass(slots=True)
class UnknownField(UnknownPart):
    """A field that a kind does not have."""

    path: Path
    hint: str  # what may be meant

    def __str__(self) -> str:
        return f"{self.who}: {sentence(self.path, self.hint)}"


def sentence(path: Path, hint: str) -> str:
    return f"{render(path)}: unknown field{f'; {hint}' if hint else ''}"


def unknown_fields(manifests: Iterable[Manifest], custom: CustomSchemas | None = None) -> list[UnknownField]:
    """The unknown fields of kinds that Berth reads, each once, in order of appearance.

    `custom` are the schemas of kinds that are read besides those with a typed view.
    """
    schemas = KnownSchemas(custom or {})
    found: dict[tuple[str, str, Path], UnknownField] = {}
    for manifest in manifests:
        for place, name, value in unknown_in(manifest, schemas):
            path = (*place.path, name)
            key = (manifest.api_version, manifest.kind, without_indexes(path))
            if not again(found, key):
                found[key] = UnknownField(manifest, path, hint(place, name, value))
    return list(found.values())


def unknown_in(manifest: Manifest, schemas: KnownSchemas) -> Iterator[tuple[Place, str, object]]:
    """The unknown fields of one object, each once for all items of a list: where, its name and its value."""
    schema = schemas.of(manifest.api_version, manifest.kind)
    if schema is None:
        return
    seen: set[Path] = set()
    stable = manifest.api_version.endswith(f"/{_STABLE}")
    for place, name, value in fields_beyond(schema.root, manifest.raw):
        path = (*place.path, name)
        anywhere = without_indexes(path)
        is_earlier = (manifest.kind, render(path)) in _EARLIER and not stable
        if anywhere not in seen and not is_earlier:
            seen.add(anywhere)
            yield place, name, value


def without_indexes(path: Path) -> Path:
    """The same for the field in every item of a list."""
    return tuple("[]" if isinstance(part, int) else part for part in path)


class KnownSchemas:
    """The schemas of the kinds that are read."""

    def __init__(self, custom: CustomSchemas) -> None:
        labelled = Schema(root_node(_LABELLED_POD_GROUP, "PodGroup"), custom=_LABELLED_POD_GROUP)
        at = (LABELLED_POD_GROUPS.api_version, LABELLED_POD_GROUPS.kind)
        self._known: dict[tuple[str, str], Schema | None] = {at: labelled, **custom}
        self._built_in = SchemaRegistry()

    def of(self, api_version: str, kind: str) -> Schema | None:
        key = (api_version, kind)
        if key not in self._known:
            self._known[key] = self._of_built_in(api_version, kind)
        return self._known[key]

    def _of_built_in(self, api_version: str, kind: str) -> Schema | None:
        home = kinds.home_of(api_version, kind)
        if home is None or (kind == "PodGroup" and not api_version):  # which of the two, its fields tell
            return None
        # An earlier version has next to no field that the best one has not.
        tried = (each.rpartition("/") for each in (api_version, home))
        found = (self._built_in.for_kind(group, version, kind) for group, _, version in tried)
        return next(filter(None, found), None)


def fields_beyond(root: SchemaNode, raw: RawObject | msgspec.Raw) -> Iterator[tuple[Place, str, object]]:
    """The fields of an object that its schema does not know: where they are, their name and their value."""
    value: object = raw
    if isinstance(raw, msgspec.Raw):
        if _knows_all_fields(raw, root):
            return
        try:
            value = json_reader.to_builtins(raw)
        except json_reader.JsonError:  # too deep, or no JSON: there is more to say about it than this
            return
    yield from _walk(value, Place((), root))


# --- types that decode an object only if a schema knows all its fields -----------------------------
# A dump has tens of thousands of objects and next to none with an unknown field. The decoder finds that out
# many times faster than a walk over a decoded object would, and it keeps what it reads undecoded.


def _knows_all_fields(raw: msgspec.Raw, root: SchemaNode) -> bool:
    """Whether the JSON object `raw` has none but known fields, each of the type it should have."""
    try:
        _decoder(root).decode(raw)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return False
    return True


@cache
def _decoder(root: SchemaNode) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_type(root))


def _type(node: SchemaNode) -> Any:  # noqa: ANN401 - a type made at run time
    if node.type == "array" and node.items is not None:
        return _within(list, _type(node.items))
    if node.type != "object":
        return msgspec.Raw
    if node.values is not None:
        return _within(dict, _type(node.values))
    return msgspec.Raw if node.struct is None else _struct(node.struct, closed=not node.preserve_unknown)


def _within(container: Any, inner: Any) -> Any:  # noqa: ANN401
    if inner is msgspec.Raw:
        return inner
    return container[inner | None] if container is list else container[str, inner | None]


@cache
def _struct(struct: SchemaStruct, *, closed: bool) -> Any:  # noqa: ANN401
    known = [(name, _type(node)) for name, node in struct.fields.items()]
    known += [(name, msgspec.Raw) for name in newer_fields(struct)]
    # Not every name of a field is one that Python allows.
    names = {f"f{i}": name for i, (name, _) in enumerate(known)}
    fields = [
        (field, kind if kind is msgspec.Raw else kind | None, None)
        for field, (_, kind) in zip(names, known, strict=True)
    ]
    return msgspec.defstruct(
        struct.short_name, fields, rename=names, forbid_unknown_fields=closed, frozen=True, gc=False
    )


# --- the walk over an object that has some ---------------------------------------------------------


class Place(NamedTuple):
    """A place in an object that has fields, and the place it is in."""

    path: Path
    node: SchemaNode
    above: Place | None = None


_CONTAINERS = (dict, list)  # what can have fields; scalars are most of an object


def _walk(value: object, place: Place) -> Iterator[tuple[Place, str, object]]:
    node = place.node
    if isinstance(value, list) and node.items is not None:
        for index, item in enumerate(value):
            if isinstance(item, _CONTAINERS):
                yield from _walk(item, Place((*place.path, index), node.items, place.above))
    elif isinstance(value, dict) and node.values is not None:
        for key, item in value.items():
            if isinstance(item, _CONTAINERS):
                yield from _walk(item, Place((*place.path, f"[{key}]"), node.values, place.above))
    elif isinstance(value, dict) and node.struct is not None:
        yield from _walk_fields(value, node.struct, place)


def _walk_fields(
    value: dict[str, object], struct: SchemaStruct, place: Place
) -> Iterator[tuple[Place, str, object]]:
    for name, item in value.items():
        inner = struct.fields.get(name)
        if inner is not None:
            if isinstance(item, _CONTAINERS):
                yield from _walk(item, Place((*place.path, name), inner, place))
        elif not place.node.preserve_unknown and name not in newer_fields(struct):
            yield place, str(name), item


# --- what may be meant ----------------------------------------------------------------------------

_DEPTH = 3  # how far below a place a misplaced field is looked for
_LENGTH = 60  # of a path, beyond which its last part is easier to read
_MOST = 2  # places that are named; a name that fits in more says nothing


def hint(place: Place, name: str, value: object) -> str:
    """What to write instead of the field `name`, as the rest of a sentence; empty if nothing is like it."""
    near = _near(place, name, value)
    return f"did you mean {' or '.join(near)}?" if near else ""


def _near(place: Place, name: str, value: object) -> list[str]:
    fields = place.node.fields
    if (alike := meant(fields, name) or slip(fields, name)) is not None:
        return [_beside(place, alike, value)]
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
    return f"{_path_within(place, near)}{', a list' if a_list else ''}"


def _path_within(place: Place, path: str) -> str:
    """The whole path of what is somewhere in a place; if that is long, only the last part of it."""
    whole = join(render(place.path), path)
    return whole if len(whole) <= _LENGTH else path


def _below(place: Place, name: str, depth: int) -> list[str]:
    """The nearest fields of this name below a place, if there are few."""
    level = [("", place.node)]
    for step in range(depth):
        level = [inner for path, outer in level for inner in _inner(path, outer, deep=step > 0)]
        found = [_path_within(place, f"{path}.{name}") for path, inner in level if name in inner.fields]
        if found:
            return found if len(found) <= _MOST else []
    return []


def _above(place: Place, name: str) -> list[str]:
    """The nearest field of this name in the places around this one, and directly below them."""
    outer = place.above
    while outer is not None:
        if name in outer.node.fields:
            return [join(render(outer.path), name)]
        if below := _below(outer, name, 1):
            return below
        outer = outer.above
    return []


def _inner(path: str, node: SchemaNode, *, deep: bool) -> Iterator[tuple[str, SchemaNode]]:
    """The places directly in a node; nobody means an object's own metadata or status."""
    for name, inner in node.fields.items():
        if not deep and name in ("metadata", "status"):
            continue
        here = join(path, name)
        if inner.struct is not None:
            yield here, inner
        elif inner.items is not None and inner.items.struct is not None:
            yield f"{here}[]", inner.items
