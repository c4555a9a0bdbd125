"""Verbs: which function answers a request for a resource or one of its subresources.

PATCH has four forms, each ending in an ordinary update (or, for apply, perhaps a create).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from starlette.types import Send

from berth.kube.objects import RawObject
from berth.kube.well_known import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, PATCH_TYPES, STRATEGIC_PATCH
from berth.server import errors, patch, protobuf
from berth.server.fields import mapping
from berth.server.http import bodies, lists, watching
from berth.server.http.replies import ListBody, Reply, of_object, of_record
from berth.server.http.requests import ApiRequest
from berth.server.registry import deletion, metadata, writes
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.strategy import SUBRESOURCES
from berth.server.registry.writes import Write

Handler = Callable[[ApiRequest], Awaitable[Reply]]

_BODY_TYPES = frozenset({"", *errors.TEXT_TYPES, "text/yaml", "*/*", protobuf.CONTENT_TYPE})
_STEP = 100  # objects deleted between two looks at other requests


async def handle(request: ApiRequest, send: Send) -> Reply | None:
    """Answer a request; None if the answer was streamed."""
    verb, address, resource = request.verb, request.address, request.endpoint.resource
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
        return await _answered(handler, request)
    request.notice = request.endpoint.strategy.deprecated
    if verb == "create" and not resource.stored:
        return await _answer(request)
    if verb not in resource.verbs:
        raise errors.method_not_allowed()
    if verb == "watch":
        await watching.watch(request, send)
        return None
    if resource.namespaced and not address.namespace and verb == "create":
        raise errors.method_not_allowed()
    if (verb == "create" and address.name) or (verb in ("update", "patch") and not address.name):
        raise errors.method_not_allowed()
    return await _answered(_VERBS[verb], request)


async def _answered(handler: Handler, request: ApiRequest) -> Reply:
    """The answer; a refusal that is due to a write under way is given once others can see that write, too."""
    try:
        return await handler(request)
    except errors.StatusError as error:
        name = request.address.name or (error.details or {}).get("name", "")
        waiting = request.endpoint.bucket.waiting((request.address.namespace, name))
        if waiting is not None:
            await asyncio.wait((waiting,))
        raise


async def _body_of(request: ApiRequest) -> bytes:
    """The body of a request, if it is an object, or a patch, of a type that this resource takes."""
    if request.verb == "patch":
        custom = request.endpoint.strategy.custom
        supported = [name for name in PATCH_TYPES if name != STRATEGIC_PATCH or not custom]
        if request.content_type not in supported:
            raise errors.unsupported_media_type(supported)
    elif request.content_type not in _BODY_TYPES:
        raise errors.unsupported_media_type()
    return await bodies.read_body(request)


def _object_in(request: ApiRequest, body: bytes) -> RawObject:
    """The object in a request's body."""
    return bodies.without_nulls_like_go(request, body, bodies.decode_body(request, body))


def _own_object_in(request: ApiRequest, body: bytes) -> RawObject:
    """The object in a request's body, of the endpoint's own kind and checked against its schema."""
    obj = _object_in(request, body)
    metadata.check_envelope(request.registry, request.endpoint, obj)
    return bodies.check(request, obj)


async def _write(request: ApiRequest, body: bytes, propose: Callable[[], Write]) -> Reply:
    write = await _written(request, body, propose)
    return of_record(request, write.record, write.status)


async def _written(request: ApiRequest, body: bytes, propose: Callable[[], Write]) -> Write:
    """A write, committed; proposing it takes time by the sizes of the body and of what it changes."""
    endpoint, size = request.endpoint, len(body)
    record = endpoint.bucket.newest(request.key)
    if record is not None:
        size += len(record.data)
    write = await request.state.workers.write(size * endpoint.strategy.weight, propose)
    await _committed(write.done)
    return write


async def _committed(done: asyncio.Future[None] | None) -> None:
    if done is not None:
        await done


