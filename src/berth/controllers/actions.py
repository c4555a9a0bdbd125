"""What controllers ask of the API server about an object that they have seen.

`item` is always a view of that object; `key` is the object it is done for, without one the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.kube.api_resources import Resource
from berth.kube.objects import Key, RawObject, key_of
from berth.kube.well_known import MERGE_PATCH, STRATEGIC_PATCH
from berth.machines.contract import Create, Delete, Patch


def create(resource: Resource, key: Key, body: RawObject, cause: str) -> Create:
    """A new object in the namespace of the one it is done for."""
    return Create(resource=resource, key=key, at=(key[0], ""), body=body, why=cause)


def patch(
    resource: Resource,
    item: Any,  # noqa: ANN401 - a view
    body: RawObject,
    cause: str = "",
    *,
    key: Key | None = None,
    subresource: str = "",
) -> Patch:
    """A merge patch; a conflict if the object has changed since."""
    guard = {"uid": item.metadata.uid, "resourceVersion": item.metadata.resource_version}
    guarded = {**body, "metadata": {**body.get("metadata", {}), **guard}}
    return _patch(resource, item, guarded, cause, MERGE_PATCH, key, subresource)


def status_patch(resource: Resource, item: Any, status: RawObject, cause: str = "") -> Patch:  # noqa: ANN401
    """A new status; a conflict if the object has changed since."""
    return patch(resource, item, {"status": status}, cause, subresource="status")


def is_news(item: Any, status: RawObject) -> bool:  # noqa: ANN401 - a view
    """Whether a status differs from the one the object has, where what is missing counts as nothing."""
    known = msgspec.to_builtins(item.status)
    return any((known.get(name) or 0) != (value or 0) for name, value in status.items())


def status_report(
    resource: Resource,
    item: Any,  # noqa: ANN401 - a view
    body: RawObject,
    cause: str,
    *,
    key: Key | None = None,
) -> Patch:
    """A strategic patch of the status and what may be said with it, whatever else has changed since."""
    reported = {**body, "metadata": {"uid": item.metadata.uid, **body.get("metadata", {})}}
    return _patch(resource, item, reported, cause, STRATEGIC_PATCH, key, "status")


def delete(
    resource: Resource,
    item: Any,  # noqa: ANN401 - a view
    cause: str,
    *,
    key: Key | None = None,
    grace: int | None = None,
    propagation: str | None = None,
) -> Delete:
    """The object is to go, if it is still the one that was seen."""
    own = key_of(item.metadata)
    return Delete(
        resource=resource,
        key=own if key is None else key,
        at=own,
        uid=item.metadata.uid,
        grace=grace,
        propagation=propagation,
        why=cause,
    )


def _patch(
    resource: Resource,
    item: Any,  # noqa: ANN401 - a view
    body: RawObject,
    cause: str,
    form: str,
    key: Key | None,
    subresource: str,
) -> Patch:
    own = key_of(item.metadata)
    return Patch(
        resource=resource,
        key=own if key is None else key,
        at=own,
        body=body,
        subresource=subresource,
        form=form,
        why=cause,
    )
