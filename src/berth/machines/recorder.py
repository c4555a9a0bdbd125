"""What a machine tells: Event objects, which `kubectl describe` shows, and a story of what it did and why.

The same thing said again becomes a higher count of the Event that said it first.  Like upstream's
recorder this one keeps quiet after a burst about one object, so that what fails all the time does not
fill the server.  Upstream: client-go/tools/record/events_cache.go.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from berth.kube.api_resources import EVENTS, Resource
from berth.kube.objects import Key, RawObject
from berth.kube.times import stamp
from berth.machines.contract import Action, Create, Outcome, Patch, Purpose
from berth.machines.rates import Backoff, TokenBucket

NORMAL, WARNING = "Normal", "Warning"
_BURST = 25
_REFILL = 300.0  # seconds for one more
_KNOWN = 4096
_SAME_FOR = 600.0  # seconds after which the same thing is news again
_TRIES = 5
_BACKOFF = Backoff(first=5.0, longest=80.0)  # before a write that failed is tried again
_UNSENT = 16384  # more than this is not kept for a server that is slow or away
_LONGEST_MESSAGE = 1024
_LONGEST_NAME = 253
_LENGTH = 4096  # of a story


class RecorderPurpose(Purpose):
    EVENT = "event"


EVENT = RecorderPurpose.EVENT
_What = tuple[str, str, str, str]  # uid, type, reason, message


class _Told:
    """One Event: queued (its action can still be changed), on its way, or at rest on the server."""

    __slots__ = ("body", "count", "due", "last", "on_its_way", "queued", "tries", "unsure")

    def __init__(self, body: RawObject, now: float) -> None:
        self.body = body  # as it would be created
        self.count = 1
        self.last = now
        self.queued: Action | None = None
        self.on_its_way = False
        self.due = False  # whether the server has to hear of a higher count
        self.tries = 0
        self.unsure = False  # whether a creation was sent that nobody answered


class Recorder:
    """Writes Event objects. Its actions have the purpose `EVENT`; what becomes of them is told to `done`.

    Attributes:
        component: The name in kubectl's column "From".
    """

    def __init__(self, component: str) -> None:
        self.component = component
        self._pending: list[Action] = []
        self._later: list[tuple[float, Action]] = []
        self._buckets: OrderedDict[str, TokenBucket] = OrderedDict()  # by uid
        self._told: OrderedDict[_What, _Told] = OrderedDict()
        self._names: dict[Key, _What] = {}  # of the events on their way
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
        """Remember to write that something happened to `item`, a view.

        Args:
            now: Seconds since the epoch.
            resource: Where `item` is served.
            item: What it happened to.
            kind: `NORMAL` or `WARNING`.
            reason: In one word.
            message: In a sentence.
            component: Who says it, if not the recorder's own.
            action: What was being done, in one word.
        """
        uid = item.metadata.uid or ""
        message = message[:_LONGEST_MESSAGE]
        what = (uid, kind, reason, message)
        told = self._told.get(what)
        if told is not None and now - told.last <= _SAME_FOR:
            self._repeat(what, told, now)
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
        told = self._told[what] = _Told(body, now)
        self._told.move_to_end(what)
        self._create(what, told)
        if len(self._told) > _KNOWN:
            self._told.popitem(last=False)

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
            what = self._names.get(action.key)
            told = None if what is None else self._told.get(what)
            if told is not None and told.queued is action:
                told.queued, told.on_its_way = None, True
        return pending

    def done(self, action: Action, outcome: Outcome) -> None:
        """Learn what became of an action."""
        what = self._names.pop(action.key, None)
        told = None if what is None else self._told.get(what)
        if what is None or told is None or told.body["metadata"]["name"] != action.key[1]:
            return  # it was forgotten meanwhile, or told anew under another name
        told.on_its_way = False
        if outcome.ok or (outcome.exists and told.unsure):
            told.tries, told.unsure = 0, False
            if told.due and self._allows(what[0], outcome.at):
                self._patch(what, told)
        elif told.tries >= _TRIES:
            del self._told[what]
        elif outcome.missing and isinstance(action, Patch):
            # It ended its time on the server: the count starts anew.
            told.tries += 1
            told.body["firstTimestamp"] = told.body["lastTimestamp"]
            told.count = 1
            self._create(what, told)
        elif outcome.exists:
            told.tries += 1
            self._create(what, told)
        elif outcome.busy:
            self._retry(what, told, action, outcome)
        else:
            # The namespace is going, or we may not: saying it again would not help.
            del self._told[what]

    # --- writing ------------------------------------------------------------------------------------

    def _repeat(self, what: _What, told: _Told, now: float) -> None:
        told.count += 1
        told.last = now
        told.body["lastTimestamp"] = self._time(now)
        self._told.move_to_end(what)
        if isinstance(told.queued, Create):
            told.body["count"] = told.count  # the body is the one that is queued
        elif isinstance(told.queued, Patch):
            told.queued.body.update(self._counts(told))  # type: ignore[union-attr]
        elif told.on_its_way:
            told.due = True
        elif self._allows(what[0], now):
            self._patch(what, told)

    def _create(self, what: _What, told: _Told) -> None:
        """Queue the creation, under a name that was not used before."""
        if "name" in told.body["metadata"]:  # what was sent stays as it was sent
            told.body = {**told.body, "metadata": dict(told.body["metadata"])}
        body = told.body
        involved, metadata = body["involvedObject"], body["metadata"]
        self._number += 1
        tag = f".{int(told.last * 1e9) + self._number:x}"
        metadata["name"] = name = involved.get("name", "")[: _LONGEST_NAME - len(tag)] + tag
        body["count"] = told.count
        told.due = told.unsure = False
        place = (metadata["namespace"], name)
        told.queued = Create(resource=EVENTS, key=place, at=(place[0], ""), purpose=EVENT, body=body)
        self._names[place] = what
        self._pending.append(told.queued)

    def _patch(self, what: _What, told: _Told) -> None:
        metadata = told.body["metadata"]
        place = (metadata["namespace"], metadata["name"])
        told.due = False
        told.queued = Patch(resource=EVENTS, key=place, purpose=EVENT, body=self._counts(told))
        self._names[place] = what
        self._pending.append(told.queued)

    def _retry(self, what: _What, told: _Told, action: Action, outcome: Outcome) -> None:
        told.tries += 1
        if len(self._later) >= _UNSENT:
            del self._told[what]
            return
        when = outcome.again(_BACKOFF.after(told.tries))
        told.queued = action
        if isinstance(action, Patch):
            action.body.update(self._counts(told))  # type: ignore[union-attr]
        else:
            told.body["count"] = told.count
            told.unsure = outcome.code != 429
        told.due = False
        self._names[action.key] = what
        index = len(self._later)
        while index and self._later[index - 1][0] > when:
            index -= 1
        self._later.insert(index, (when, action))

    def _counts(self, told: _Told) -> RawObject:
        return {"count": told.count, "lastTimestamp": told.body["lastTimestamp"]}

    def _time(self, now: float) -> str:
        if self._stamp[0] != int(now):
            self._stamp = (int(now), stamp(now))
        return self._stamp[1]

    def _allows(self, uid: str, now: float) -> bool:
        bucket = self._buckets.get(uid)
        if bucket is None:
            bucket = self._buckets[uid] = TokenBucket(1 / _REFILL, _BURST)
        self._buckets.move_to_end(uid)
        if len(self._buckets) > _KNOWN:
            self._buckets.popitem(last=False)
        return bucket.take(now)


def _reference(resource: Resource, metadata: Any) -> RawObject:  # noqa: ANN401 - an ObjectMeta view
    given = {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "namespace": metadata.namespace,
        "uid": metadata.uid,
        "resourceVersion": metadata.resource_version,
    }
    return {name: value for name, value in given.items() if value}


# --- the story ------------------------------------------------------------------------------------


class StoryEntry(msgspec.Struct, frozen=True):
    at: float
    key: Hashable
    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what


class Story:
    """Kept for a while: asked by tests, by explanations and in bug reports."""

    def __init__(self) -> None:
        self._entries: deque[StoryEntry] = deque(maxlen=_LENGTH)

    def tell(self, at: float, key: Hashable, what: str, why: str = "") -> None:
        self._entries.append(StoryEntry(at, key, what, why))

    def of(self, key: Hashable) -> list[str]:
        """What happened to one key, oldest first."""
        return [str(entry) for entry in self._entries if entry.key == key]

    def __iter__(self) -> Iterator[StoryEntry]:
        return iter(self._entries)


def silent(told: object) -> None:
    """For those who do not want to know."""
