"""Verbs: which function answers a request for a resource or one of its subresources."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from berth.kube.objects import Key, RawObject
from berth.kube.well_known import APPLY_PATCH
from berth.server import errors, protobuf
from berth.server.http import field_validation, lists, patching, watching
from berth.server.http.bodies import decode_body, read_body, without_nulls_like_go
from berth.server.http.replies import ListBody, Reply, of_object, of_record
from berth.server.http.requests import ApiRequest, Send
from berth.server.http.state import ServerState
from berth.server.registry import deletion, metadata, scale, writes
from berth.server.registry.kinds.access.roles import require
from berth.server.registry.kinds.access.service_accounts import request_token
from berth.server.registry.kinds.pods.bindings import bind
from berth.server.registry.kinds.pods.evictions import evict
from berth.server.registry.kinds.pods.pods import check_container
from berth.server.registry.resources import SUBRESOURCES
from berth.server.registry.strategy import Endpoint
from berth.server.registry.writes import Intent, Write

Handler = Callable[[ServerState, ApiRequest, Endpoint], Awaitable[Reply]]

_BODY_TYPES = frozenset(
    {"", "application/json", "application/yaml", "text/yaml", "*/*", protobuf.CONTENT_TYPE}
)
_STEP = 100  # objects deleted between two looks at other requests
_HOLLOW = "hollow nodes run no containers, so there is"
_ASKED = {
    "log": "no log",
    "attach": "nothing to attach to",
    "exec": "nothing to execute in",
    "portforward": "nothing to forward to",
}


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
    return (
        obj if endpoint.strategy.custom or not _may_have_null(request, body) else without_nulls_like_go(obj)
    )


def _may_have_null(request: ApiRequest, body: bytes) -> bool:
    return b"null" in body or "yaml" in request.content_type  # which has many words for it


def _own_object_in(state: ServerState, request: ApiRequest, endpoint: Endpoint, body: bytes) -> RawObject:
    """The same for an object of the endpoint's own kind, checked against its schema."""
    obj = _object_in(request, endpoint, body)
    metadata.check_envelope(endpoint, obj, state.registry.kinds)
    return field_validation.check(request, endpoint, obj)


async def _committed(write: Write | None) -> None:
    if write is not None and write.done is not None:
        await write.done


async def _finish(request: ApiRequest, endpoint: Endpoint, write: Write) -> Reply:
    if write.done is not None:
        await write.done
    return of_record(request, endpoint, write.record, write.status)


