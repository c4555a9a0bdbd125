"""``metadata.managedFields``: who set which fields, how and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from berth.kube.objects import RawObject
from berth.kube.schema import FREE_FORM, Schema, SchemaNode
from berth.server.patch import fieldset
from berth.server.patch.fieldset import MEMBER, FieldSet
from berth.server.patch.typed import element_of

APPLY, UPDATE = "Apply", "Update"

_IDENTITY = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
# Fields of the metadata that have no owner.
UNOWNED_METADATA = frozenset({*_IDENTITY, "managedFields", "resourceVersion"})
_UNOWNED_TOP = frozenset({"apiVersion", "kind"})
# Beyond this many managers that update, the oldest are thrown together.
_MAX_UPDATE_MANAGERS = 10
_ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Who: one that applies is the same whatever version it speaks, and has none; one that updates is not."""

    name: str
    operation: str
    api_version: str
    subresource: str = ""

    def __str__(self) -> str:
        """As conflict messages name it."""
        text = fieldset.quoted(self.name)
        if self.subresource:
            text += f" with subresource {fieldset.quoted(self.subresource)}"
        return f"{text} using {self.api_version}" if self.operation == UPDATE else text


@dataclass(frozen=True, slots=True)
class ManagedEntry:
    """What one manager owns."""

    api_version: str
    time: str
    fields: FieldSet


Managers = dict[Manager, ManagedEntry]


def decode(entries: object) -> Managers:
    found: Managers = {}
    for raw in entries if isinstance(entries, list) else ():
        if not isinstance(raw, dict) or raw.get("operation") not in (APPLY, UPDATE):
            continue
        manager = _manager_of(raw)
        fields = fieldset.decode(raw.get("fieldsV1"))
        if manager in found:
            fields |= found[manager].fields
        found[manager] = ManagedEntry(str(raw.get("apiVersion", "")), str(raw.get("time", "")), fields)
    return found


def _manager_of(raw: dict[str, Any]) -> Manager:
    name, operation, api_version, subresource = (
        str(raw.get(field, "")) for field in ("manager", "operation", "apiVersion", "subresource")
    )
    return Manager(name, operation, api_version if operation == UPDATE else "", subresource)


def restamped(entries: object, who: Manager, changed: FieldSet, now: str) -> list[dict[str, Any]] | None:
    """The entries after `who` changed fields that it alone owns already: only its time is new.

    None if that is not all there is to it. Controllers write the same few fields again and again;
    this spares them taking all sets apart.
    """
    if not isinstance(entries, list):
        return None
    stamped: list[dict[str, Any]] = []
    found = not changed
    for raw in entries:
        fields = raw.get("fieldsV1") or {}
        if _manager_of(raw) == who:
            if not all(fieldset.holds(fields, path) for path in changed):
                return None
            found = True
            stamped.append({**raw, "time": now} if changed else raw)
        elif any(fieldset.holds(fields, path) for path in changed):
            return None
        else:
            stamped.append(raw)
    return sorted(stamped, key=_order) if found else None


def _order(raw: dict[str, Any]) -> tuple[str, ...]:
    """Appliers first, then by time and name."""
    return tuple(raw.get(name, "") for name in ("operation", "time", "manager", "apiVersion", "subresource"))


def encode(managers: Mapping[Manager, ManagedEntry]) -> list[dict[str, Any]]:
    """The entries; managers that own nothing are left out."""
    entries = (
        _entry(manager, entry.api_version, fieldset.encode(entry.fields), entry.time)
        for manager, entry in managers.items()
        if entry.fields
    )
    return sorted(entries, key=_order)


def _entry(manager: Manager, api_version: str, fields: RawObject, time: str) -> RawObject:
    raw: RawObject = {
        "apiVersion": api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        "manager": manager.name,
        "operation": manager.operation,
    }
    if manager.subresource:
        raw["subresource"] = manager.subresource
    if time:
        raw["time"] = time
    return raw


def capped(managers: Managers) -> Managers:
    """At most a handful of managers that update, so that an object's history does not outgrow it."""
    updating = sorted(
        (manager for manager in managers if manager.operation == UPDATE and managers[manager].fields),
        key=lambda manager: (managers[manager].time, manager),
    )
    kept = dict(managers)
    for manager in updating[:-_MAX_UPDATE_MANAGERS]:
        entry = kept.pop(manager)
        ancient = Manager(_ANCIENT, UPDATE, entry.api_version)
        before = kept.get(ancient)
        kept[ancient] = entry if before is None else replace(entry, fields=entry.fields | before.fields)
    return kept


# --- of an object that is being created --------------------------------------------------------------
# The same as :func:`berth.server.patch.track_update` gives for an object without a past, in one walk instead
# of a comparison; creating is what the server does most.


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
    api_version = obj["apiVersion"]
    return _entry(Manager(manager, UPDATE, api_version), api_version, fields, now) if fields else None


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
    known = struct.fields if struct is not None else {}
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
