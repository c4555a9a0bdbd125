"""Writes Event objects, which `kubectl describe` shows.

A repeated event raises the count of the first Event.  As in upstream's recorder, the rate of Events about one
object is limited, so that a constant failure does not fill the server.  Upstream:
client-go/tools/record/events_cache.go.
"""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

from berth.kube.api_resources import EVENTS, Resource
from berth.kube.objects import Key, ObjectMeta, RawObject
from berth.kube.times import stamp
from berth.machines.contract import Action, Create, Outcome, Patch, Purpose
from berth.machines.rates import Backoff, Recent, TokenBucket
from berth.machines.requests import object_reference

NORMAL, WARNING = "Normal", "Warning"
_BURST = 25
_REFILL = 300.0  # seconds until one more Event about an object may be written
_KNOWN = 4096
_SAME_FOR = 600.0  # seconds after which a repeated event becomes a new Event
_TRIES = 5
_BACKOFF = Backoff(first=5.0, longest=80.0)  # before a write that failed is tried again
_UNSENT = 16384  # Events that are kept at most while the server is slow or away
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253


class RecorderPurpose(Purpose):
    EVENT = "event"


EVENT = RecorderPurpose.EVENT
_What = tuple[str, str, str, str]  # uid, type, reason, message


@dataclass(slots=True, eq=False)
class _WrittenEvent:
    """One Event: queued (its action can still be changed), on its way, or at rest on the server."""

    what: _What
    body: RawObject  # as it would be created
    last: float
    count: int = 1
    queued: Action | None = None
    on_its_way: bool = False
    due: bool = False  # whether a higher count has yet to be written
    tries: int = 0
    unsure: bool = False  # whether a creation was sent and not answered


