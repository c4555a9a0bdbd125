"""Verbs: which function answers a request for a resource or one of its subresources.

PATCH has four forms, each ending in an ordinary update (or, for apply, perhaps a create).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from berth.kube.objects import Key, RawObject
from berth.kube.schema import Schema
from berth.kube.well_known import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from berth.server import errors, patch, protobuf
from berth.server.fields import mapping
from berth.server.http import lists, watching
from berth.server.http.bodies import (
    check,
    check_as,
    decode_body,
    decode_value,
    read_body,
    without_nulls_like_go,
)
from berth.server.http.replies import ListBody, Reply, of_object, of_record
from berth.server.http.requests import PATCH_TYPES, ApiRequest, Send
from berth.server.http.state import ServerState
from berth.server.registry import deletion, metadata, writes
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.strategy import SUBRESOURCES, Endpoint
from berth.server.registry.writes import Write

Handler = Callable[[ServerState, ApiRequest, Endpoint], Awaitable[Reply]]
Change = Callable[[RawObject], RawObject]

_BODY_TYPES = frozenset(
    {"", "application/json", "application/yaml", "text/yaml", "*/*", protobuf.CONTENT_TYPE}
)
_STEP = 100  # objects deleted between two looks at other requests


async def handle(state: ServerState, request: ApiRequest, endpoint: Endpoint, send: Send) -> Reply | None:
    """Answer a request; None if the answer was streamed."""
    verb, address, resource = request.verb, request.address, endpoint.resource
    if resource.namespaced and address.name and not address.namespace:
        raise errors.unknown_path()
    if address.namespace and not resource.namespaced:
        raise errors.unknown_path()
    if address.subresource:
        handler = _SUBRESOURCES.get((address.subresource, verb))
        if address.subresource not in resource.subresources:
            raise errors.unknown_path()
        if handler is None:
            raise errors.method_not_allowed()
        return await _answered(handler, state, request, endpoint)
    request.notice = endpoint.strategy.deprecated
    if verb == "create" and not resource.stored:
        return await _answer(state, request, endpoint)
    if verb not in resource.verbs:
        raise errors.method_not_allowed()
    if verb == "watch":
        await watching.watch(state, request, endpoint, send)
        return None
    if resource.namespaced and not address.namespace and verb == "create":
        raise errors.method_not_allowed()
    if (verb == "create" and address.name) or (verb in ("update", "patch") and not address.name):
        raise errors.method_not_allowed()
    return await _answered(_VERBS[verb], state, request, endpoint)


async def _answered(handler: Handler, state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    """The answer; a refusal that is due to a write under way is given once others can see that write, too."""
    try:
        return await handler(state, request, endpoint)
    except errors.StatusError as error:
        name = request.address.name or (error.details or {}).get("name", "")
        waiting = endpoint.bucket.waiting((request.address.namespace, name))
        if waiting is not None:
            await asyncio.wait((waiting,))
        raise


async def _body_of(request: ApiRequest) -> bytes:
    if request.content_type not in _BODY_TYPES:
        raise errors.unsupported_media_type(("application/json", "application/yaml"))
    return await read_body(request)


def _object_in(request: ApiRequest, endpoint: Endpoint, body: bytes) -> RawObject:
    """The object in a request's body."""
    obj = decode_body(request, body, request.content_type)
    may_have_null = b"null" in body or "yaml" in request.content_type  # YAML writes null in several ways
    return without_nulls_like_go(obj) if may_have_null and not endpoint.strategy.custom else obj


def _own_object_in(state: ServerState, request: ApiRequest, endpoint: Endpoint, body: bytes) -> RawObject:
    """The object in a request's body, of the endpoint's own kind and checked against its schema."""
    obj = _object_in(request, endpoint, body)
    metadata.check_envelope(state.registry, endpoint, obj)
    return check(request, endpoint, obj)


async def _committed(write: Write) -> None:
    if write.done is not None:
        await write.done


async def _written(
    state: ServerState, request: ApiRequest, endpoint: Endpoint, size: int, propose: Callable[[], Write]
) -> Reply:
    """The answer to a write that takes time by `size` bytes."""
    write = await state.workers.write(size * endpoint.strategy.weight, propose)
    await _committed(write)
    return of_record(request, endpoint, write.record, write.status)


