"""PATCH in its four forms, each ending in an ordinary update (or, for apply, perhaps a create)."""

from __future__ import annotations

from collections.abc import Callable

from berth.kube.objects import Key, RawObject
from berth.kube.schema import Schema
from berth.kube.well_known import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from berth.server import errors, patch
from berth.server.http import field_validation
from berth.server.http.bodies import decode_body, decode_value, without_nulls_like_go
from berth.server.http.requests import PATCH_TYPES, ApiRequest
from berth.server.http.state import ServerState
from berth.server.registry import metadata, writes
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.strategy import Endpoint
from berth.server.registry.writes import Intent, Write

Change = Callable[[RawObject], RawObject]


def check_type(request: ApiRequest, endpoint: Endpoint) -> str:
    """The kind of patch a request carries, if this resource takes such patches."""
    kind = request.content_type
    supported = [name for name in PATCH_TYPES if name != STRATEGIC_PATCH or not endpoint.strategy.custom]
    if kind == "application/apply-patch+cbor" or kind not in supported:
        raise errors.unsupported_media_type(supported)
    return kind


def change_of(request: ApiRequest, kind: str, body: bytes, endpoint: Endpoint) -> Change:
    """The function a JSON, merge or strategic merge patch stands for."""
    change = _plain_change(kind, decode_value(request, body), endpoint.schema)
    if b"null" not in body or endpoint.strategy.custom:
        return change
    return lambda obj: without_nulls_like_go(change(obj))


def _plain_change(kind: str, value: object, schema: Schema | None) -> Change:
    if kind == JSON_PATCH:
        return lambda obj: patch.json_patch(obj, value)
    if kind == STRATEGIC_PATCH and schema is not None:
        return lambda obj: patch.strategic_merge_patch(obj, value, schema)
    if kind in (MERGE_PATCH, STRATEGIC_PATCH):
        return lambda obj: patch.merge_patch(obj, value)
    raise errors.unsupported_media_type(PATCH_TYPES)


def apply_change(
    state: ServerState, request: ApiRequest, endpoint: Endpoint, key: Key, change: Change
) -> Write:
    """Patch the newest state of an object through its main endpoint or a subresource."""
    record = writes.current(endpoint, key)
    obj = change(endpoint.object(record))
    _check_identity(endpoint, obj, key)
    meta = metadata.own_metadata(obj)
    if not meta.get("resourceVersion"):
        meta["resourceVersion"] = str(record.rv)
    obj = field_validation.check(request, endpoint, obj)
    intent = Intent(request.manager, request.dry_run, request.address.subresource, user=request.user)
    return writes.update(state.registry, endpoint, record, obj, intent)


def _check_identity(endpoint: Endpoint, obj: RawObject, key: Key) -> None:
    resource = endpoint.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) != wanted:
            raise errors.bad_request(
                f"the {field} in the patched object ({obj.get(field)}) does not match the expected {field} "
                f"({wanted})"
            )
    name = (obj.get("metadata") or {}).get("name") if isinstance(obj.get("metadata"), dict) else None
    if name != key[1]:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
        )


# --- server-side apply ------------------------------------------------------------------------------


def server_side_apply(state: ServerState, request: ApiRequest, endpoint: Endpoint, body: bytes) -> Write:
    address = request.address
    manager = request.query.get("fieldManager", "")
    if not manager:
        raise errors.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
            "is required for apply patch"
        )
    config = decode_body(request, body, APPLY_PATCH)
    if b"null" in body and not endpoint.strategy.custom:
        config = without_nulls_like_go(config)
    metadata.check_envelope(endpoint, config, state.registry.kinds)
    meta = metadata.own_metadata(config)
    key = (address.namespace, address.name)
    metadata.settle_key(endpoint, meta, key)
    config = field_validation.check(request, endpoint, config)
    if _status_is_apart(endpoint, address.subresource):
        config.pop("status", None)
    record = endpoint.bucket.newest(key)
    if record is None and address.subresource:
        raise errors.not_found(endpoint.resource.plural, endpoint.resource.group, address.name)
    live = endpoint.object(record) if record is not None else None
    if live is not None and meta.get("resourceVersion") not in (None, "", str(record.rv if record else 0)):
        raise errors.conflict(endpoint.resource.plural, endpoint.resource.group, address.name)
    meta.pop("resourceVersion", None)
    merged = _applied(state, request, endpoint, live, config)
    intent = Intent(manager, request.dry_run, address.subresource, tracked=True, user=request.user)
    if record is None:
        require(state.registry, request.user, request.attributes("create"))
        return writes.create(state.registry, endpoint, merged, address.namespace, intent, was_missing=True)
    merged["metadata"]["resourceVersion"] = str(record.rv)
    return writes.update(state.registry, endpoint, record, merged, intent)


def _status_is_apart(endpoint: Endpoint, subresource: str) -> bool:
    return not subresource and endpoint.strategy.status_apart


def _applied(
    state: ServerState, request: ApiRequest, endpoint: Endpoint, live: RawObject | None, config: RawObject
) -> RawObject:
    schema, address = endpoint.schema, request.address
    if schema is None:
        return patch.merge_patch(live or {}, config)
    return patch.apply(
        live,
        config,
        schema,
        manager=request.query["fieldManager"],
        now=state.registry.timestamp(),
        subresource=address.subresource,
        force=request.flag("force"),
        reset=patch.reset_fields(
            address.subresource,
            ("status",) if endpoint.strategy.status_apart else (),
            endpoint.strategy.status_metadata,
        ),
    )
