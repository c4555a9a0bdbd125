"""The managed fields of an object that is being created: its creator owns everything it holds.

The same as :func:`berth.server.patch.track_update` gives for an object without a past, in one walk
instead of a comparison; creating is what the server does most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from berth.kube.objects import RawObject
from berth.kube.schema import FREE_FORM, Schema, SchemaNode
from berth.server.patch.fieldset import MEMBER
from berth.server.patch.managers import UNOWNED_METADATA
from berth.server.patch.typed import element_of

_NOTHING: Mapping[str, SchemaNode] = {}
_UNOWNED_TOP = frozenset({"apiVersion", "kind"})


def creator_entry(
    obj: RawObject, schema: Schema, manager: str, now: str, *, without_status: bool
) -> RawObject | None:
    """The one entry of ``managedFields``, None if there is nothing to own."""
    fields: RawObject = {}
    for name, value in obj.items():
        if value is None or name in _UNOWNED_TOP or (without_status and name == "status"):
            continue
        if name == "metadata":
            value = {k: v for k, v in value.items() if k not in UNOWNED_METADATA}  # noqa: PLW2901
            if not value:
                continue
        owned = _owned(value, schema.root.child(name), fresh=False)
        if owned is not None:
            fields[f"f:{name}"] = owned
    if not fields:
        return None
    return {
        "apiVersion": obj["apiVersion"],
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager,
        "operation": "Update",
        "time": now,
    }


def _owned(value: Any, node: SchemaNode, *, fresh: bool = True) -> RawObject | None:  # noqa: ANN401 - any JSON value
    """The ``fieldsV1`` of a value: empty for a leaf, None if nothing of it can be owned.

    `fresh`: What holds the value is new as well; otherwise an empty one may be there in every object.
    """
    was_there = not fresh and node.is_there(value)
    if isinstance(value, dict):
        struct = node.struct
        if not value:
            return None if was_there else {}
        if node.atomic or (struct is not None and struct.atomic) or node.type not in ("object", "any"):
            return {}
        return _owned_map(value, node, fresh=not was_there)
    if isinstance(value, list) and node.list_type != "atomic":
        return _owned_list(value, node, fresh=not was_there)
    return {}


def _owned_map(value: RawObject, node: SchemaNode, *, fresh: bool) -> RawObject | None:
    struct, others = node.struct, node.values or FREE_FORM
    known = struct.fields if struct is not None else _NOTHING
    out: RawObject = {MEMBER: {}} if fresh else {}
    for name, item in value.items():
        if item is None:
            continue
        if isinstance(item, dict | list):
            owned = _owned(item, known.get(name) or others, fresh=fresh)
            if owned is None:
                continue
            out[f"f:{name}"] = owned
        else:
            out[f"f:{name}"] = {}
    if not out:
        return None
    return {} if len(out) == 1 and MEMBER in out else out


def _owned_list(value: list[Any], node: SchemaNode, *, fresh: bool) -> RawObject:
    out: RawObject = {MEMBER: {}} if fresh else {}
    inner = node.element()
    for item in value:
        element = element_of(item, node)
        if element is None or element in out:
            return {}  # elements that cannot be told apart are owned as a whole
        out[element] = _owned(item, inner) or {}
    return {} if len(out) == 1 and MEMBER in out else out
