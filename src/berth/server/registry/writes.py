"""Creating and updating: from a decoded object to a proposed write.

Everything here is synchronous: between looking at the newest state and proposing the change no
other request gets a turn, so a check made is a check that holds.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from berth.kube.annotations import AFFINITY_ANNOTATION, IN_ANNOTATION
from berth.kube.objects import Pod, RawObject
from berth.kube.validation import FieldError, validate_pod
from berth.server import errors, patch
from berth.server.patch import created_fields
from berth.server.registry import admission, kind_rules, metadata, validation, wire_defaults
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.decoding import decode_as
from berth.server.registry.kinds import pod_groups, pods, volumes
from berth.server.registry.kinds.karmada import admission as karmada
from berth.server.storage.history import Key, Record
from berth.server.storage.store import decode, encode

_UNCONDITIONAL = "must be specified for an update"
# Kinds that upstream refuses to update without a resourceVersion.
_CONDITIONAL_ONLY = frozenset({"Lease", "CustomResourceDefinition", "EndpointSlice"})
_STATUS_KEEPS_LABELS = frozenset({"Pod", "Node"})
_KEPT_STATUS_ON_CREATE = frozenset({"Node", "Namespace"})


@dataclass(frozen=True, slots=True)
class Intent:
    """Who writes, through which subresource, and whether in earnest."""

    manager: str
    dry_run: bool = False
    subresource: str = ""
    tracked: bool = False  # managed fields are already right: the write is an apply


@dataclass(frozen=True, slots=True)
class Write:
    """A write that was proposed. `done` is None if there is nothing to wait for."""

    record: Record
    done: asyncio.Future[None] | None = None
    status: int = 200


# --- create ---------------------------------------------------------------------------------------


def create(core: Core, endpoint: Endpoint, obj: RawObject, namespace: str, intent: Intent) -> Write:
    """Propose a new object; `obj` was checked against its schema and is used up.

    Raises:
        StatusError: it may not be created.
    """
    if endpoint.keep is not None:
        return create(core, kind_rules.stored(core, endpoint), endpoint.keep(obj), namespace, intent)
    meta = metadata.own_metadata(obj)
    if meta.get("resourceVersion"):
        raise errors.bad_request("resourceVersion should not be set on objects to be created")
    meta.pop("resourceVersion", None)
    metadata.settle_namespace(endpoint, meta, namespace)
    resource = endpoint.resource
    if resource.namespaced:
        admission.check_namespace(core, endpoint, namespace, meta.get("name") or "")
    metadata.new_name(endpoint, meta)
    managed = meta.get("managedFields") if intent.tracked else None
    metadata.begin(endpoint, meta, core.new_uid(), core.timestamp())
    if managed:
        meta["managedFields"] = managed
    if resource.status_apart and resource.kind not in _KEPT_STATUS_ON_CREATE:
        _begin_status(endpoint, obj)
    found = _prepare(core, endpoint, obj, None)
    name = meta.get("name") or ""
    if found:
        raise errors.invalid(resource.kind, resource.group, name or "", found)
    key = metadata.key_of(endpoint, meta)
    if endpoint.bucket.newest(key) is not None:
        raise errors.already_exists(resource.plural, resource.group, name)
    kind_rules.before_create(core, endpoint, obj)
    obj = _tracked(core, endpoint, None, obj, intent)
    return replace(_store(core, endpoint, key, obj, intent), status=201)


def _begin_status(endpoint: Endpoint, obj: RawObject) -> None:
    if endpoint.crd is not None:
        obj.pop("status", None)
    else:
        obj["status"] = kind_rules.first_status(endpoint.resource)


def _prepare(core: Core, endpoint: Endpoint, obj: RawObject, old: RawObject | None) -> list[FieldError]:
    """Default, admit and judge an object."""
    resource, gates = endpoint.resource, core.settings.gates
    if endpoint.crd is not None:
        if endpoint.schema is not None:
            endpoint.schema.apply_defaults(obj)
        karmada.prepare(core, resource, obj, old)
    else:
        wire_defaults.apply(resource.group, resource.kind, obj)
    if resource.kind != "Pod" or resource.group:
        kind_rules.prepare(endpoint, obj, old)
        if old is None:
            volumes.admit(core, resource, obj)
        found = validation.problems(endpoint, obj, gates)
        if old is None:
            return [*found, *pod_groups.problems(resource, obj)]
        return [*found, *validation.update_problems(endpoint, obj, old)]
    return _prepare_pod(core, obj, old)


def _prepare_pod(core: Core, pod: RawObject, old: RawObject | None) -> list[FieldError]:
    gates = core.settings.gates
    pods.gated(pod, old, gates)
    if old is None:
        wire_defaults.admit_pod(pod["spec"])
        admission.resolve_priority(core, pod)
        admission.copy_topology(core, pod)
        view = pods.with_label_keys(pod)
        pods.begin_status(pod)
        found = validate_pod(view, gates)
        if not found:
            admission.check_anti_affinity(view)
        return found
    found = pods.check_update(pod, old)
    if found:
        return found
    view = decode_as(pod, Pod)
    annotations = (view.metadata.annotations or {}).get(AFFINITY_ANNOTATION)
    before = (old["metadata"].get("annotations") or {}).get(AFFINITY_ANNOTATION)
    found = validate_pod(view, gates)
    if annotations == before:  # stored by a server that asked for less: it must be able to go
        found = [error for error in found if not error.field.startswith(IN_ANNOTATION)]
    if not found and (annotations != before or pod["spec"] != old["spec"]):
        admission.check_anti_affinity(view)
    return found


# --- update ---------------------------------------------------------------------------------------


def current(endpoint: Endpoint, key: Key) -> Record:
    """The newest state of an object, or 404."""
    record = endpoint.bucket.newest(key)
    if record is None:
        resource = endpoint.resource
        raise errors.not_found(resource.plural, resource.group, key[1])
    return record


def update(core: Core, endpoint: Endpoint, record: Record, obj: RawObject, intent: Intent) -> Write:
    """Propose a new state of an existing object; `obj` is used up.

    Raises:
        StatusError: the update is stale (409) or not allowed.
    """
    if endpoint.keep is not None:
        return update(core, kind_rules.stored(core, endpoint), record, endpoint.keep(obj), intent)
    old = decode(record.data)
    meta = metadata.own_metadata(obj)
    _check_fresh(endpoint, meta, old["metadata"], record)
    if intent.subresource == "status":
        obj = _status_only(endpoint, obj, old)
        meta = obj["metadata"]
    elif intent.subresource != "finalize" and _keeps_status(endpoint, obj):
        _keep(obj, old, "status")
    managed = meta.get("managedFields")
    metadata.carry_over(meta, old["metadata"])
    found = metadata.check_update(meta, old["metadata"])
    if not intent.subresource:
        found += _prepare(core, endpoint, obj, old)
    elif endpoint.crd is not None and endpoint.schema is not None:
        found += endpoint.schema.validate(obj)
    elif intent.subresource == "status" and endpoint.crd is None:
        found += kind_rules.prepare_status(endpoint, obj, old, core.timestamp())
    if found:
        resource = endpoint.resource
        raise errors.invalid(resource.kind, resource.group, record.key[1], found)
    if metadata.has_generation(endpoint) and intent.subresource != "status" and _spec_changed(obj, old):
        meta["generation"] = (old["metadata"].get("generation") or 0) + 1
    if managed is None and "managedFields" in old["metadata"]:
        meta["managedFields"] = old["metadata"]["managedFields"]
    if obj == old:
        return unchanged(endpoint, record)
    kind_rules.before_update(core, endpoint, obj, old, intent.subresource)
    obj = _tracked(core, endpoint, old, obj, intent)
    return _store(core, endpoint, record.key, obj, intent)


def _check_fresh(endpoint: Endpoint, meta: RawObject, old: RawObject, record: Record) -> None:
    resource, name = endpoint.resource, record.key[1]
    version = meta.get("resourceVersion")
    if version in (None, "", "0"):
        if endpoint.crd is not None or resource.kind in _CONDITIONAL_ONLY:
            problem = FieldError("metadata.resourceVersion", "FieldValueInvalid", _UNCONDITIONAL, 0)
            raise errors.invalid(resource.kind, resource.group, name, [problem])
    elif version != str(record.rv):
        raise errors.conflict(resource.plural, resource.group, name)
    uid = meta.get("uid")
    if uid and uid != old.get("uid"):
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {old.get('uid')}"
        raise errors.conflict(resource.plural, resource.group, name, why)


def _status_only(endpoint: Endpoint, obj: RawObject, old: RawObject) -> RawObject:
    """A write to the status subresource: the status, and for some kinds the labels beside it."""
    given = obj["metadata"]
    merged = {**old, "metadata": dict(old["metadata"])}
    _keep(merged, obj, "status")
    if endpoint.resource.kind in _STATUS_KEEPS_LABELS:
        for name in ("labels", "annotations"):
            _keep(merged["metadata"], given, name)
    if "managedFields" in given:
        merged["metadata"]["managedFields"] = given["managedFields"]
    return merged


def _keeps_status(endpoint: Endpoint, obj: RawObject) -> bool:
    resource = endpoint.resource
    return resource.status_apart or ("status" in resource.subresources and "status" not in obj)


def _keep(obj: RawObject, source: RawObject, name: str) -> None:
    if name in source:
        obj[name] = source[name]
    else:
        obj.pop(name, None)


def _spec_changed(obj: RawObject, old: RawObject) -> bool:
    ignored = ("metadata", "status")
    return {k: v for k, v in obj.items() if k not in ignored} != {
        k: v for k, v in old.items() if k not in ignored
    }


# --- storing --------------------------------------------------------------------------------------


def _tracked(
    core: Core, endpoint: Endpoint, old: RawObject | None, obj: RawObject, intent: Intent
) -> RawObject:
    """The object with its managed fields brought up to date."""
    if intent.tracked or endpoint.schema is None:
        return obj
    subresource = intent.subresource
    if old is None and not subresource:
        apart = endpoint.resource.status_apart
        first = created_fields.creator_entry(
            obj, endpoint.schema, intent.manager, core.timestamp(), without_status=apart
        )
        if first is not None:
            obj["metadata"]["managedFields"] = [first]
        return obj
    return patch.track_update(
        old,
        obj,
        endpoint.schema,
        manager=intent.manager,
        now=core.timestamp(),
        subresource=subresource,
        reset=patch.reset_fields(subresource, ("status",) if endpoint.resource.status_apart else ()),
    )


def _store(core: Core, endpoint: Endpoint, key: Key, obj: RawObject, intent: Intent) -> Write:
    if intent.dry_run:
        return Write(_imagined(key, obj))
    if kind_rules.may_go(obj):
        return remove(core, endpoint, key, obj)
    record, done = core.store.put(endpoint.bucket, key, obj)
    kind_rules.after_write(core, endpoint, obj)
    return Write(record, done)


def remove(core: Core, endpoint: Endpoint, key: Key, obj: RawObject) -> Write:
    """Propose that an object goes, whatever its finalizers say."""
    record, done = core.store.remove(endpoint.bucket, key, obj)
    kind_rules.after_remove(core, endpoint, obj)
    return Write(record, done)


def unchanged(endpoint: Endpoint, record: Record) -> Write:
    """A write that leaves the newest state as it is, which may still be on its way to the disk."""
    return Write(record, endpoint.bucket.waiting(record.key))


def put_as_is(core: Core, endpoint: Endpoint, key: Key, obj: RawObject) -> Write:
    """Propose a state the server itself came to; nothing is checked."""
    return _store(core, endpoint, key, obj, Intent(manager=""))


def _imagined(key: Key, obj: RawObject) -> Record:
    """The outcome of a dry run, which has no version of its own."""
    version = obj["metadata"].get("resourceVersion", "0")
    return Record(key, int(version or 0), encode(obj), obj["metadata"]["uid"], {}, {})