class Recorder:
    """Writes Event objects. Its actions have the purpose `EVENT`; `done` is told what becomes of them."""

    def __init__(self, component: str) -> None:
        self.component = component  # the name in kubectl's column "From"
        self._pending: list[Action] = []
        self._later: list[tuple[float, Action]] = []
        self._buckets: Recent[str, TokenBucket] = Recent(_KNOWN)  # by uid
        self._events: Recent[_What, _WrittenEvent] = Recent(_KNOWN)
        self._sent: dict[Key, _WrittenEvent] = {}  # by name, those that are queued or on their way
        self._number = 0
        self._stamp = (-1, "")

    def record(  # noqa: PLR0913 - two are optional
        self,
        now: float,
        resource: Resource,
        item: Any,  # noqa: ANN401 - a view
        kind: str,
        reason: str,
        message: str,
        *,
        component: str = "",
        action: str = "",
    ) -> None:
        """Remember to write that something happened to `item`, a view of an object of the resource.

        `reason` says in one word what, and `action` what was being done; `component` says so, if not our own.
        """
        uid = item.metadata.uid or ""
        message = message[:_LONGEST_MESSAGE]
        what = (uid, kind, reason, message)
        event = self._events.get(what)
        if event is not None and now - event.last <= _SAME_FOR:
            self._repeat(event, now)
            return
        if len(self._pending) >= _UNSENT or not self._allows(uid, now):
            return
        at, speaker = self._time(now), component or self.component
        body = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": item.metadata.namespace or "default"},
            "involvedObject": _reference(resource, item.metadata),
            "reason": reason,
            "message": message,
            "type": kind,
            "source": {"component": speaker},
            "reportingComponent": speaker,
            "reportingInstance": self.component,
            "firstTimestamp": at,
            "lastTimestamp": at,
        }
        if action:
            body["action"] = action
        event = self._events[what] = _WrittenEvent(what, body, now)
        self._create(event)

    @property
    def waiting(self) -> bool:
        return bool(self._pending)

    def due(self) -> float | None:
        """When to call `take`; None if there is no need."""
        if self._pending:
            return 0.0
        return self._later[0][0] if self._later else None

    def take(self, now: float | None = None) -> list[Action]:
        """What to write; with a time also what has to be tried again by then."""
        if now is not None and self._later and self._later[0][0] <= now:
            self._pending += [action for when, action in self._later if when <= now]
            self._later = [entry for entry in self._later if entry[0] > now]
        if not self._pending:
            return []
        pending, self._pending = self._pending, []
        for action in pending:
            event = self._sent.get(action.key)
            if event is not None and event.queued is action:
                event.queued, event.on_its_way = None, True
        return pending

    def done(self, action: Action, outcome: Outcome) -> None:
        event = self._sent.pop(action.key, None)
        if event is None or self._events.get(event.what) is not event:
            return  # it was forgotten meanwhile, or recorded anew under another name
        event.on_its_way = False
        if outcome.ok or (outcome.exists and event.unsure):
            event.tries, event.unsure = 0, False
            if event.due and self._allows(event.what[0], outcome.at):
                self._patch(event)
        elif event.tries >= _TRIES:
            del self._events[event.what]
        elif outcome.missing and isinstance(action, Patch):
            # The server has deleted it after its time to live: the count starts anew.
            event.tries += 1
            event.body["firstTimestamp"] = event.body["lastTimestamp"]
            event.count = 1
            self._create(event)
        elif outcome.exists:
            event.tries += 1
            self._create(event)
        elif outcome.busy:
            self._retry(event, action, outcome)
        else:
            # The namespace is being deleted, or RBAC forbids it: trying again would not help.
            del self._events[event.what]

    # --- writing ------------------------------------------------------------------------------------

    def _repeat(self, event: _WrittenEvent, now: float) -> None:
        event.count += 1
        event.last = now
        event.body["lastTimestamp"] = self._time(now)
        self._events.move_to_end(event.what)
        if isinstance(event.queued, Create):
            event.body["count"] = event.count  # the body is the one that is queued
        elif isinstance(event.queued, Patch):
            event.queued.body.update(self._counts(event))  # type: ignore[union-attr]
        elif event.on_its_way:
            event.due = True
        elif self._allows(event.what[0], now):
            self._patch(event)

    def _create(self, event: _WrittenEvent) -> None:
        """Queue the creation, under a name that was not used before."""
        if "name" in event.body["metadata"]:  # the old body was sent and must not change
            event.body = {**event.body, "metadata": dict(event.body["metadata"])}
        body = event.body
        involved, metadata = body["involvedObject"], body["metadata"]
        self._number += 1
        tag = f".{int(event.last * 1e9) + self._number:x}"
        metadata["name"] = name = involved.get("name", "")[: _LONGEST_NAME - len(tag)] + tag
        body["count"] = event.count
        event.due = event.unsure = False
        place = (metadata["namespace"], name)
        event.queued = Create(resource=EVENTS, key=place, at=(place[0], ""), purpose=EVENT, body=body)
        self._sent[place] = event
        self._pending.append(event.queued)

    def _patch(self, event: _WrittenEvent) -> None:
        metadata = event.body["metadata"]
        place = (metadata["namespace"], metadata["name"])
        event.due = False
        event.queued = Patch(resource=EVENTS, key=place, purpose=EVENT, body=self._counts(event))
        self._sent[place] = event
        self._pending.append(event.queued)

    def _retry(self, event: _WrittenEvent, action: Action, outcome: Outcome) -> None:
        event.tries += 1
        if len(self._later) >= _UNSENT:
            del self._events[event.what]
            return
        when = outcome.again(_BACKOFF.after(event.tries))
        event.queued = action
        if isinstance(action, Patch):
            action.body.update(self._counts(event))  # type: ignore[union-attr]
        else:
            event.body["count"] = event.count
            event.unsure = outcome.code != 429
        event.due = False
        self._sent[action.key] = event
        insort(self._later, (when, action), key=itemgetter(0))

    def _counts(self, event: _WrittenEvent) -> RawObject:
        return {"count": event.count, "lastTimestamp": event.body["lastTimestamp"]}

    def _time(self, now: float) -> str:
        if self._stamp[0] != int(now):
            self._stamp = (int(now), stamp(now))
        return self._stamp[1]

    def _allows(self, uid: str, now: float) -> bool:
        bucket = self._buckets[uid] = self._buckets.get(uid) or TokenBucket(1 / _REFILL, _BURST)
        return bucket.take(now)


def _reference(resource: Resource, metadata: ObjectMeta) -> RawObject:
    given = {**object_reference(resource, metadata), "resourceVersion": metadata.resource_version}
    return {name: value for name, value in given.items() if value}


def silent(told: object) -> None:
    """Ignore what is told: the default of optional callbacks."""
