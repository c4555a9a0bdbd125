"""``metadata.managedFields``: who set which fields, how and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from berth.server.patch import fieldset
from berth.server.patch.fieldset import FieldSet

APPLY, UPDATE = "Apply", "Update"

_IDENTITY = ("name", "namespace", "creationTimestamp", "selfLink", "uid", "clusterName", "generation")
# What nobody owns in an object's metadata.
UNOWNED_METADATA = frozenset({*_IDENTITY, "managedFields", "resourceVersion"})
# Beyond this many managers that update, the oldest are thrown together.
_MAX_UPDATE_MANAGERS = 10
_ANCIENT = "ancient-changes"


class Manager(NamedTuple):
    """Who: one that applies is the same whatever version it speaks, one that updates is not."""

    name: str
    operation: str
    api_version: str
    subresource: str

    @classmethod
    def applying(cls, name: str, subresource: str) -> Manager:
        return cls(name, APPLY, "", subresource)

    @classmethod
    def updating(cls, name: str, api_version: str, subresource: str) -> Manager:
        return cls(name, UPDATE, api_version, subresource)

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
        operation, api_version = raw["operation"], str(raw.get("apiVersion", ""))
        manager = Manager(
            str(raw.get("manager", "")),
            operation,
            api_version if operation == UPDATE else "",
            str(raw.get("subresource", "")),
        )
        fields = fieldset.decode(raw.get("fieldsV1"))
        if manager in found:
            fields |= found[manager].fields
        found[manager] = ManagedEntry(api_version, str(raw.get("time", "")), fields)
    return found


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
        if _is(raw, who):
            if not all(fieldset.holds(fields, path) for path in changed):
                return None
            found = True
            stamped.append({**raw, "time": now} if changed else raw)
        elif any(fieldset.holds(fields, path) for path in changed):
            return None
        else:
            stamped.append(raw)
    return sorted(stamped, key=_order) if found else None


def _is(raw: dict[str, Any], who: Manager) -> bool:
    return (
        raw.get("manager") == who.name
        and raw.get("operation") == who.operation
        and raw.get("apiVersion") == who.api_version
        and raw.get("subresource", "") == who.subresource
    )


def _order(raw: dict[str, Any]) -> tuple[str, ...]:
    """Appliers first, then by time and name."""
    return tuple(raw.get(name, "") for name in ("operation", "time", "manager", "apiVersion", "subresource"))


def encode(managers: Mapping[Manager, ManagedEntry]) -> list[dict[str, Any]]:
    """The entries; managers that own nothing are left out."""
    return sorted(
        (_encode(manager, entry) for manager, entry in managers.items() if entry.fields), key=_order
    )


def _encode(manager: Manager, entry: ManagedEntry) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "apiVersion": entry.api_version,
        "fieldsType": "FieldsV1",
        "fieldsV1": fieldset.encode(entry.fields),
        "manager": manager.name,
        "operation": manager.operation,
    }
    if manager.subresource:
        raw["subresource"] = manager.subresource
    if entry.time:
        raw["time"] = entry.time
    return raw


def capped(managers: Managers) -> Managers:
    """At most a handful of managers that update, so that an object's history does not outgrow it."""
    updating = sorted(
        (manager for manager in managers if manager.operation == UPDATE and managers[manager].fields),
        key=lambda manager: (managers[manager].time, manager),
    )
    kept = dict(managers)
    for manager in updating[: max(0, len(updating) - _MAX_UPDATE_MANAGERS)]:
        entry = kept.pop(manager)
        ancient = Manager.updating(_ANCIENT, entry.api_version, "")
        before = kept.get(ancient)
        kept[ancient] = entry if before is None else replace(entry, fields=entry.fields | before.fields)
    return kept
