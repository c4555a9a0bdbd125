"""What happened, as the Events of a cluster tell it: the newest, each once however often it was counted."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from berth.kube.objects import RawObject, TypedObject

_KEPT = 1000


class HappenedEvent(TypedObject, frozen=True):
    """An Event object, as far as the page tells it."""

    involved_object: RawObject = msgspec.field(default_factory=dict)
    reason: str | None = None
    message: str | None = None
    type: str | None = None
    count: int | None = None
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    source: RawObject | None = None
    reporting_component: str | None = None


class EventLog:
    """The newest Events, in the order in which they were last heard of."""

    def __init__(self) -> None:
        self._kept: dict[str, RawObject] = {}
        self._unnamed = 0

    def __iter__(self) -> Iterator[RawObject]:
        return iter(self._kept.values())

    def put(self, event: HappenedEvent) -> RawObject:
        """Note an Event, in place of what it said before; how the page tells it."""
        told = _told(event, self._name(event))
        self._kept.pop(told["id"], None)
        self._kept[told["id"]] = told
        if len(self._kept) > _KEPT:
            del self._kept[next(iter(self._kept))]
        return told

    def _name(self, event: HappenedEvent) -> str:
        """The Event's own name; in a file it may have none."""
        name = event.metadata.name
        if not name:
            self._unnamed += 1
            name = f"#{self._unnamed}"
        return f"{event.metadata.namespace or ''}/{name}"


def _told(event: HappenedEvent, name: str) -> RawObject:
    about = event.involved_object
    return {
        "id": name,
        "time": event.last_timestamp or event.event_time or event.first_timestamp,
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": event.count or 1,
        "by": (event.source or {}).get("component") or event.reporting_component,
        "kind": about.get("kind"),
        "namespace": about.get("namespace"),
        "name": about.get("name"),
    }