async def _create(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body = await _body_of(request)
    intent = Intent(request.manager, request.dry_run, user=request.user)

    def propose() -> Write:
        obj = _own_object_in(state, request, endpoint, body)
        return writes.create(state.registry, endpoint, obj, request.address.namespace, intent)

    size = len(body) * endpoint.strategy.weight
    return await _finish(request, endpoint, await state.workers.write(size, propose))


async def _answer(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    """What is created but not stored."""
    body = await _body_of(request)
    obj = await state.workers.run(len(body), lambda: _own_object_in(state, request, endpoint, body))
    answer, done = endpoint.strategy.answer(
        state.registry, obj, request.address.namespace, user=request.user, dry_run=request.dry_run
    )
    if done is not None:
        await done
    return of_object(answer, 201)


async def _update(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body = await _body_of(request)
    address = request.address
    key = (address.namespace, address.name)
    intent = Intent(request.manager, request.dry_run, address.subresource, user=request.user)

    def propose() -> Write:
        obj = _own_object_in(state, request, endpoint, body)
        metadata.settle_key(endpoint, metadata.own_metadata(obj), key)
        if endpoint.strategy.create_on_update and endpoint.bucket.newest(key) is None:
            require(state.registry, request.user, request.attributes("create"))
            return writes.create(state.registry, endpoint, obj, address.namespace, intent, was_missing=True)
        return writes.update(state.registry, endpoint, writes.current(endpoint, key), obj, intent)

    size = (len(body) + _size_of(endpoint, key)) * endpoint.strategy.weight
    return await _finish(request, endpoint, await state.workers.write(size, propose))


def _size_of(endpoint: Endpoint, key: Key) -> int:
    """Of the object that a write changes."""
    record = endpoint.bucket.newest(key)
    return len(record.data) if record is not None else 0


async def _patch(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    kind = patching.check_type(request, endpoint)
    body = await read_body(request)
    key = (request.address.namespace, request.address.name)

    def propose() -> Write:
        if kind == APPLY_PATCH:
            return patching.server_side_apply(state, request, endpoint, body)
        change = patching.change_of(request, kind, body, endpoint)
        return patching.apply_change(state, request, endpoint, key, change)

    size = (len(body) + _size_of(endpoint, key)) * endpoint.strategy.weight
    return await _finish(request, endpoint, await state.workers.write(size, propose))


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
    address, resource = request.address, endpoint.resource
    record = writes.current(endpoint, (address.namespace, address.name))
    write = deletion.delete(state.registry, endpoint, record, options)
    await _committed(write)
    gone = endpoint.bucket.newest(record.key) is None or bool(options.get("dryRun"))
    if gone and not endpoint.strategy.returns_deleted:
        return of_object(errors.deleted_status(address.name, resource.group, resource.plural, record.uid))
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


# --- subresources -----------------------------------------------------------------------------------


async def _get_scale(_: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    return of_object(scale.of(endpoint, lists.committed(request, endpoint)))


async def _put_scale(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body = await _body_of(request)
    return await _scaled(state, request, endpoint, len(body), lambda _: _object_in(request, endpoint, body))


async def _patch_scale(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    kind = patching.check_type(request, endpoint)
    body = await read_body(request)

    def change(scaled: RawObject) -> RawObject:
        return patching.change_of(request, kind, body, endpoint)(scaled)

    return await _scaled(state, request, endpoint, len(body), change)


async def _scaled(
    state: ServerState, request: ApiRequest, endpoint: Endpoint, size: int, change: patching.Change
) -> Reply:
    address = request.address
    key = (address.namespace, address.name)
    intent = Intent(request.manager, request.dry_run, address.subresource, user=request.user)

    def propose() -> Write:
        record = writes.current(endpoint, key)
        obj = _part(state, request, change(scale.of(endpoint, record)))
        return scale.update(state.registry, endpoint, record, obj, intent)

    write = await state.workers.write(size + _size_of(endpoint, key), propose)
    await _committed(write)
    return of_object(scale.of(endpoint, write.record))


def _part(state: ServerState, request: ApiRequest, obj: RawObject) -> RawObject:
    """What was sent to a subresource that has a kind of its own, checked against that kind's schema."""
    part = SUBRESOURCES[request.address.subresource]
    gvk = (part.group, part.version, part.kind)
    return field_validation.check_as(request, state.registry.schemas, gvk, obj)


async def _bind(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    return await _act(partial(bind, user=request.user), state, request, endpoint)


async def _evict(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    return await _act(evict, state, request, endpoint)


async def _act(
    act: Callable[..., Write | None], state: ServerState, request: ApiRequest, endpoint: Endpoint
) -> Reply:
    """Do to a pod what was sent to one of its subresources."""
    body = await _body_of(request)

    def part() -> RawObject:
        obj = _object_in(request, endpoint, body)
        if act is evict and obj.get("apiVersion") == "policy/v1beta1":  # the same in its older version
            obj["apiVersion"] = "policy/v1"
        return _part(state, request, obj)

    obj, address = await state.workers.run(len(body), part), request.address
    await _committed(act(state.registry, address.namespace, address.name, obj, dry_run=request.dry_run))
    return of_object(errors.success(), 201)


async def _token(state: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    body, address = await _body_of(request), request.address
    obj = await state.workers.run(
        len(body), lambda: _part(state, request, _object_in(request, endpoint, body))
    )
    return of_object(request_token(state.registry, address.namespace, address.name, obj), 201)


async def _enter(_: ServerState, request: ApiRequest, endpoint: Endpoint) -> Reply:
    """What would be asked of a container: what upstream says of the pod, or that there is none."""
    address = request.address
    pod = endpoint.object(lists.committed(request, endpoint))
    wanted = request.query.get("container", "")
    if address.subresource != "portforward":
        check_container(pod, wanted)
    if not pod["spec"].get("nodeName"):
        if address.subresource == "log":
            return Reply(200, b"", b"text/plain")
        raise errors.bad_request(f"pod {address.name} does not have a host assigned")
    why = f"{_HOLLOW} {_ASKED[address.subresource]}"
    raise errors.StatusError(501, "NotImplemented", why)


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
    ("status", "get"): lists.get,
    ("status", "update"): _update,
    ("status", "patch"): _patch,
    ("finalize", "update"): _update,
    ("scale", "get"): _get_scale,
    ("scale", "update"): _put_scale,
    ("scale", "patch"): _patch_scale,
    ("binding", "create"): _bind,
    ("eviction", "create"): _evict,
    **{(name, verb): _enter for name in _ASKED for verb in SUBRESOURCES[name].verbs},
    ("token", "create"): _token,
}
