"""Claims to devices, and what they are made from: the kinds of resource.k8s.io.

Upstream: pkg/registry/resource, and of pkg/apis/resource/validation what those who place pods meet.
"""

from __future__ import annotations

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server.fields import mapping, mappings
from berth.server.registry.checks import Found, forbidden, has, once, too_many, unchanged
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.selectors import paths
from berth.server.tables import cluster as tables

_API = "resource.k8s.io/v1"
_RESERVED = "status.reservedFor"
_MOST_CONSUMERS = 256
_GOING = "`deallocationRequested` or `deletionTimestamp`"


class ResourceClaimStrategy(Strategy):
    """What a claim asks for stays; its devices come and go as a whole, and are reserved only if there."""

    def default(self, obj: RawObject) -> None:
        _default_requests(mapping(obj, "spec"))

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status, before = mapping(obj, "status"), mapping(old, "status")
        consumers, known = mappings(status, "reservedFor"), mappings(before, "reservedFor")
        found = list(_check_consumers(consumers))
        if consumers and status.get("allocation") is None:
            found.append(forbidden(_RESERVED, "may not be specified when `allocated` is not set"))
        elif obj["metadata"].get("deletionTimestamp") and any(one not in known for one in consumers):
            found.append(forbidden(_RESERVED, f"new entries may not be added while {_GOING} are set"))
        if before.get("allocation") is not None and status.get("allocation") is not None:
            return [*found, *unchanged(obj, old, "status", "allocation")]
        return found


class ResourceClaimTemplateStrategy(Strategy):
    """A template stays as it is."""

    def default(self, obj: RawObject) -> None:
        _default_requests(mapping(obj, "spec", "spec"))


STRATEGIES = (
    Strategy(
        served(_API, "deviceclasses", "DeviceClass", namespaced=False),
        columns=tables.PLAIN,
    ),
    ResourceClaimStrategy(
        served(_API, "resourceclaims", "ResourceClaim", subresources="status"),
        columns=tables.RESOURCE_CLAIM,
        frozen=("spec",),
        status_metadata=(),
        generation=False,
        returns_deleted=True,
    ),
    ResourceClaimTemplateStrategy(
        served(_API, "resourceclaimtemplates", "ResourceClaimTemplate"),
        columns=tables.PLAIN,
        frozen=("spec",),
        generation=False,
        returns_deleted=True,
    ),
    Strategy(
        served(_API, "resourceslices", "ResourceSlice", namespaced=False),
        columns=tables.RESOURCE_SLICE,
        fields=paths("spec.nodeName", "spec.driver"),
        returns_deleted=True,
    ),
)


def _default_requests(spec: RawObject) -> None:
    for request in mappings(spec, "devices", "requests"):
        for asked in (request.get("exactly"), *mappings(request, "firstAvailable")):
            if isinstance(asked, dict):
                asked.setdefault("allocationMode", "ExactCount")
                if asked["allocationMode"] == "ExactCount":
                    asked.setdefault("count", 1)


def _check_consumers(consumers: list[RawObject]) -> Found:
    if len(consumers) > _MOST_CONSUMERS:
        yield too_many(_RESERVED, consumers, _MOST_CONSUMERS)
    seen: set[str] = set()
    for i, consumer in enumerate(consumers):
        at, uid = f"{_RESERVED}[{i}]", str(consumer.get("uid"))
        yield from has(at, consumer, "resource", "name", "uid")
        yield from once(seen, at, uid)
