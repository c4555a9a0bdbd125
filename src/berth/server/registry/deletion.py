"""Deleting: grace periods, finalizers, propagation policies, preconditions.

Upstream: apiserver/pkg/registry/rest/delete.go and generic/registry/store.go.  Dependents are the
garbage collector's business; here an object only gets the finalizers that make it wait for that.
"""

from __future__ import annotations

import calendar
import time

from berth.kube.objects import RawObject
from berth.kube.times import stamp
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry import writes
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.kinds import definitions
from berth.server.registry.writes import Write
from berth.server.storage.history import Record
from berth.server.storage.store import decode

FOREGROUND, ORPHAN = "foregroundDeletion", "orphan"
_POLICIES = {"Foreground": FOREGROUND, "Orphan": ORPHAN, "Background": ""}
_IMMORTAL = frozenset({"default", "kube-system", "kube-public"})
_TERMINATING = (
    "The system is ensuring all content is removed from this namespace.  Upon completion, this namespace "
    "will automatically be purged by the system."
)


def options_of(body: RawObject | None, query: dict[str, str]) -> RawObject:
    """DeleteOptions from the body, or else from the query.

    Raises:
        StatusError: they contradict each other (422) or have the wrong form (400).
    """
    options = dict(body or {})
    if options.get("kind") not in (None, "", "DeleteOptions"):
        raise errors.bad_request(f'{options["kind"]} in version "v1" cannot be handled as a DeleteOptions')
    for name in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents", "dryRun"):
        if name in query and options.get(name) is None:
            options[name] = _from_query(name, query[name])
    _check_types(options)
    policy = options.get("propagationPolicy")
    found = []
    if policy is not None and options.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        found.append(FieldError("propagationPolicy", "FieldValueInvalid", detail, policy))
    elif policy is not None and policy not in _POLICIES:
        detail = 'supported values: "Foreground", "Background", "Orphan", "nil"'
        found.append(FieldError("propagationPolicy", "FieldValueNotSupported", detail, policy))
    if options.get("dryRun") not in (None, [], ["All"]):
        detail = 'supported values: "All"'
        found.append(FieldError("dryRun", "FieldValueNotSupported", detail, options["dryRun"]))
    if found:
        raise errors.invalid("DeleteOptions", "meta.k8s.io", "", found)
    return options


def _from_query(name: str, text: str) -> object:
    if name == "dryRun":
        return [text] if text else []
    if name == "orphanDependents":
        return text in ("true", "1")
    if name == "gracePeriodSeconds":
        try:
            return int(text)
        except ValueError:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None
    return text


def _check_types(options: RawObject) -> None:
    expected: dict[str, type | tuple[type, ...]] = {
        "gracePeriodSeconds": int,
        "propagationPolicy": str,
        "orphanDependents": bool,
        "dryRun": list,
        "preconditions": dict,
    }
    for name, kind in expected.items():
        if options.get(name) is not None and not isinstance(options[name], kind):
            raise errors.bad_request(f"json: cannot unmarshal into Go struct field DeleteOptions.{name}")


def delete(core: Core, endpoint: Endpoint, record: Record, options: RawObject) -> Write:
    """Propose that an object goes, at once or when its grace and finalizers allow it."""
    obj = decode(record.data)
    check_preconditions(endpoint, obj, record, options)
    if endpoint.resource.kind == "Namespace":
        _check_namespace(obj)
    dry_run = bool(options.get("dryRun"))
    before = decode(record.data)
    grace = _grace(endpoint, obj, options)
    _set_finalizers(endpoint, obj, options)
    metadata = obj["metadata"]
    if endpoint.resource.kind == "CustomResourceDefinition" and not dry_run:
        _empty_crd(core, obj)
    waits = grace > 0 or metadata.get("finalizers") or _has_content_finalizer(endpoint, obj)
    if not waits:
        metadata.setdefault("deletionTimestamp", core.timestamp())
        metadata.setdefault("deletionGracePeriodSeconds", 0)
        if dry_run:
            return Write(record)
        return writes.remove(core, endpoint, record.key, obj)
    _mark(endpoint, obj, grace)
    if obj == before or dry_run:
        return writes.unchanged(endpoint, record)
    return writes.put_as_is(core, endpoint, record.key, obj)


