"""Fields in files that no schema knows: a decoder drops them, and the answer is to another question."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from berth.kube.manifests import kinds
from berth.kube.manifests.manifest import Manifest
from berth.kube.manifests.near_fields import Place, hint
from berth.kube.objects import RawObject
from berth.kube.schema import Schema, SchemaNode, SchemaRegistry, SchemaStruct
from berth.kube.schema.builtin import newer_fields
from berth.kube.text import json_reader
from berth.kube.validation.errors import Path, render

CustomSchemas = Mapping[tuple[str, str], Schema]  # by apiVersion and kind

_STABLE = "v1"
# What an earlier version of a kind had and its v1 has not.
_EARLIER = {("Deployment", "spec.rollbackTo"), ("DaemonSet", "spec.templateGeneration")}
# The PodGroup of the coscheduling plugin, a custom resource that is read like a built-in kind.
LABELLED_POD_GROUP: RawObject = {
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "names": {"kind": "PodGroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {
                                    "minMember": {"type": "integer"},
                                    "minResources": {
                                        "type": "object",
                                        "additionalProperties": {"x-kubernetes-int-or-string": True},
                                    },
                                    "scheduleTimeoutSeconds": {"type": "integer"},
                                },
                            },
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


@dataclass(slots=True)
class UnknownField:
    """A field that a kind does not have.

    Attributes:
        manifest: The first object that has it.
        objects: How many have it.
        hint: What may be meant.
    """

    manifest: Manifest
    path: Path
    hint: str
    objects: int = 1

    def __str__(self) -> str:
        others = f" and {self.objects - 1} more" if self.objects > 1 else ""
        return f"{self.manifest}{others}: {sentence(self.path, self.hint)}"


def sentence(path: Path, hint: str) -> str:
    return f"{render(path)}: unknown field{f'; {hint}' if hint else ''}"


def unknown_fields(manifests: Iterable[Manifest], custom: CustomSchemas | None = None) -> list[UnknownField]:
    """The unknown fields of kinds that Berth reads, each once, in order of appearance.

    Args:
        manifests: As they were loaded.
        custom: The schemas of kinds that are read besides those with a typed view.
    """
    schemas = KnownSchemas(custom or {})
    found: dict[tuple[str, str, Path], UnknownField] = {}
    for manifest in manifests:
        for place, name, value in unknown_in(manifest, schemas):
            path = (*place.path, name)
            known = found.get(key := (manifest.api_version, manifest.kind, without_indexes(path)))
            if known is None:
                found[key] = UnknownField(manifest, path, hint(place, name, value))
            else:
                known.objects += 1
    return list(found.values())


def unknown_in(manifest: Manifest, schemas: KnownSchemas) -> Iterator[tuple[Place, str, object]]:
    """The unknown fields of one object, each once for all items of a list: where, its name and its value."""
    schema = schemas.of(manifest.api_version, manifest.kind)
    if schema is None:
        return
    seen: set[Path] = set()
    for place, name, value in fields_beyond(schema.root, manifest.raw):
        path = (*place.path, name)
        anywhere = without_indexes(path)
        if anywhere not in seen and not _is_earlier(manifest, path):
            seen.add(anywhere)
            yield place, name, value


def without_indexes(path: Path) -> Path:
    """The same for the field in every item of a list."""
    return tuple("[]" if isinstance(part, int) else part for part in path)


class KnownSchemas:
    """The schemas of the kinds that are read."""

    def __init__(self, custom: CustomSchemas) -> None:
        self._known: dict[tuple[str, str], Schema | None] = dict(custom)
        self._built_in = SchemaRegistry()
        self._built_in.add_crd(LABELLED_POD_GROUP)

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
        return self._in_version(api_version, kind) or self._in_version(home, kind)

    def _in_version(self, api_version: str, kind: str) -> Schema | None:
        group, _, version = api_version.rpartition("/")
        return self._built_in.for_kind(group, version, kind)


def _is_earlier(manifest: Manifest, path: Path) -> bool:
    return (manifest.kind, render(path)) in _EARLIER and not manifest.api_version.endswith(f"/{_STABLE}")


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
