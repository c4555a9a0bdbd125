"""Events: one object in two shapes, core/v1 as it is stored and events.k8s.io/v1, kept for an hour.

Upstream: pkg/apis/events/v1/conversion.go and pkg/registry/core/event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from berth.kube.objects import RawObject
from berth.kube.times import stamp
from berth.server.fields import at, mapping, number
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.storage.bucket import decode
from berth.server.storage.selectors import text_of
from berth.server.tables import NAME, Column, age, text

_SWEEP = 60.0
_STEP = 200  # Events removed between two looks at other requests
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
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
# Selectable fields under the names that events.k8s.io gives them.
_ALIASES = {
    **{f"regarding.{name}": f"involvedObject.{name}" for name in _INVOLVED},
    "reportingController": "reportingComponent",
}


class NewEventStrategy(Strategy):
    """An Event of events.k8s.io, which names most fields differently."""

    def to_stored(self, obj: RawObject) -> RawObject:
        renamed = {_NEW_TO_CORE.get(name, name): value for name, value in obj.items()}
        renamed["apiVersion"] = "v1"
        return renamed

    def from_stored(self, obj: RawObject) -> RawObject:
        renamed = {_CORE_TO_NEW.get(name, name): value for name, value in obj.items()}
        renamed["apiVersion"] = self.resource.api_version
        return renamed


def _selectable(obj: RawObject) -> Mapping[str, str]:
    involved, source = obj.get("involvedObject") or {}, obj.get("source") or {}
    fields = {f"involvedObject.{name}": text_of(involved.get(name)) for name in _INVOLVED}
    fields["reason"] = text_of(obj.get("reason"))
    fields["type"] = text_of(obj.get("type"))
    fields["source"] = text_of(source.get("component") or obj.get("reportingComponent"))
    fields["reportingComponent"] = text_of(obj.get("reportingComponent") or source.get("component"))
    return fields


# --- columns


def _first_seen(event: RawObject, now: float) -> str:
    first = at(event, "firstTimestamp") or at(event, "deprecatedFirstTimestamp")
    return age(first or at(event, "eventTime"), now)


def _last_seen(event: RawObject, now: float) -> str:
    series = at(event, "series", "lastObservedTime")
    last = series or at(event, "lastTimestamp") or at(event, "deprecatedLastTimestamp")
    return age(last, now) if last else _first_seen(event, now)


def _involved(event: RawObject) -> RawObject:
    return mapping(event, "involvedObject") or mapping(event, "regarding")


def _about(event: RawObject, _: float) -> str:
    kind, name = str(_involved(event).get("kind", "")).lower(), _involved(event).get("name")
    return f"{kind}/{name}" if name else kind


def _source(event: RawObject, _: float) -> str:
    source = mapping(event, "source") or mapping(event, "deprecatedSource")
    reporting = at(event, "reportingComponent") or at(event, "reportingController")
    component = source.get("component") or reporting or ""
    host = source.get("host") or at(event, "reportingInstance")
    return f"{component}, {host}" if host else str(component)


def _times(event: RawObject, _: float) -> int:
    return number(event, "series", "count") or number(event, "count") or number(event, "deprecatedCount") or 1


_COLUMNS = (
    Column("Last Seen", _last_seen),
    Column("Type", text("type")),
    Column("Reason", text("reason")),
    Column("Object", _about),
    Column("Subobject", lambda obj, _: str(_involved(obj).get("fieldPath") or ""), wide=True),
    Column("Source", _source, wide=True),
    Column("Message", lambda obj, _: str(at(obj, "message") or at(obj, "note") or "").strip()),
    Column("First Seen", _first_seen, wide=True),
    Column("Count", _times, wide=True),
    NAME._replace(wide=True),
)


GROUP_PRIORITIES = {"events.k8s.io": 17_750}
STRATEGIES = (
    Strategy(
        served("v1", "Event", short="ev"),
        columns=_COLUMNS,
        defaults={"reportingComponent": "", "reportingInstance": "", "source": {}},
        fields=_selectable,
        field_aliases=_ALIASES,
        generation=False,
        create_on_update=True,
    ),
    NewEventStrategy(
        served("events.k8s.io/v1", "Event", short="ev"),
        columns=_COLUMNS,
        field_aliases=_ALIASES,
        generation=False,
        create_on_update=True,
        stored_as=("", "v1", "events"),
    ),
)


async def expire(registry: Registry, ttl: float) -> None:
    """Remove old Events now and then, for as long as the server runs."""
    while True:
        await asyncio.sleep(_SWEEP)
        await expire_once(registry, time.time() - ttl)


async def expire_once(registry: Registry, since: float) -> None:
    """Remove the Events that have not changed since a moment."""
    bucket = registry.bucket("events")
    limit = stamp(since)
    for count, record in enumerate(list(bucket.records.values())):
        if count % _STEP == _STEP - 1:
            await asyncio.sleep(0)
        event = decode(record.data)
        last = event.get("lastTimestamp") or event["metadata"]["creationTimestamp"]
        series = (event.get("series") or {}).get("lastObservedTime") or ""
        if max(str(last), str(series)) < limit and bucket.newest(record.key) is record:
            registry.store.remove(bucket, record.key, event)