def check_preconditions(endpoint: Endpoint, obj: RawObject, record: Record, options: RawObject) -> None:
    given = options.get("preconditions") or {}
    resource, name = endpoint.resource, record.key[1]
    uid, version = given.get("uid"), given.get("resourceVersion")
    if uid and uid != obj["metadata"].get("uid"):
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({obj['metadata'].get('uid')}). The object might have been deleted and then recreated"
        )
        raise errors.conflict(resource.plural, resource.group, name, why)
    if version and version != str(record.rv):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({record.rv}). The object might have been modified"
        )
        raise errors.conflict(resource.plural, resource.group, name, why)


def _check_namespace(obj: RawObject) -> None:
    name = obj["metadata"]["name"]
    if name in _IMMORTAL:
        raise errors.forbidden("namespaces", "", name, "this namespace may not be deleted")
    if obj["metadata"].get("deletionTimestamp") and (obj.get("spec") or {}).get("finalizers"):
        raise errors.conflict("namespaces", "", name, _TERMINATING)


def _has_content_finalizer(endpoint: Endpoint, obj: RawObject) -> bool:
    return endpoint.resource.kind == "Namespace" and bool((obj.get("spec") or {}).get("finalizers"))


def _grace(endpoint: Endpoint, obj: RawObject, options: RawObject) -> int:
    """Seconds the object has left; only pods are given any."""
    if endpoint.resource.kind != "Pod" or endpoint.resource.group:
        return 0
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    given = options.get("gracePeriodSeconds")
    grace = int(given) if given is not None else int(spec.get("terminationGracePeriodSeconds", 30))
    if not spec.get("nodeName") or status.get("phase") in ("Succeeded", "Failed"):
        return 0
    return 1 if grace < 0 else grace


def _mark(endpoint: Endpoint, obj: RawObject, grace: int) -> None:
    """Write down that the object is being deleted; a later request can only shorten the time."""
    metadata = obj["metadata"]
    now = int(time.time())
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = stamp(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        began = _seconds(metadata["deletionTimestamp"]) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = stamp(max(began + grace, now if grace == 0 else began + grace))
        metadata["deletionGracePeriodSeconds"] = grace
    if endpoint.resource.kind == "Namespace":
        obj["status"] = {**(obj.get("status") or {}), "phase": "Terminating"}
        metadata.pop("deletionGracePeriodSeconds", None)


def _seconds(timestamp: str) -> int:
    return calendar.timegm(time.strptime(timestamp, "%Y-%m-%dT%H:%M:%SZ"))


def _set_finalizers(endpoint: Endpoint, obj: RawObject, options: RawObject) -> None:
    metadata = obj["metadata"]
    policy = options.get("propagationPolicy")
    if options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    finalizers = list(metadata.get("finalizers") or ())
    if policy is None:
        by_default = (endpoint.resource.group, endpoint.resource.kind) == ("batch", "Job")
        if not by_default or FOREGROUND in finalizers or ORPHAN in finalizers:
            return
        policy = "Orphan"
    wanted = _POLICIES[policy]
    kept = [item for item in finalizers if item not in (FOREGROUND, ORPHAN)]
    if wanted:
        kept.append(wanted)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)


def _empty_crd(core: Core, crd: RawObject) -> None:
    """Delete the objects of a definition that is to go; it waits for those that have finalizers."""
    endpoints = core.catalog.endpoints_of_crd(crd["metadata"]["name"])
    remaining = 0
    if endpoints:
        endpoint = endpoints[0]
        for record in endpoint.bucket.newest_in(""):
            obj = decode(record.data)
            if obj["metadata"].get("finalizers"):
                remaining += 1
                _mark(endpoint, obj, 0)
                writes.put_as_is(core, endpoint, record.key, obj)
            else:
                core.store.remove(endpoint.bucket, record.key, obj)
    if not remaining:
        kept = [item for item in crd["metadata"].get("finalizers") or () if item != definitions.CLEANUP]
        crd["metadata"]["finalizers"] = kept
        if not kept:
            del crd["metadata"]["finalizers"]
