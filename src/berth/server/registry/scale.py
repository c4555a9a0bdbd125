"""The scale subresource: the number of replicas of a workload, whatever else it holds."""

from __future__ import annotations

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.http import field_validation, patching
from berth.server.http.requests import ApiRequest
from berth.server.registry import writes
from berth.server.registry.catalog import Endpoint
from berth.server.registry.core import Core
from berth.server.registry.decoding import decode_as
from berth.server.registry.writes import Intent, Write
from berth.server.storage.history import Record

_SCALE = ("autoscaling", "v1", "Scale")
_BUILTIN_PATHS = (".spec.replicas", ".status.replicas", ".spec.selector")


def of(endpoint: Endpoint, record: Record) -> RawObject:
    """The Scale of an object."""
    obj = endpoint.object(record)
    spec_path, status_path, selector_path = _paths(endpoint)
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    status: RawObject = {"replicas": _at(obj, status_path) or 0}
    selector = _at(obj, selector_path) if selector_path else None
    if isinstance(selector, dict):
        status["selector"] = _text(endpoint, selector)
    elif isinstance(selector, str):
        status["selector"] = selector
    replicas = _at(obj, spec_path)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _text(endpoint: Endpoint, selector: RawObject) -> str:
    if endpoint.resource.kind == "ReplicationController":
        selector = {"matchLabels": selector}
    parsed = parse_label_selector(decode_as(selector, LabelSelector))
    return ",".join(sorted(map(str, parsed.requirements)))


def _paths(endpoint: Endpoint) -> tuple[str, str, str]:
    if endpoint.crd is None:
        return _BUILTIN_PATHS
    for version in endpoint.crd["spec"]["versions"]:
        if version["name"] == endpoint.resource.version:
            scale = (version.get("subresources") or {}).get("scale") or {}
            return (
                scale.get("specReplicasPath", ""),
                scale.get("statusReplicasPath", ""),
                scale.get("labelSelectorPath", ""),
            )
    return _BUILTIN_PATHS


def _at(obj: RawObject, path: str) -> object:
    value: object = obj
    for name in path.lstrip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def update(core: Core, request: ApiRequest, endpoint: Endpoint, scale: RawObject) -> Write:
    """Set the replicas of an object from a Scale."""
    address = request.address
    key = (address.namespace, address.name)
    record = writes.current(endpoint, key)
    scale = field_validation.check_as(request, core.catalog.schemas, _SCALE, scale)
    metadata = scale.get("metadata") or {}
    if metadata.get("name", address.name) != address.name:
        raise errors.bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL "
            f"({address.name})"
        )
    version = metadata.get("resourceVersion")
    resource = endpoint.resource
    if version and version != str(record.rv):
        raise errors.conflict(resource.plural, resource.group, address.name)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        problem = FieldError("spec.replicas", "FieldValueInvalid", detail, replicas)
        raise errors.invalid("Scale", "autoscaling", address.name, [problem])
    obj = endpoint.object(record)
    *outer, last = _paths(endpoint)[0].lstrip(".").split(".")
    place = obj
    for name in outer:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[last] = replicas
    intent = Intent(request.manager, request.dry_run, "scale")
    return writes.update(core, endpoint, record, obj, intent)


def patch(core: Core, request: ApiRequest, endpoint: Endpoint, body: bytes) -> Write:
    kind = request.content_type
    record = writes.current(endpoint, (request.address.namespace, request.address.name))
    change = patching.change_of(kind, body, endpoint)
    return update(core, request, endpoint, patching.patched(change, of(endpoint, record)))
