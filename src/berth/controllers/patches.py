"""Merge patches that carry the version they were worked out from."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import Resource
from berth.kube.objects import RawObject, key_of
from berth.machines.contract import Patch


def status_patch(resource: Resource, item: Any, status: RawObject, cause: str = "") -> Patch:  # noqa: ANN401
    """A new status for `item`, a view; a conflict if the object has changed since."""
    return _patch(resource, item, {"status": status}, cause, subresource="status")


def patch(resource: Resource, item: Any, body: RawObject, cause: str = "") -> Patch:  # noqa: ANN401
    return _patch(resource, item, body, cause)


def _patch(
    resource: Resource,
    item: Any,  # noqa: ANN401 - a view
    body: RawObject,
    cause: str,
    subresource: str = "",
) -> Patch:
    metadata = item.metadata
    guard = {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
    return Patch(
        resource=resource,
        key=key_of(metadata),
        namespace=metadata.namespace or "",
        name=metadata.name or "",
        body={**body, "metadata": {**body.get("metadata", {}), **guard}},
        subresource=subresource,
        why=cause,
    )
