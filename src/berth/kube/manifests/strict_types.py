"""Types that decode an object only if a schema knows all its fields.

A dump has tens of thousands of objects and next to none with an unknown field. The decoder finds that out
many times faster than a walk over a decoded object would, and it keeps what it reads undecoded.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from berth.kube.schema import SchemaNode, SchemaStruct
from berth.kube.schema.builtin import newer_fields


def knows_all_fields(raw: msgspec.Raw, root: SchemaNode) -> bool:
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
