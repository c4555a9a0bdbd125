"""Objects as the store holds them, those of one kind in a bucket, with the bounded history of their changes.

An object is kept encoded; beside the bytes stands only what finding it takes: labels and the
fields a field selector may name. `Bucket.records` and the history, which watches read, show committed state
only; the newest state includes what is queued for the disk.
"""

from __future__ import annotations

import asyncio
import bisect
import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import msgspec

from berth.kube.objects import Key, RawObject
from berth.kube.well_known import ADDED, DELETED
from berth.server.storage.journal import Row

Fields = Callable[[RawObject], Mapping[str, str]]

_SHARED = 256  # changes whose encoded frames are kept for watchers that are a little behind
_SHARED_BYTES = 8 * 1024 * 1024  # that these frames may have for every form that is watched
_OVERHEAD = 500  # bytes of a change beside its objects
NO_LABELS: Mapping[str, str] = {}
ALL = sys.maxsize  # of the objects there are

decode: Callable[[bytes], RawObject] = msgspec.json.Decoder(RawObject).decode
encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


@dataclass(slots=True, eq=False)
class Record:
    """One version of one object."""

    key: Key
    rv: int
    data: bytes
    uid: str
    labels: Mapping[str, str]
    fields: Mapping[str, str]


@dataclass(slots=True, eq=False)
class WatchEvent:
    """One change. `prev` is the version before it; `frames` what watchers were sent, encoded once."""

    type: str
    record: Record
    prev: Record | None
    frames: dict[object, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes that are kept because of it: its own, and those of the version before."""
        return _OVERHEAD + len(self.record.data) + (len(self.prev.data) if self.prev is not None else 0)


class WatchListener(Protocol):
    """Hears of every change of a bucket once it is committed."""

    def offer(self, event: WatchEvent) -> None: ...

    def close(self) -> None: ...


class WatchHistory:
    """The most recent changes of one kind of resource, oldest first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.events: deque[WatchEvent] = deque()
        self.size = 0  # bytes
        self._framed: deque[WatchEvent] = deque()  # whose frames are kept
        self._framed_size = 0
        self.trimmed = 0  # the version of the newest change that is no longer here

    def append(self, event: WatchEvent) -> WatchEvent | None:
        """Add a change; the one that had to go for it, if any."""
        size = event.size
        self.events.append(event)
        self.size += size
        self._framed.append(event)
        self._framed_size += size
        while len(self._framed) > _SHARED or (self._framed_size > _SHARED_BYTES and len(self._framed) > 1):
            old = self._framed.popleft()
            self._framed_size -= old.size
            old.frames.clear()
        return self.trim() if len(self.events) > self.limit else None

    def trim(self) -> WatchEvent:
        """Take the oldest change out."""
        gone = self.events.popleft()
        self.size -= gone.size
        self.trimmed = gone.record.rv
        return gone

    def reaches(self, rv: int) -> bool:
        """Whether every change after `rv` is still here."""
        return rv >= self.trimmed

    def after(self, rv: int) -> list[WatchEvent]:
        """The changes after `rv`, oldest first."""
        return list(self.newest_first(rv))[::-1]

    def newest_first(self, rv: int) -> Iterator[WatchEvent]:
        for event in reversed(self.events):
            if event.record.rv <= rv:
                return
            yield event


def no_fields(_obj: RawObject) -> Mapping[str, str]:
    return NO_LABELS


class QueuedWrite(NamedTuple):
    """What a write that is not committed yet makes of an object; no record if it goes."""

    rv: int
    record: Record | None
    done: asyncio.Future[None]


class Bucket:
    """The objects of one kind of resource, whatever versions it is served in."""

    def __init__(self, name: str, limit: int) -> None:
        self.name = name
        self.records: dict[Key, Record] = {}  # committed
        self.keys: list[Key] = []  # of `records`, sorted
        self.queued: dict[Key, QueuedWrite] = {}  # newer than `records`
        self.changes = 0  # grows whenever the newest state of an object becomes another
        self.history = WatchHistory(limit)
        self.listeners: set[WatchListener] = set()
        self.fields: Fields = no_fields

    def record(self, key: Key, rv: int, data: bytes, obj: RawObject) -> Record:
        """An object, of which `data` is the encoded form, as it is kept."""
        metadata = obj.get("metadata") or {}
        labels = metadata.get("labels") or NO_LABELS
        return Record(key, rv, data, metadata.get("uid", ""), labels, self.fields(obj))

    def newest(self, key: Key) -> Record | None:
        """The object as the last accepted write left it, committed or not."""
        queued = self.queued.get(key)
        return queued.record if queued is not None else self.records.get(key)

    def waiting(self, key: Key) -> asyncio.Future[None] | None:
        """Done when the newest state of an object is committed; None if it is.

        Whoever answers with that state without changing it has to wait for it all the same.
        """
        queued = self.queued.get(key)
        return queued.done if queued is not None else None

    def newest_in(self, namespace: str) -> list[Record]:
        """All objects of a namespace (all there are, if it is empty) with queued writes applied."""
        found = {record.key: record for record in self.in_namespace(namespace)}
        for key, queued in self.queued.copy().items():
            if namespace and key[0] != namespace:
                continue
            if queued.record is None:
                found.pop(key, None)
            else:
                found[key] = queued.record
        return list(found.values())

    def in_namespace(self, namespace: str) -> list[Record]:
        """Committed objects in key order; in another thread than the loop's some may be missing."""
        keys = self.keys[slice(*self._range(namespace))]
        with contextlib.suppress(KeyError):
            return list(map(self.records.__getitem__, keys))
        return [record for record in map(self.records.get, keys) if record is not None]

    def _range(self, namespace: str) -> tuple[int, int]:
        """Where the keys of a namespace stand."""
        if not namespace:
            return 0, len(self.keys)
        low = bisect.bisect_left(self.keys, (namespace, ""))
        return low, bisect.bisect_left(self.keys, (namespace + "\0", ""))

    def page_at(
        self, rv: int, namespace: str, after: Key | None = None, limit: int = ALL
    ) -> tuple[list[Record], int] | None:
        """Up to `limit` objects behind a key as they were at version `rv`, in key order, and how many more.

        None if that cannot be told any more.
        """
        then = self._changed_since(rv)
        if then is None:
            return None
        low, high = self._range(namespace)
        if after is not None:
            low = max(low, bisect.bisect_right(self.keys, after))
        # However many of these were not there then, enough are left.
        keys = self.keys[low : min(high, low + limit + len(then))]
        count = max(high - low, 0)
        if not then:
            return [self.records[key] for key in keys], count - len(keys)
        found = {key: self.records[key] for key in keys}
        for key, record in then.items():
            if (namespace and key[0] != namespace) or (after is not None and key <= after):
                continue
            count += (record is not None) - (key in self.records)
            found.pop(key, None)
            if record is not None:
                found[key] = record
        shown = [found[key] for key in sorted(found)[:limit]]
        return shown, count - len(shown)

    def _changed_since(self, rv: int) -> dict[Key, Record | None] | None:
        """What has changed since a version, as it was then; None if that cannot be told any more."""
        if not self.history.reaches(rv):
            return None
        then: dict[Key, Record | None] = {}
        for event in self.history.newest_first(rv):
            if event.type != ADDED and (event.prev is None or not event.prev.data):
                return None  # read back from disk, where the previous version is not kept
            then[event.record.key] = event.prev
        return then

    def restore(self, row: Row) -> list[int]:
        """Take in a change that is older than the history; the versions it makes useless."""
        key, deleted = (row.namespace, row.name), row.type == DELETED
        before = self.records.get(key)
        self._set(key, None if deleted else self.record(key, row.rv, row.data, decode(row.data)))
        useless = [row.rv] if deleted else []
        return [*useless, before.rv] if before is not None else useless

    def _set(self, key: Key, record: Record | None) -> None:
        """Put a version in the place of the one that was committed; without one the object is gone."""
        if record is not None:
            if key not in self.records:
                bisect.insort(self.keys, key)
            self.records[key] = record
        elif self.records.pop(key, None) is not None:
            del self.keys[bisect.bisect_left(self.keys, key)]

    def event_of(self, row: Row) -> WatchEvent:
        """A change as it is read back from disk."""
        key = (row.namespace, row.name)
        record = self.record(key, row.rv, row.data, decode(row.data))
        prev = self.records.get(key)
        if prev is None and row.prev is not None:
            labels, fields = msgspec.json.decode(row.prev)
            # Enough for selectors; the bytes of this version are gone, see `_changed_since`.
            prev = Record(key, 0, b"", record.uid, labels, fields)
        return WatchEvent(row.type, record, prev)

    def apply(self, event: WatchEvent) -> list[int]:
        """Take in a committed change; the versions that are of no use on disk any more because of it."""
        record = event.record
        key = record.key
        self._set(key, None if event.type == DELETED else record)
        queued = self.queued.get(key)
        if queued is not None and queued.rv == record.rv:
            del self.queued[key]
        useless = []
        prev = event.prev
        if prev is not None and prev.rv <= self.history.trimmed:
            useless.append(prev.rv)
        gone = self.history.append(event)
        return useless if gone is None else useless + self._left_by(gone)

    def _left_by(self, gone: WatchEvent) -> list[int]:
        """The version that is of no use on disk any more once a change has left the history."""
        return [] if self.records.get(gone.record.key) is gone.record else [gone.record.rv]

    def trim(self) -> list[int]:
        """Forget the oldest change; the versions that are of no use on disk any more."""
        return self._left_by(self.history.trim())
