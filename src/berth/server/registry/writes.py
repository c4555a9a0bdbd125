"""Creating and updating: from a decoded object to a proposed write.

Everything here is synchronous: between looking at the newest state and proposing the change no
other request gets a turn, so a check made is a check that holds.  What is large is judged in a thread of
its own, and there the proposal, which is made in the event loop's, is refused if the object is not what
it was.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

from berth.kube.objects import Key, LabelSelector, RawObject
from berth.kube.schema import budget
from berth.kube.selectors import parse_label_selector
from berth.server import errors, patch
from berth.server.fields import at, mapping
from berth.server.registry import metadata, quotas
from berth.server.registry.checks import at_least, copy_field, decode_as, invalid
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.registry.users import Intent
from berth.server.storage.bucket import Record, decode, encode

_WHATEVER = object()  # there may be in the place of an object


class OvertakenError(Exception):
    """Another write came between looking at an object and proposing its new state; look again."""


@dataclass(slots=True)
class Write:
    """A write that was proposed. `done` is None if there is nothing to wait for."""

    record: Record
    done: asyncio.Future[None] | None = None
    status: int = 200


def create(
    registry: Registry,
    endpoint: Endpoint,
    obj: RawObject,
    namespace: str,
    intent: Intent,
    *,
    was_missing: bool = False,
) -> Write:
    """Propose a new object; `obj` was checked against its schema and is used up.

    Raises:
        StatusError: it may not be created.
        OvertakenError: `was_missing` when it was decided to create it, and is there now.
    """
    if endpoint.keeper is not None:
        kept = endpoint.strategy.to_stored(obj)
        return create(registry, endpoint.keeper, kept, namespace, intent, was_missing=was_missing)
    resource, strategy = endpoint.resource, endpoint.strategy
    meta = _begin_metadata(registry, endpoint, obj, namespace, intent)
    if strategy.status_apart and not strategy.status_on_create:
        strategy.begin_status(obj)
    strategy.prepare_input(registry, obj, None)
    first = _creators(endpoint, obj, intent)
    found = strategy.judge(registry, obj, None)
    name = meta.get("name") or ""
    if found:
        raise errors.invalid(resource, name, found)
    strategy.authorize_write(registry, obj, None, intent.user)
    key = metadata.key_of(endpoint, meta)
    if endpoint.bucket.newest(key) is not None:
        if was_missing:
            raise OvertakenError
        raise errors.already_exists(resource, name)
    strategy.final_admission(registry, obj, None)
    if first is not None:
        meta["managedFields"] = [first]
    write = _store(registry, endpoint, key, obj, intent, None)
    write.status = 201
    return write


def _begin_metadata(
    registry: Registry, endpoint: Endpoint, obj: RawObject, namespace: str, intent: Intent
) -> RawObject:
    """The metadata of a new object with where it is, a name, and what the server decides about it."""
    meta = metadata.own_metadata(obj)
    metadata.prune(meta)
    if meta.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    meta.pop("resourceVersion", None)
    metadata.settle_namespace(endpoint, meta, namespace)
    if endpoint.resource.namespaced:
        _check_namespace(registry, endpoint, namespace, meta.get("name") or "")
    metadata.new_name(endpoint, meta)
    managed = meta.get("managedFields") if intent.tracked else None
    metadata.begin(endpoint, meta, registry.new_uid(), registry.timestamp())
    if managed:
        meta["managedFields"] = managed
    return meta


def _check_namespace(registry: Registry, endpoint: Endpoint, namespace: str, name: str) -> None:
    """Refuse to create in a namespace that is missing (404) or going away (403).

    Upstream: plugin/pkg/admission/namespace/lifecycle.
    """
    record = registry.bucket("namespaces").newest(("", namespace))
    if record is None:
        raise errors.not_found(("namespaces", ""), namespace)
    if record.fields.get("status.phase") == "Terminating":
        why = f"unable to create new content in namespace {namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise errors.forbidden(endpoint.resource, name, why, [cause])


def current(endpoint: Endpoint, key: Key) -> Record:
    """The newest state of an object, or 404."""
    record = endpoint.bucket.newest(key)
    if record is None:
        raise errors.not_found(endpoint.resource, key[1])
    return record


def update(registry: Registry, endpoint: Endpoint, record: Record, obj: RawObject, intent: Intent) -> Write:
    """Propose a new state of an existing object; `obj` is used up.

    Raises:
        StatusError: the update is stale (409) or not allowed.
    """
    if endpoint.keeper is not None:
        return update(registry, endpoint.keeper, record, endpoint.strategy.to_stored(obj), intent)
    strategy = endpoint.strategy
    old = decode(record.data)
    meta = metadata.own_metadata(obj)
    metadata.prune(meta)
    _check_fresh(endpoint, meta, record)
    if intent.subresource == "status":
        obj = _status_only(endpoint, obj, old)
        meta = obj["metadata"]
    elif strategy.status_apart or ("status" in endpoint.resource.subresources and "status" not in obj):
        copy_field("status", old, obj)
    managed = meta.get("managedFields")
    metadata.carry_over(meta, old["metadata"])
    found = metadata.check_update(meta, old["metadata"])
    if intent.subresource:
        found += strategy.judge_subresource(registry, obj, old)
    else:
        strategy.prepare_input(registry, obj, old)
        found += strategy.judge(registry, obj, old)
    if found:
        raise errors.invalid(endpoint.resource, record.key[1], found)
    strategy.authorize_write(registry, obj, old, intent.user)
    if strategy.generation and intent.subresource != "status" and _spec_changed(obj, old):
        meta["generation"] = (old["metadata"].get("generation") or 0) + 1
    if managed is None and "managedFields" in old["metadata"]:
        meta["managedFields"] = old["metadata"]["managedFields"]
    if obj == old:
        return unchanged(endpoint, record)
    if not intent.subresource:
        strategy.final_admission(registry, obj, old)
    obj = _tracked(endpoint, old, obj, intent, registry.timestamp())
    return _store(registry, endpoint, record.key, obj, intent, record)


def _check_fresh(endpoint: Endpoint, meta: RawObject, record: Record) -> None:
    resource, name = endpoint.resource, record.key[1]
    version = meta.get("resourceVersion")
    if version in (None, "", "0"):
        if endpoint.strategy.needs_version:
            problem = invalid("metadata.resourceVersion", 0, "must be specified for an update")
            raise errors.invalid(resource, name, [problem])
    elif version != str(record.rv):
        raise errors.conflict(resource, name)
    uid = meta.get("uid")
    if uid and uid != record.uid:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.uid}"
        raise errors.conflict(resource, name, why)


def _status_only(endpoint: Endpoint, obj: RawObject, old: RawObject) -> RawObject:
    """A write to the status subresource: the status, and what the kind lets it change of the metadata."""
    given = obj["metadata"]
    merged = {**old, "metadata": dict(old["metadata"])}
    copy_field("status", obj, merged)
    for name in endpoint.strategy.status_metadata:
        copy_field(name, given, merged["metadata"])
    if "managedFields" in given:
        merged["metadata"]["managedFields"] = given["managedFields"]
    return merged


def _spec_changed(obj: RawObject, old: RawObject) -> bool:
    fields = (obj.keys() | old.keys()) - {"metadata", "status"}
    return any(obj.get(name, _WHATEVER) != old.get(name, _WHATEVER) for name in fields)


# --- storing --------------------------------------------------------------------------------------


def _creators(endpoint: Endpoint, obj: RawObject, intent: Intent) -> RawObject | None:
    """The managed fields of who creates an object: what they and the defaults say, not what admission adds.

    Upstream: createHandler in apiserver/pkg/endpoints/handlers/create.go.
    """
    if intent.tracked or endpoint.schema is None:
        return None
    apart = endpoint.strategy.status_apart
    now = obj["metadata"]["creationTimestamp"]
    return patch.creator_entry(obj, endpoint.schema, intent.manager, now, without_status=apart)


def _tracked(endpoint: Endpoint, old: RawObject, obj: RawObject, intent: Intent, now: str) -> RawObject:
    """The object with its managed fields brought up to date."""
    if intent.tracked or endpoint.schema is None:
        return obj
    return patch.track_update(
        old,
        obj,
        endpoint.schema,
        manager=intent.manager,
        now=now,
        subresource=intent.subresource,
        reset=endpoint.strategy.reset_fields(intent.subresource),
    )


def _store(
    registry: Registry,
    endpoint: Endpoint,
    key: Key,
    obj: RawObject,
    intent: Intent,
    instead_of: object = _WHATEVER,
) -> Write:
    """Propose a state in the place of another record, or of None."""
    budget.lift()
    admitted = instead_of is not _WHATEVER and not intent.subresource and not intent.own
    charge = partial(quotas.charge, registry, endpoint, key, obj, is_admitted=admitted)
    if intent.dry_run:
        registry.store.in_turn(charge)
        # The outcome of a dry run has no version of its own.
        version = int(obj["metadata"].get("resourceVersion") or 0)
        return Write(Record(key, version, encode(obj), obj["metadata"]["uid"], {}, {}))

    def propose() -> Write:
        if instead_of is not _WHATEVER and endpoint.bucket.newest(key) is not instead_of:
            raise OvertakenError
        if instead_of is None and endpoint.resource.namespaced:
            _check_namespace(registry, endpoint, key[0], key[1])
        if _may_go(endpoint, obj):
            return remove(registry, endpoint, key, obj)
        settle = charge()
        record, done = registry.store.put(endpoint.bucket, key, obj)
        settle()
        endpoint.strategy.after_write(registry, obj)
        return Write(record, done)

    return registry.store.in_turn(propose)


def _may_go(endpoint: Endpoint, obj: RawObject) -> bool:
    """Whether an object that is being deleted has nothing left to wait for."""
    metadata = obj["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not endpoint.strategy.has_content(obj)
    )


def remove(registry: Registry, endpoint: Endpoint, key: Key, obj: RawObject) -> Write:
    """Propose that an object goes, whatever its finalizers say."""
    settle = quotas.charge(registry, endpoint, key, None)
    record, done = registry.store.remove(endpoint.bucket, key, obj)
    settle()
    endpoint.strategy.after_remove(registry, endpoint, obj)
    return Write(record, done)


def unchanged(endpoint: Endpoint, record: Record) -> Write:
    """A write that leaves the newest state as it is, which may still be on its way to the disk."""
    return Write(record, endpoint.bucket.waiting(record.key))


def put_as_is(registry: Registry, endpoint: Endpoint, key: Key, obj: RawObject) -> Write:
    """Propose a state the server itself came to; nothing is checked."""
    return _store(registry, endpoint, key, obj, Intent(manager=""))


# --- the scale subresource: the number of replicas of a workload, whatever else it holds


def scale_of(endpoint: Endpoint, record: Record) -> RawObject:
    obj, strategy = endpoint.object(record), endpoint.strategy
    replicas, current, selector = (at(obj, *_steps(path)) if path else None for path in strategy.scale_paths)
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: RawObject = {"replicas": current or 0}
    if isinstance(selector, dict):
        selector = {"matchLabels": selector} if strategy.plain_selector else selector
        parsed = parse_label_selector(decode_as(selector, LabelSelector))
        status["selector"] = ",".join(sorted(map(str, parsed.requirements)))
    elif isinstance(selector, str):
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: obj["metadata"][name] for name in kept if name in obj["metadata"]},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _steps(path: str) -> list[str]:
    return path.lstrip(".").split(".")


def update_scale(
    registry: Registry, endpoint: Endpoint, record: Record, scale: RawObject, intent: Intent
) -> Write:
    own_name, given = record.key[1], mapping(scale, "metadata")
    metadata.settle_name(given, own_name)
    version = given.get("resourceVersion")
    if version and version != str(record.rv):
        raise errors.conflict(endpoint.resource, own_name)
    replicas = mapping(scale, "spec").get("replicas") or 0
    if wrong := list(at_least("spec.replicas", replicas, 0)):
        raise errors.invalid(("Scale", "autoscaling"), own_name, wrong)
    obj = endpoint.object(record)
    *outer, last = _steps(endpoint.strategy.scale_paths[0])
    place = obj
    for name in outer:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[last] = replicas
    return update(registry, endpoint, record, obj, intent)
