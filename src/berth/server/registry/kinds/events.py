"""Events in their two shapes: core/v1, as they are stored, and events.k8s.io/v1.

Upstream: pkg/apis/events/v1/conversion.go.
"""

from __future__ import annotations

from berth.kube.objects import RawObject

_CORE_TO_NEW = {
    "involvedObject": "regarding",
    "message": "note",
    "source": "deprecatedSource",
    "firstTimestamp": "deprecatedFirstTimestamp",
    "lastTimestamp": "deprecatedLastTimestamp",
    "count": "deprecatedCount",
    "reportingComponent": "reportingController",
}
_NEW_TO_CORE = {new: core for core, new in _CORE_TO_NEW.items()}


def to_events_api(event: RawObject) -> RawObject:
    renamed = {_CORE_TO_NEW.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "events.k8s.io/v1"
    return renamed


def to_core(event: RawObject) -> RawObject:
    renamed = {_NEW_TO_CORE.get(name, name): value for name, value in event.items()}
    renamed["apiVersion"] = "v1"
    return renamed