async def _create(request: ApiRequest) -> Reply:
    body = await _body_of(request)
    intent = request.intent

    def propose() -> Write:
        obj = _own_object_in(request, body)
        return writes.create(request.registry, request.endpoint, obj, request.address.namespace, intent)

    return await _write(request, body, propose)


async def _answer(request: ApiRequest) -> Reply:
    """Answer what is created but not stored: an object of such a kind, or one sent to a subresource."""
    body = await _body_of(request)

    def sent() -> RawObject:
        if request.address.subresource:
            return bodies.check_part(request, _object_in(request, body))
        return _own_object_in(request, body)

    obj = await request.state.workers.run(len(body), sent)
    answer, done = request.endpoint.strategy.answer(request.registry, obj, request.key, request.intent)
    await _committed(done)
    return of_object(answer, 201)


async def _update(request: ApiRequest) -> Reply:
    body, key, intent = await _body_of(request), request.key, request.intent
    registry, endpoint = request.registry, request.endpoint

    def propose() -> Write:
        obj = _own_object_in(request, body)
        metadata.settle_key(endpoint, metadata.own_metadata(obj), key)
        if endpoint.strategy.create_on_update and endpoint.bucket.newest(key) is None:
            require(registry, request.user, request.attributes("create"))
            return writes.create(registry, endpoint, obj, key[0], intent, was_missing=True)
        return writes.update(registry, endpoint, writes.current(endpoint, key), obj, intent)

    return await _write(request, body, propose)


async def _patch(request: ApiRequest) -> Reply:
    body = await _body_of(request)
    proposed = _server_side_apply if request.content_type == APPLY_PATCH else _patched
    return await _write(request, body, lambda: proposed(request, body))


async def _delete_options(request: ApiRequest) -> RawObject:
    body = await bodies.read_body(request)
    given = None
    if body.strip():
        given = await request.state.workers.run(len(body), lambda: bodies.decode_body(request, body))
    options = deletion.options_of(given, request.query)
    undecided = options.get("propagationPolicy") is None and options.get("orphanDependents") is None
    if undecided and request.endpoint.strategy.orphans_warning:
        request.warnings.append(request.endpoint.strategy.orphans_warning)
    return options


async def _delete(request: ApiRequest) -> Reply:
    options, endpoint = await _delete_options(request), request.endpoint
    record = writes.current(endpoint, request.key)
    write = deletion.delete(request.registry, endpoint, record, options)
    await _committed(write.done)
    gone = endpoint.bucket.newest(record.key) is None or bool(options.get("dryRun"))
    if gone and not endpoint.strategy.returns_deleted:
        return of_object(errors.deleted_status(endpoint.resource, record.key[1], record.uid))
    return of_record(request, write.record)


async def _delete_collection(request: ApiRequest) -> Reply:
    options, endpoint = await _delete_options(request), request.endpoint
    match = lists.match_of(request)
    deleted, waiting = [], None
    matching = [
        record.key for record in endpoint.bucket.newest_in(request.address.namespace) if match.matches(record)
    ]
    for count, key in enumerate(matching, 1):
        record = endpoint.bucket.newest(key)
        if record is not None:
            write = deletion.delete(request.registry, endpoint, record, options)
            deleted.append(write.record)
            waiting = write.done or waiting
        if count % _STEP == 0:
            await asyncio.sleep(0)
    await _committed(waiting)
    head = lists.head_of(endpoint, {"resourceVersion": str(request.registry.store.rv)})
    return Reply(200, ListBody(head, [endpoint.data(record) for record in deleted]))


# --- patches ---------------------------------------------------------------------------------------


def _changed(request: ApiRequest, body: bytes, value: object, obj: RawObject) -> RawObject:
    """The object after a JSON, merge or strategic merge patch: `value`, as `body` has it."""
    endpoint = request.endpoint
    if request.content_type == JSON_PATCH:
        changed = patch.json_patch(obj, value)
    elif request.content_type == STRATEGIC_PATCH and endpoint.schema is not None:
        changed = patch.strategic_merge_patch(obj, value, endpoint.schema)
    elif request.content_type in (MERGE_PATCH, STRATEGIC_PATCH):
        changed = patch.merge_patch(obj, value)
    else:
        raise errors.unsupported_media_type(PATCH_TYPES)
    return bodies.without_nulls_like_go(request, body, changed)


