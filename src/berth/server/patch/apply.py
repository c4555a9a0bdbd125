"""Server-side apply, and keeping track of who owns what when objects are written in other ways.

Both take the time as an argument and return a new object whose ``metadata.managedFields`` is up to date.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Any

from berth.kube.schema import Schema
from berth.kube.well_known import LAST_APPLIED
from berth.server import fields
from berth.server.errors import StatusError, bad_request, refuse_depth
from berth.server.patch import fieldset, managers
from berth.server.patch.fieldset import FieldSet, KeyPath
from berth.server.patch.managers import APPLY, UPDATE, ManagedEntry, Manager, Managers
from berth.server.patch.typed import Difference, compare, fields_of, merge, require_schema, without

# --- from kubectl's annotation --------------------------------------------------------------------
# Upstream: apimachinery/pkg/util/managedfields/internal (lastappliedmanager, lastappliedupdater).  Only for
# kubectl's own manager; another name in an apply means another owner beside it.

MANAGER = "kubectl"


def taken_over(live: dict[str, Any], schema: Schema, manager: str) -> FieldSet:
    """What a manager may take from others: what kubectl applied last, and is still as it applied it."""
    text = fields.annotations_of(live).get(LAST_APPLIED) if manager == MANAGER else None
    if not text:
        return frozenset()
    try:
        last = json.loads(text)
        if not isinstance(last, dict) or last.get("apiVersion") != live.get("apiVersion"):
            return frozenset()
        difference = compare(last, live, schema.root)
        applied = frozenset(fields_of(last, schema.root))
    except (ValueError, RecursionError, StatusError):
        return frozenset()  # not written by kubectl
    return applied - difference.modified - difference.added - difference.removed


def kept_up(merged: dict[str, Any], config: dict[str, Any], manager: str) -> dict[str, Any]:
    """The object with the annotation brought up to date, where it has one."""
    if manager != MANAGER or not fields.annotations_of(merged).get(LAST_APPLIED):
        return merged
    metadata = fields.without(config.get("metadata", {}), "annotations")
    if given := fields.without(fields.annotations_of(config), LAST_APPLIED):
        metadata["annotations"] = given
    text = json.dumps({**config, "metadata": metadata}, separators=(",", ":"), sort_keys=True) + "\n"
    annotations = {**fields.annotations_of(merged), LAST_APPLIED: text}
    return {**merged, "metadata": {**merged["metadata"], "annotations": annotations}}


# --- apply ----------------------------------------------------------------------------------------

# What there was before anybody applied belongs to this manager.
BEFORE_FIRST_APPLY = "before-first-apply"

# What writes to a status may change beside it, for most kinds.
STATUS_METADATA = ("labels", "annotations", "finalizers", "ownerReferences")
_NEVER_OWNED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        ("f:metadata",),
        *(("f:metadata", f"f:{name}") for name in managers.UNOWNED_METADATA),
    }
)


def reset_fields(subresource: str, *, status_apart: bool, taken: Collection[str] = ()) -> tuple[KeyPath, ...]:
    """What a write to this endpoint cannot set, so that nobody gets to own it there.

    `taken`: What a write to the status can set of the metadata.
    """
    if subresource == "status":
        closed = (name for name in STATUS_METADATA if name not in taken)
        return (("f:spec",), *(("f:metadata", f"f:{name}") for name in closed))
    return (("f:status",),) if status_apart else ()


@refuse_depth()
def apply(  # noqa: PLR0913 -- a request has that many parameters
    live: dict[str, Any] | None,
    config: dict[str, Any],
    schema: Schema,
    *,
    manager: str,
    now: str,
    subresource: str = "",
    force: bool = False,
    reset: Iterable[KeyPath] = (),
) -> dict[str, Any]:
    """The live object (None if there is none yet) with a configuration applied to it.

    Raises :class:`StatusError`: 409 if others own what the configuration wants to change and it may
    not use force, 400 if the configuration makes no sense for the schema.
    """
    if (config.get("metadata") or {}).get("managedFields"):
        raise bad_request("metadata.managedFields must be nil")
    require_schema(config, schema.root)
    before = live if live is not None else {}
    api_version = str(config.get("apiVersion", ""))
    owners = _owners(before, api_version, schema, now)
    who = Manager(manager, APPLY, "", subresource)
    last = owners.get(who)
    claimed = _owned(fields_of(config, schema.root), reset)

    merged = merge(_kept(before, None) if before else before, config, schema.root)
    owners[who] = ManagedEntry(api_version, now, claimed)
    if last is not None:
        merged = _give_up(merged, schema, last.fields, owners)
    difference = compare(before, merged, schema.root)
    changed = _owned(difference.added | difference.modified, reset)
    yielding = taken_over(before, schema, manager)
    _settle(difference, changed, owners, who, force=force, yielding=yielding)
    merged = kept_up(merged, config, manager) if live is not None else merged
    if last is not None and last.fields == claimed and last.api_version == api_version:
        owners[who] = last
    return _kept(merged, managers.encode(owners))


def track_update(
    live: dict[str, Any] | None,
    new: dict[str, Any],
    schema: Schema,
    *,
    manager: str,
    now: str,
    subresource: str = "",
    reset: Iterable[KeyPath] = (),
) -> dict[str, Any]:
    """The new object with its managed fields: whoever changes a field by an update owns it from then on."""
    before = live if live is not None else {}
    api_version = str(new.get("apiVersion", ""))
    written = None if subresource else (new.get("metadata") or {}).get("managedFields")
    if written in ([{}], [None]):  # the documented way to start over
        return _kept(new, None)
    held = (before.get("metadata") or {}).get("managedFields")
    if live is not None and not written and not held:
        return _kept(new, None)
    who = Manager(manager, UPDATE, api_version, subresource)
    difference = compare(before, new, schema.root)
    changed = _owned(difference.added | difference.modified, reset)
    if live is not None and written in (None, held) and not difference.removed:
        restamped = managers.restamped(held, who, changed, now)
        if restamped is not None:
            return _kept(new, restamped)
    owners = managers.decode(written or held)
    at_first = dict(owners)
    _settle(difference, changed, owners, who, force=True)
    if not changed and owners == at_first and written in (None, held):
        return _kept(new, held)
    last = owners.get(who)
    if changed:
        owners[who] = ManagedEntry(
            api_version, now, changed | (last.fields if last is not None else frozenset())
        )
    return _kept(new, managers.encode(managers.capped(owners)))


def _owners(before: dict[str, Any], api_version: str, schema: Schema, now: str) -> Managers:
    owners = managers.decode((before.get("metadata") or {}).get("managedFields"))
    if before and not owners:
        everything = _owned(fields_of(before, schema.root), ())
        first = Manager(BEFORE_FIRST_APPLY, UPDATE, str(before.get("apiVersion", api_version)))
        owners[first] = ManagedEntry(first.api_version, now, everything)
    return owners


def _owned(paths: Iterable[KeyPath], reset: Iterable[KeyPath]) -> FieldSet:
    prefixes = tuple(reset)
    return frozenset(
        path
        for path in paths
        if path not in _NEVER_OWNED
        and path[:2] != ("f:metadata", "f:managedFields")
        and not any(path[: len(prefix)] == prefix for prefix in prefixes)
    )


def _give_up(merged: dict[str, Any], schema: Schema, last: FieldSet, owners: Managers) -> dict[str, Any]:
    """Remove the fields that the applier no longer mentions and no other manager owns."""
    owned: FieldSet = frozenset().union(*(entry.fields for entry in owners.values()))
    dropped = last - owned
    if not dropped:
        return merged
    dropped -= fieldset.parents(owned)
    left: dict[str, Any] = without(merged, schema.root, fieldset.trie(dropped), owned)
    return left


def _settle(
    difference: Difference,
    changed: FieldSet,
    owners: Managers,
    who: Manager,
    *,
    force: bool,
    yielding: FieldSet = frozenset(),
) -> None:
    """Take from the owners, in place, what they lost.

    What others own is only taken with force, or if all of it is `yielding`.
    """
    conflicts = {
        manager: taken
        for manager, entry in owners.items()
        if manager != who and (taken := entry.fields & changed)
    }
    kept = {manager: left for manager, taken in conflicts.items() if (left := taken - yielding)}
    if kept and not force:
        raise _conflict(kept)
    for manager, entry in list(owners.items()):
        left = entry.fields - difference.removed - conflicts.get(manager, frozenset())
        if not left:
            del owners[manager]
        elif len(left) != len(entry.fields):
            owners[manager] = replace(entry, fields=left)


def _conflict(conflicts: dict[Manager, FieldSet]) -> StatusError:
    ordered = [(who, [fieldset.show(path) for path in sorted(conflicts[who])]) for who in sorted(conflicts)]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, paths in ordered
        for path in paths
    ]
    if len(causes) == 1:
        text = f"Apply failed with 1 conflict: {causes[0]['message']}: {causes[0]['field']}"
    else:
        listed = "\n".join(
            f"conflicts with {manager}:\n" + "\n".join(f"- {path}" for path in paths)
            for manager, paths in ordered
        )
        text = f"Apply failed with {len(causes)} conflicts: {listed}"
    return StatusError(409, "Conflict", text, details={"causes": causes})


def _kept(obj: dict[str, Any], entries: object) -> dict[str, Any]:
    metadata = fields.without(obj.get("metadata") or {}, "managedFields")
    if entries:
        metadata["managedFields"] = entries
    return {**obj, "metadata": metadata}
