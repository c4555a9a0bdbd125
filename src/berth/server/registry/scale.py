"""The scale subresource: the number of replicas of a workload, whatever else it holds."""

from __future__ import annotations

from berth.kube.objects import LabelSelector, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry import writes
from berth.server.registry.fields import decode_as
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.registry.writes import Intent, Write
from berth.server.storage.history import Record


def of(endpoint: Endpoint, record: Record) -> RawObject:
    """The Scale of an object."""
    obj = endpoint.object(record)
    spec_path, status_path, selector_path = endpoint.strategy.scale_paths
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    status: RawObject = {"replicas": _at(obj, status_path) or 0}
    selector = _at(obj, selector_path) if selector_path else None
    if isinstance(selector, dict):
        status["selector"] = _text(endpoint.strategy.scale_selector(selector))
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


def _text(selector: RawObject) -> str:
    parsed = parse_label_selector(decode_as(selector, LabelSelector))
    return ",".join(sorted(map(str, parsed.requirements)))


def _at(obj: RawObject, path: str) -> object:
    value: object = obj
    for name in path.lstrip(".").split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def update(registry: Registry, endpoint: Endpoint, record: Record, scale: RawObject, intent: Intent) -> Write:
    """Set the replicas of an object from a Scale."""
    resource, own_name = endpoint.resource, record.key[1]
    metadata = scale.get("metadata") or {}
    if metadata.get("name", own_name) != own_name:
        raise errors.bad_request(
            f"the name of the object ({metadata.get('name')}) does not match the name on the URL ({own_name})"
        )
    version = metadata.get("resourceVersion")
    if version and version != str(record.rv):
        raise errors.conflict(resource.plural, resource.group, own_name)
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas < 0:
        detail = "must be greater than or equal to 0"
        problem = FieldError("spec.replicas", "FieldValueInvalid", detail, replicas)
        raise errors.invalid("Scale", "autoscaling", own_name, [problem])
    obj = endpoint.object(record)
    *outer, last = endpoint.strategy.scale_paths[0].lstrip(".").split(".")
    place = obj
    for name in outer:
        if not isinstance(place.get(name), dict):
            place[name] = {}
        place = place[name]
    place[last] = replicas
    return writes.update(registry, endpoint, record, obj, intent)