def _patched(request: ApiRequest, body: bytes) -> Write:
    """Patch the newest state of an object through its main endpoint or a subresource."""
    value, endpoint = bodies.decode_value(request, body), request.endpoint
    record = writes.current(endpoint, request.key)
    obj = _changed(request, body, value, endpoint.object(record))
    _check_identity(request, obj)
    meta = metadata.own_metadata(obj)
    if not meta.get("resourceVersion"):
        meta["resourceVersion"] = str(record.rv)
    return writes.update(request.registry, endpoint, record, bodies.check(request, obj), request.intent)


def _check_identity(request: ApiRequest, obj: RawObject) -> None:
    resource = request.endpoint.resource
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        if obj.get(field) != wanted:
            raise errors.bad_request(
                f"the {field} in the patched object ({obj.get(field)}) does not match the expected {field} "
                f"({wanted})"
            )
    name, own_name = mapping(obj, "metadata").get("name"), request.address.name
    if name != own_name:
        raise errors.bad_request(
            f"the name of the object ({name}) does not match the name on the URL ({own_name})"
        )


# --- server-side apply ------------------------------------------------------------------------------


def _server_side_apply(request: ApiRequest, body: bytes) -> Write:
    registry, endpoint, subresource = request.registry, request.endpoint, request.address.subresource
    manager = request.query.get("fieldManager", "")
    if not manager:
        raise errors.bad_request(
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: '
            "is required for apply patch"
        )
    config = _own_object_in(request, body)
    meta = metadata.own_metadata(config)
    metadata.settle_key(endpoint, meta, request.key)
    if not subresource and endpoint.strategy.status_apart:
        config.pop("status", None)
    record = endpoint.bucket.newest(request.key)
    if record is None and subresource:
        raise errors.not_found(endpoint.resource, request.address.name)
    if record is not None and meta.get("resourceVersion") not in (None, "", str(record.rv)):
        raise errors.conflict(endpoint.resource, request.address.name)
    meta.pop("resourceVersion", None)
    live = endpoint.object(record) if record is not None else None
    if endpoint.schema is None:
        merged = patch.merge_patch(live or {}, config)
    else:
        merged = patch.apply(
            live,
            config,
            endpoint.schema,
            manager=manager,
            now=registry.timestamp(),
            subresource=subresource,
            force=request.flag("force"),
            reset=endpoint.strategy.reset_fields(subresource),
        )
    intent = replace(request.intent, tracked=True)  # `fieldManager` is its manager
    if record is None:
        require(registry, request.user, request.attributes("create"))
        return writes.create(registry, endpoint, merged, request.key[0], intent, was_missing=True)
    merged["metadata"]["resourceVersion"] = str(record.rv)
    return writes.update(registry, endpoint, record, merged, intent)


# --- subresources -----------------------------------------------------------------------------------


async def _get_scale(request: ApiRequest) -> Reply:
    return of_object(writes.scale_of(request.endpoint, lists.committed(request)))


async def _set_scale(request: ApiRequest) -> Reply:
    body, endpoint = await _body_of(request), request.endpoint

    def propose() -> Write:
        record = writes.current(endpoint, request.key)
        if request.verb == "patch":
            value = bodies.decode_value(request, body)
            scale = _changed(request, body, value, writes.scale_of(endpoint, record))
        else:
            scale = _object_in(request, body)
        checked = bodies.check_part(request, scale)
        return writes.update_scale(request.registry, endpoint, record, checked, request.intent)

    write = await _written(request, body, propose)
    return of_object(writes.scale_of(endpoint, write.record))


async def _connect(request: ApiRequest) -> Reply:
    obj = request.endpoint.object(lists.committed(request))
    text = request.endpoint.strategy.connect(obj, request.address.subresource, request.query)
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
    ("scale", "update"): _set_scale,
    ("scale", "patch"): _set_scale,
}
