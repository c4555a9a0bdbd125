"""Object metadata: what the server sets, and what nobody may change.

Upstream: apiserver/pkg/registry/rest (BeforeCreate, BeforeUpdate) and
apimachinery/pkg/api/validation/objectmeta.go.
"""

from __future__ import annotations

import json
import random

from berth.kube.objects import Key, RawObject
from berth.kube.validation.errors import FieldError
from berth.kube.workloads.pod_templates import NAME_ALPHABET
from berth.server import errors
from berth.server.registry.checks import IMMUTABLE, copy_field, forbidden, invalid
from berth.server.registry.strategy import Endpoint, Registry

_OWN = ("deletionTimestamp", "deletionGracePeriodSeconds", "generation")  # what only the server says
_GENERATED_BASE = 58  # of 63 characters, five are random
_GENERATE_ATTEMPTS = 8


def check_envelope(registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
    """That the object says it is what was addressed; what it leaves out is filled in."""
    resource = endpoint.resource
    api_version, kind = obj.get("apiVersion"), obj.get("kind")
    if not api_version and not endpoint.strategy.custom:
        api_version = obj["apiVersion"] = resource.api_version
    if not kind and not endpoint.strategy.custom:
        kind = obj["kind"] = resource.kind
    if not isinstance(kind, str) or not kind:
        raise errors.bad_request(
            f"Object 'Kind' is missing in '{json.dumps(obj, separators=(',', ':'))[:200]}'"
        )
    if not isinstance(api_version, str) or not api_version:
        raise errors.bad_request("Object 'apiVersion' is missing")
    if api_version == resource.api_version and kind == resource.kind:
        return
    if kind == resource.kind:
        raise errors.bad_request(
            f"the API version in the data ({api_version}) does not match the expected API version "
            f"({resource.api_version})"
        )
    group, _, version = api_version.rpartition("/")
    if (group, version, kind) not in {each.gvk for each in registry.resources()}:
        raise errors.bad_request(f'no kind "{kind}" is registered for version "{api_version}" in scheme')
    raise errors.bad_request(
        f'{kind} in version "{api_version}" cannot be handled as a {resource.kind}: '
        f"converting ({version}.{kind}) to ({resource.version}.{resource.kind}): unknown conversion"
    )


def own_metadata(obj: RawObject) -> RawObject:
    """The object's metadata as a mapping that may be changed."""
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    metadata: RawObject = obj["metadata"]
    if not isinstance(metadata, dict):
        raise errors.bad_request(
            "json: cannot unmarshal into Go struct field .metadata of type v1.ObjectMeta"
        )
    return metadata


def prune(metadata: RawObject) -> None:
    """Leave out what is empty, in place: that is how an object without it is written."""
    for name in ("labels", "annotations", "finalizers", "ownerReferences"):
        if name in metadata and not metadata[name]:
            del metadata[name]


def settle_key(endpoint: Endpoint, metadata: RawObject, key: Key) -> None:
    """That the object has the name and namespace it is addressed by; what it leaves out is filled in."""
    settle_name(metadata, key[1])
    settle_namespace(endpoint, metadata, key[0])


def settle_name(metadata: RawObject, name: str) -> None:
    if metadata.setdefault("name", name) != name:
        raise errors.bad_request(
            f"the name of the object ({metadata['name']}) does not match the name on the URL ({name})"
        )


def settle_namespace(endpoint: Endpoint, metadata: RawObject, namespace: str) -> None:
    if not endpoint.resource.namespaced:
        if not metadata.get("namespace"):  # or else validation says that it is not allowed
            metadata.pop("namespace", None)
        return
    given = metadata.get("namespace")
    if given and given != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata["namespace"] = namespace


def new_name(endpoint: Endpoint, metadata: RawObject) -> None:
    """Make up a name from generateName where none was given."""
    if metadata.get("name") or not metadata.get("generateName"):
        return
    base = str(metadata["generateName"])[:_GENERATED_BASE]
    name = ""
    for _ in range(_GENERATE_ATTEMPTS):
        name = base + made_up_end()
        if endpoint.bucket.newest((metadata.get("namespace", ""), name)) is None:
            metadata["name"] = name
            return
    raise errors.generate_name_conflict(endpoint.resource, name)


def made_up_end() -> str:
    """Five characters that make a name different from others; no secret."""
    return "".join(random.choices(NAME_ALPHABET, k=5))  # noqa: S311 - see above


def begin(endpoint: Endpoint, metadata: RawObject, uid: str, timestamp: str) -> None:
    """What the server decides about a new object."""
    for name in ("selfLink", "managedFields", *_OWN):
        metadata.pop(name, None)
    metadata["uid"] = uid
    metadata["creationTimestamp"] = timestamp
    if endpoint.strategy.generation:
        metadata["generation"] = 1


def carry_over(metadata: RawObject, old: RawObject) -> None:
    """What an update cannot touch stays; what it left open is filled in."""
    metadata.pop("selfLink", None)
    for name in ("uid", "creationTimestamp", "namespace"):
        if not metadata.get(name) and name in old:
            metadata[name] = old[name]
    for name in (*_OWN, "resourceVersion"):
        copy_field(name, old, metadata)
    if "generateName" in old and "generateName" not in metadata:
        metadata["generateName"] = old["generateName"]


def check_update(metadata: RawObject, old: RawObject) -> list[FieldError]:
    found = [
        invalid(f"metadata.{name}", metadata.get(name), IMMUTABLE)
        for name in ("name", "namespace", "uid", "creationTimestamp")
        if metadata.get(name) != old.get(name)
    ]
    known = old.get("finalizers") or ()
    added = [f'"{item}"' for item in metadata.get("finalizers") or () if item not in known]
    if added and old.get("deletionTimestamp"):
        detail = (
            "no new finalizers can be added if the object is being deleted, "
            f"found new finalizers []string{{{', '.join(added)}}}"
        )
        found.append(forbidden("metadata.finalizers", detail))
    return found


def key_of(endpoint: Endpoint, metadata: RawObject) -> Key:
    return (metadata.get("namespace", "") if endpoint.resource.namespaced else "", metadata["name"])