async def _create(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body = await _body_of(request)
    intent = request.intent

    def propose() -> Write:
        obj = _own_object_in(state, request, endpoint, body)
        return writes.create(state.registry, endpoint, obj, request.address.namespace, intent)

    return await _written(state, request, endpoint, len(body), propose)


async def _answer(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    """Answer what is created but not stored: an object of such a kind, or one sent to a subresource."""
    body, subresource = await _body_of(request), request.address.subresource

    def sent() -> RawObject:
        if not subresource:
            return _own_object_in(state, request, endpoint, body)
        return _part(state, request, _object_in(request, endpoint, body))

    obj = await state.workers.run(len(body), sent)
    answer, done = endpoint.strategy.answer(state.registry, obj, request.key, request.intent)
    if done is not None:
        await done
    return of_object(answer, 201)


async def _update(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body, key, intent = await _body_of(request), request.key, request.intent

    def propose() -> Write:
        obj = _own_object_in(state, request, endpoint, body)
        metadata.settle_key(endpoint, metadata.own_metadata(obj), key)
        if endpoint.strategy.create_on_update and endpoint.bucket.newest(key) is None:
            require(state.registry, request.user, request.attributes("create"))
            return writes.create(state.registry, endpoint, obj, key[0], intent, was_missing=True)
        return writes.update(state.registry, endpoint, writes.current(endpoint, key), obj, intent)

    return await _written(state, request, endpoint, len(body) + _size_of(endpoint, key), propose)


def _size_of(endpoint: Endpoint, key: Key) -> int:
    """Of the object that a write changes."""
    record = endpoint.bucket.newest(key)
    return len(record.data) if record is not None else 0


async def _patch(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    kind = _patch_type(request, endpoint)
    body, key = await read_body(request), request.key

    def propose() -> Write:
        if kind == APPLY_PATCH:
            return _server_side_apply(state, request, endpoint, body)
        change = _change_of(request, kind, body, endpoint)
        return _apply_change(state, request, endpoint, change)

    return await _written(state, request, endpoint, len(body) + _size_of(endpoint, key), propose)


async def _delete_options(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> RawObject:
    body = await read_body(request)
    given = None
    if body.strip():
        given = await state.workers.run(len(body), lambda: decode_body(request, body, request.content_type))
    options = deletion.options_of(given, request.query)
    undecided = options.get("propagationPolicy") is None and options.get("orphanDependents") is None
    if undecided and endpoint.strategy.orphans_warning:
        request.warnings.append(endpoint.strategy.orphans_warning)
    return options


async def _delete(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    options = await _delete_options(state, request, endpoint)
    record = writes.current(endpoint, request.key)
    write = deletion.delete(state.registry, endpoint, record, options)
    await _committed(write)
    gone = endpoint.bucket.newest(record.key) is None or bool(options.get("dryRun"))
    if gone and not endpoint.strategy.returns_deleted:
        return of_object(errors.deleted_status(endpoint.resource, record.key[1], record.uid))
    return of_record(request, endpoint, write.record)


async def _delete_collection(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    options = await _delete_options(state, request, endpoint)
    match = lists.match_of(request, endpoint)
    deleted, waiting = [], None
    matching = [
        record.key for record in endpoint.bucket.newest_in(request.address.namespace) if match.matches(record)
    ]
    for count, key in enumerate(matching, 1):
        record = endpoint.bucket.newest(key)
        if record is not None:
            write = deletion.delete(state.registry, endpoint, record, options)
            deleted.append(write.record)
            waiting = write.done or waiting
        if count % _STEP == 0:
            await asyncio.sleep(0)
    if waiting is not None:
        await waiting
    resource = endpoint.resource
    head = {
        "kind": resource.list_kind,
        "apiVersion": resource.api_version,
        "metadata": {"resourceVersion": str(state.registry.store.rv)},
    }
    return Reply(200, ListBody(head, [endpoint.data(record) for record in deleted]))


# --- patches ---------------------------------------------------------------------------------------


def _patch_type(request: ApiRequest, endpoint: Endpoint) -> str:
    """The kind of patch a request carries, if this resource takes such patches."""
    kind = request.content_type
    supported = [name for name in PATCH_TYPES if name != STRATEGIC_PATCH or not endpoint.strategy.custom]
    if kind == "application/apply-patch+cbor" or kind not in supported:
        raise errors.unsupported_media_type(supported)
    return kind


def _change_of(request: ApiRequest, kind: str, body: bytes, endpoint: Endpoint) -> Change:
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


def _apply_change(state: ServerState, request: ApiRequest, endpoint: Endpoint, change: Change) -> Write:
    """Patch the newest state of an object through its main endpoint or a subresource."""
    record = writes.current(endpoint, request.key)
    obj = change(endpoint.object(record))
    _check_identity(endpoint, obj, record.key)
    meta = metadata.own_metadata(obj)
    if not meta.get("resourceVersion"):
        meta["resourceVersion"] = str(record.rv)
    obj = check(request, endpoint, obj)
    return writes.update(state.registry, endpoint, record, obj, request.intent)


def _check_identity(endpoint: Endpoint, obj: RawObject, key: Key) -> None:
    resource = endpoint.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) != wanted:
            raise errors.bad_request(
                f"the {field} in the patched object ({obj.get(field)}) does not match the expected {field} "
                f"({wanted})"
            )
    name = mapping(obj, "metadata").get("name")
    if name != key[1]:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({key[1]})"
        )


# --- server-side apply ------------------------------------------------------------------------------


def _server_side_apply(state: ServerState, request: ApiRequest, endpoint: Endpoint, body: bytes) -> Write:
    address, key = request.address, request.key
    manager = request.query.get("fieldManager", "")
    if not manager:
        raise errors.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
            "is required for apply patch"
        )
    config = decode_body(request, body, APPLY_PATCH)
    if b"null" in body and not endpoint.strategy.custom:
        config = without_nulls_like_go(config)
    metadata.check_envelope(state.registry, endpoint, config)
    meta = metadata.own_metadata(config)
    metadata.settle_key(endpoint, meta, key)
    config = check(request, endpoint, config)
    if not address.subresource and endpoint.strategy.status_apart:
        config.pop("status", None)
    record = endpoint.bucket.newest(key)
    if record is None and address.subresource:
        raise errors.not_found(endpoint.resource, address.name)
    live = endpoint.object(record) if record is not None else None
    if live is not None and meta.get("resourceVersion") not in (None, "", str(record.rv if record else 0)):
        raise errors.conflict(endpoint.resource, address.name)
    meta.pop("resourceVersion", None)
    merged = _applied(state, request, endpoint, live, config)
    intent = replace(request.intent, tracked=True)  # `fieldManager` is its manager
    if record is None:
        require(state.registry, request.user, request.attributes("create"))
        return writes.create(state.registry, endpoint, merged, address.namespace, intent, was_missing=True)
    merged["metadata"]["resourceVersion"] = str(record.rv)
    return writes.update(state.registry, endpoint, record, merged, intent)


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
        reset=endpoint.strategy.reset_fields(address.subresource),
    )


# --- subresources -----------------------------------------------------------------------------------


async def _get_scale(_: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    return of_object(writes.scale_of(endpoint, lists.committed(request, endpoint)))


async def _put_scale(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body = await _body_of(request)
    return await _scaled(state, request, endpoint, len(body), lambda _: _object_in(request, endpoint, body))


async def _patch_scale(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    kind = _patch_type(request, endpoint)
    body = await read_body(request)

    def change(scaled: RawObject) -> RawObject:
        return _change_of(request, kind, body, endpoint)(scaled)

    return await _scaled(state, request, endpoint, len(body), change)


async def _scaled(
    state: ServerState, request: ApiRequest, endpoint: Endpoint, size: int, change: Change
) -> Reply:
    key, intent = request.key, request.intent

    def propose() -> Write:
        record = writes.current(endpoint, key)
        obj = _part(state, request, change(writes.scale_of(endpoint, record)))
        return writes.update_scale(state.registry, endpoint, record, obj, intent)

    write = await state.workers.write(size + _size_of(endpoint, key), propose)
    await _committed(write)
    return of_object(writes.scale_of(endpoint, write.record))


def _part(state: ServerState, request: ApiRequest, obj: RawObject) -> RawObject:
    """What was sent to a subresource that has a kind of its own, checked against that kind's schema."""
    part = SUBRESOURCES[request.address.subresource]
    gvk = (part.group, part.version, part.kind)
    if part.older and obj.get("apiVersion") == part.older:
        obj["apiVersion"] = f"{part.group}/{part.version}"
    return check_as(request, state.registry.schemas, gvk, obj)


async def _connect(_: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    obj = endpoint.object(lists.committed(request, endpoint))
    text = endpoint.strategy.connect(obj, request.address.subresource, request.query)
    return Reply(200, text, b"text/plain")


_VERBS: dict[str, Handler] = {
    "get": lists.get,
    "list": lists.list_,
    "create": _create,
    "update": _update,
    "patch": _patch,
    "delete": _delete,
    "deletecollection": _delete_collection,
}
_SUBRESOURCES: dict[tuple[str, str], Handler] = {
    **{
        (name, verb): _answer if part.kind else _connect
        for name, part in SUBRESOURCES.items()
        for verb in part.verbs
    },
    ("status", "get"): lists.get,
    ("status", "update"): _update,
    ("status", "patch"): _patch,
    ("finalize", "update"): _update,
    ("scale", "get"): _get_scale,
    ("scale", "update"): _put_scale,
    ("scale", "patch"): _patch_scale,
}
