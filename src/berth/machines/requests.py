"""What machines ask of the API server about an object that they have seen.

`item` is a view of that object. `key` names the object on whose behalf it is asked, by default that one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.objects import Condition, Key, ObjectMeta, RawObject, View, key_of
from berth.kube.ownership import owner_reference
from berth.kube.times import stamp
from berth.kube.well_known import STRATEGIC_PATCH
from berth.machines.contract import Create, Delete, Patch


def create(resource: Resource, key: Key, body: RawObject, cause: str) -> Create:
    """A new object in the namespace of the one it is done for."""
    return Create(resource=resource, key=key, at=(key[0], ""), body=body, why=cause)


def patch(
    resource: Resource,
    item: View,
    body: RawObject,
    cause: str = "",
    *,
    key: Key | None = None,
    in_version: bool = True,
    **more: Any,  # noqa: ANN401 - of a Patch
) -> Patch:
    """A merge patch; a conflict if it is another object by now or, with `in_version`, if it has changed."""
    own, guard = key_of(item.metadata), {"uid": item.metadata.uid}
    if in_version:
        guard["resourceVersion"] = item.metadata.resource_version
    guarded = {**body, "metadata": {**guard, **body.get("metadata", {})}}
    return Patch(resource=resource, key=key or own, at=own, body=guarded, why=cause, **more)


def without_finalizer(resource: Resource, item: View, finalizer: str, cause: str, *, key: Key) -> Patch:
    kept = [name for name in item.metadata.finalizers or () if name != finalizer]
    return patch(resource, item, {"metadata": {"finalizers": kept or None}}, cause, key=key)


def owned_by(resource: Resource, item: View, owners: Iterable[RawObject], cause: str, *, key: Key) -> Patch:
    """The object has these owners from now on, and no others."""
    return patch(resource, item, {"metadata": {"ownerReferences": list(owners) or None}}, cause, key=key)


def delete(
    resource: Resource,
    item: View,
    cause: str,
    *,
    key: Key | None = None,
    **more: Any,  # noqa: ANN401 - of a Delete
) -> Delete:
    """The object is to go, if it is still the one that was seen."""
    own = key_of(item.metadata)
    return Delete(resource=resource, key=key or own, at=own, uid=item.metadata.uid, why=cause, **more)


# --- objects --------------------------------------------------------------------------------------


def object_reference(resource: Resource, metadata: ObjectMeta) -> RawObject:
    """A reference by which one object names another."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
    }


def new_object(resource: Resource, metadata: RawObject, **content: Any) -> RawObject:  # noqa: ANN401 - JSON
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, **content}


def child_of(
    owner: View, of: Resource, resource: Resource, name: str, content: RawObject, **said: dict[str, str]
) -> RawObject:
    """A new object that `owner`, a view of `of`, controls; `said` are its labels and annotations."""
    reference = owner_reference(of, owner.metadata)
    metadata = {"name": name, "namespace": owner.metadata.namespace, **said, "ownerReferences": [reference]}
    return new_object(resource, metadata, **content)


# --- statuses -------------------------------------------------------------------------------------


def status_patch(resource: Resource, item: View, status: RawObject, cause: str = "") -> Patch:
    """A new status; a conflict if the object has changed since."""
    return patch(resource, item, {"status": status}, cause, subresource="status")


def is_news(item: View, status: RawObject) -> bool:
    """Whether a status differs from the one the object has, where what is missing counts as nothing."""
    known = msgspec.to_builtins(item.status)
    return any((known.get(name) or 0) != (value or 0) for name, value in status.items())


def status_report(
    resource: Resource,
    item: View,
    status: RawObject,
    cause: str = "",
    *,
    metadata: RawObject | None = None,
    in_version: bool = False,
    **more: Any,  # noqa: ANN401 - of `patch`
) -> Patch:
    """A strategic patch of the status, and of metadata that is written with it.

    It does not matter what else has changed since; with `in_version` it is a conflict.
    """
    more |= {"subresource": "status", "form": STRATEGIC_PATCH}
    body = {"metadata": metadata or {}, "status": status}
    return patch(resource, item, body, cause, in_version=in_version, **more)


def new_condition(
    kind: str, status: str, reason: str, message: str, now: float, before: Condition | None = None
) -> RawObject:
    """A condition; the time of its transition is that of `before` if the status stays."""
    since = before.last_transition_time if before is not None and before.status == status else None
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": since or stamp(now),
    }


class Conditions:
    """The conditions of one object while its status is worked out: what does not change keeps its times."""

    def __init__(self, given: Iterable[Condition] | None, now: float, *, updated: bool = False) -> None:
        self._before = {c.type or "": c for c in given or ()}
        self._conditions: dict[str, RawObject] = msgspec.to_builtins(self._before)
        self._given = self.list()
        self._now = now
        self._updated = updated  # some kinds keep a lastUpdateTime

    def get(self, kind: str) -> RawObject | None:
        return self._conditions.get(kind)

    def set(self, kind: str, status: str, reason: str, message: str = "") -> None:
        known = self._conditions.get(kind, {})
        if (known.get("status"), known.get("reason")) == (status, reason):
            if known.get("message", "") == message:
                return
            entry = {**known, "message": message}
        else:
            entry = new_condition(kind, status, reason, message, self._now, self._before.get(kind))
        if self._updated:
            entry["lastUpdateTime"] = stamp(self._now)
        self._conditions[kind] = entry

    def drop(self, kind: str) -> None:
        self._conditions.pop(kind, None)

    def list(self) -> list[RawObject]:
        return list(self._conditions.values())

    @property
    def changed(self) -> bool:
        """Whether they are others than the object has."""
        return self.list() != self._given
