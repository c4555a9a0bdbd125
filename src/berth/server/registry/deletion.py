"""Deleting: grace periods, finalizers, propagation policies, preconditions.

Upstream: apiserver/pkg/registry/rest/delete.go and generic/registry/store.go.  Dependents are the
garbage collector's business; here an object only gets the finalizers that make it wait for that.
"""

from __future__ import annotations

import time

from berth.kube.objects import RawObject
from berth.kube.times import seconds, stamp
from berth.kube.validation.errors import unsupported
from berth.kube.well_known import FOREGROUND_DELETION, ORPHAN_DEPENDENTS
from berth.server import errors
from berth.server.registry import writes
from berth.server.registry.checks import invalid, one_of
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.registry.writes import Write
from berth.server.storage.bucket import Record, decode

_POLICIES = {"Foreground": FOREGROUND_DELETION, "Background": "", "Orphan": ORPHAN_DEPENDENTS}
_TYPES = {
    "gracePeriodSeconds": int,
    "propagationPolicy": str,
    "orphanDependents": bool,
    "dryRun": list,
    "preconditions": dict,
}


def options_of(body: RawObject | None, query: dict[str, str]) -> RawObject:
    """DeleteOptions from the body, or else from the query; 422 or 400 if they are none."""
    options = dict(body or {})
    if options.get("kind") not in (None, "", "DeleteOptions"):
        raise errors.bad_request(f'{options["kind"]} in version "v1" cannot be handled as a DeleteOptions')
    for name in ("propagationPolicy", "gracePeriodSeconds", "orphanDependents", "dryRun"):
        if name in query and options.get(name) is None:
            options[name] = _from_query(name, query[name])
    for name, kind in _TYPES.items():
        if options.get(name) is not None and not isinstance(options[name], kind):
            raise errors.bad_request(f"json: cannot unmarshal into Go struct field DeleteOptions.{name}")
    policy = options.get("propagationPolicy")
    found = []
    if policy is not None and options.get("orphanDependents") is not None:
        detail = "orphanDependents and deletionPropagation cannot be both set"
        found.append(invalid("propagationPolicy", policy, detail))
    elif policy is not None and policy not in _POLICIES:
        found.append(unsupported("propagationPolicy", policy, (*_POLICIES, "nil")))
    if options.get("dryRun") not in (None, [], ["All"]):
        found += one_of("dryRun", options["dryRun"], ("All",))
    if found:
        raise errors.invalid(("DeleteOptions", "meta.k8s.io"), "", found)
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


def delete(registry: Registry, endpoint: Endpoint, record: Record, options: RawObject) -> Write:
    """Propose that an object goes, at once or when its grace and finalizers allow it."""
    obj = decode(record.data)
    check_preconditions(endpoint, obj, record, options)
    strategy = endpoint.strategy
    strategy.check_delete(obj)
    dry_run = bool(options.get("dryRun"))
    before = decode(record.data)
    grace = strategy.grace(obj, options)
    _set_finalizers(endpoint, obj, options)
    metadata = obj["metadata"]
    if not dry_run:
        strategy.before_delete(registry, obj)
    waits = grace > 0 or metadata.get("finalizers") or strategy.has_content(obj)
    if not waits:
        metadata.setdefault("deletionTimestamp", registry.timestamp())
        metadata.setdefault("deletionGracePeriodSeconds", 0)
        if dry_run:
            return Write(record)
        return writes.remove(registry, endpoint, record.key, obj)
    mark(endpoint, obj, grace)
    if obj == before or dry_run:
        return writes.unchanged(endpoint, record)
    return writes.put_as_is(registry, endpoint, record.key, obj)


def check_preconditions(endpoint: Endpoint, obj: RawObject, record: Record, options: RawObject) -> None:
    given = options.get("preconditions") or {}
    why, uid, version = "", given.get("uid"), given.get("resourceVersion")
    if uid and uid != obj["metadata"].get("uid"):
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record "
            f"({obj['metadata'].get('uid')}). The object might have been deleted and then recreated"
        )
    elif version and version != str(record.rv):
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in "
            f"record ({record.rv}). The object might have been modified"
        )
    if why:
        raise errors.conflict(endpoint.resource, record.key[1], why)


def mark(endpoint: Endpoint, obj: RawObject, grace: int) -> None:
    """Write down that the object is being deleted; a later request can only shorten the time."""
    metadata = obj["metadata"]
    now = int(time.time())
    if not metadata.get("deletionTimestamp"):
        metadata["deletionTimestamp"] = stamp(now + grace)
        metadata["deletionGracePeriodSeconds"] = grace
        if metadata.get("generation"):
            metadata["generation"] += 1
    elif grace < (metadata.get("deletionGracePeriodSeconds") or 0):
        began = int(seconds(metadata["deletionTimestamp"])) - metadata["deletionGracePeriodSeconds"]
        metadata["deletionTimestamp"] = stamp(began + grace if grace else max(began, now))
        metadata["deletionGracePeriodSeconds"] = grace
    endpoint.strategy.mark_deleted(obj)


def _set_finalizers(endpoint: Endpoint, obj: RawObject, options: RawObject) -> None:
    metadata = obj["metadata"]
    policy = options.get("propagationPolicy")
    if options.get("orphanDependents") is not None:
        policy = "Orphan" if options["orphanDependents"] else "Background"
    finalizers = list(metadata.get("finalizers") or ())
    kept = [item for item in finalizers if item not in (FOREGROUND_DELETION, ORPHAN_DEPENDENTS)]
    if policy is None:
        if not endpoint.strategy.orphans_warning or kept != finalizers:
            return
        policy = "Orphan"
    wanted = _POLICIES[policy]
    if wanted:
        kept.append(wanted)
    if kept:
        metadata["finalizers"] = kept
    else:
        metadata.pop("finalizers", None)
