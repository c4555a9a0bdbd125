"""All objects, in memory as committed and on disk through the journal.

Everything here runs in the event loop's thread, and proposing a write involves no await: a
handler that looked at the newest state and proposes a change cannot be overtaken.  The newest
state includes what is queued for the disk; `Bucket.records` and watches show committed state only.
Optimistic concurrency is the handlers' business; this module numbers, orders and keeps.
"""

from __future__ import annotations

import asyncio
import bisect
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from berth.kube.objects import Key, RawObject
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.server import errors
from berth.server.settings import DEFAULT_HISTORY_BYTES, OBJECT_LIMIT
from berth.server.storage.history import NO_LABELS, Record, WatchEvent, WatchHistory, WatchListener
from berth.server.storage.journal import Batch, Journal, Row

Fields = Callable[[RawObject], Mapping[str, str]]

_T = TypeVar("_T")

_TRIMMED = 16  # changes forgotten at once when the bytes are too many
_CLEANING = 256  # useless rows that are worth a visit
_A_MOMENT = 0.5  # seconds between two looks at whether the store was closed

_log = logging.getLogger(__name__)

decode: Callable[[bytes], RawObject] = msgspec.json.Decoder(RawObject).decode
encode: Callable[[object], bytes] = msgspec.json.Encoder().encode


def no_fields(_obj: RawObject) -> Mapping[str, str]:
    return NO_LABELS


class _Queued(NamedTuple):
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
        self.queued: dict[Key, _Queued] = {}  # newer than `records`
        self.changes = 0  # grows whenever the newest state of an object becomes another
        self.history = WatchHistory(limit)
        self.listeners: set[WatchListener] = set()
        self.fields: Fields = no_fields

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
        queued = {key: queued.record for key, queued in self.queued.copy().items()}
        return list(self._with(queued, namespace).values())

    def _with(self, changed: Mapping[Key, Record | None], namespace: str) -> dict[Key, Record]:
        """The committed objects of a namespace where others are in the place of some, or nothing is."""
        found = {record.key: record for record in self.in_namespace(namespace)}
        for key, record in changed.items():
            if namespace and key[0] != namespace:
                continue
            if record is None:
                found.pop(key, None)
            else:
                found[key] = record
        return found

    def in_namespace(self, namespace: str) -> list[Record]:
        """Committed objects in key order; in another thread than the loop's some may be missing."""
        keys = self.keys_in(namespace)
        with contextlib.suppress(KeyError):
            return list(map(self.records.__getitem__, keys))
        return [record for record in map(self.records.get, keys) if record is not None]

    def keys_in(self, namespace: str) -> list[Key]:
        return self.keys[slice(*self._range(namespace))]

    def _range(self, namespace: str) -> tuple[int, int]:
        """Where the keys of a namespace stand."""
        if not namespace:
            return 0, len(self.keys)
        low = bisect.bisect_left(self.keys, (namespace, ""))
        return low, bisect.bisect_left(self.keys, (namespace + "\0", ""))

    def at(self, rv: int, namespace: str) -> list[Record] | None:
        """The objects as they were at version `rv`, in key order; None if that cannot be told any more."""
        then = self._changed_since(rv)
        if not then:
            return then if then is None else self.in_namespace(namespace)
        records = self._with(then, namespace)
        return [records[key] for key in sorted(records)]

    def page_at(
        self, rv: int, namespace: str, after: Key | None, limit: int
    ) -> tuple[list[Record], int] | None:
        """Up to `limit` objects behind a key as they were at a version, and how many more; None as `at`."""
        then = self._changed_since(rv)
        if then is None:
            return None
        low, high = self._range(namespace)
        if after is not None:
            low = max(low, bisect.bisect_right(self.keys, after))
        # However many of these were not there then, enough are left.
        keys = self.keys[low : min(high, low + limit + len(then))]
        found = {key: record for key in keys if (record := self.records.get(key)) is not None}
        count = max(high - low, 0)
        for key, record in then.items():
            if (namespace and key[0] != namespace) or (after is not None and key <= after):
                continue
            count += (record is not None) - (key in self.records)
            found.pop(key, None)
            if record is not None:
                found[key] = record
        shown = [found[key] for key in (sorted(found) if then else found)][:limit]
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
        key = (row.namespace, row.name)
        before = self.records.pop(key, None)
        if row.type != DELETED:
            self.records[key] = _record(key, row.rv, row.data, decode(row.data), self.fields)
            if before is None:
                bisect.insort(self.keys, key)
        elif before is not None:
            del self.keys[bisect.bisect_left(self.keys, key)]
        useless = [row.rv] if row.type == DELETED else []
        return [*useless, before.rv] if before is not None else useless

    def apply(self, event: WatchEvent) -> list[int]:
        """Take in a committed change; the versions that are of no use on disk any more because of it."""
        record = event.record
        key = record.key
        if event.type == DELETED:
            if self.records.pop(key, None) is not None:
                del self.keys[bisect.bisect_left(self.keys, key)]
        else:
            if key not in self.records:
                bisect.insort(self.keys, key)
            self.records[key] = record
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


@dataclass(slots=True)
class _Ticket:
    """What the loop has to do once a batch is on disk."""

    events: list[tuple[Bucket, WatchEvent]]
    done: asyncio.Future[None]


class Store:
    """All buckets and the one count of versions; a write is visible once it is on disk, not before.

    Args:
        data_dir: Where the journal is; nobody else has it from here on.
        event_limit: Changes kept for watches, per bucket.
        fields: What can be selected by, per bucket.
        converted: What to make of objects on disk, for buckets where another server may have left others.
        history_bytes: What the changes that are kept may have in all.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        event_limit: int,
        fields: Mapping[str, Fields],
        converted: Mapping[str, Callable[[RawObject], RawObject]] | None = None,
        history_bytes: int = DEFAULT_HISTORY_BYTES,
    ) -> None:
        self._limit, self._history_bytes = event_limit, history_bytes
        self._history_size = 0
        self._fields = fields
        self._converted = converted or {}
        self.buckets: dict[str, Bucket] = {}
        self._journal = Journal(data_dir)
        self._newest = self.rv = 0  # `rv` is committed
        self._epoch = 0
        self._open: Batch | None = None
        self._dropped: list[int] = []
        self._crowded = False  # what is dropped was large
        self._expired: dict[str, int] = {}  # up to where the history on disk counts as gone, by bucket
        self._behind: set[str] = set()  # buckets whose history may have gone further
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0  # of the loop
        self._closed = False
        try:
            self._load()
        except BaseException:
            self._journal.release()
            raise

    def bucket(self, name: str) -> Bucket:
        found = self.buckets.get(name)
        if found is None:
            found = self.buckets[name] = Bucket(name, self._limit)
            found.fields = self._fields.get(name, no_fields)
            # A resource that appears later has no history that anyone could have missed.
        return found

    def _load(self) -> None:
        self._expired = self._journal.expired()
        for name, rv in self._expired.items():
            self.bucket(name).history.trimmed = rv
        useless: list[int] = []
        for row in self._journal.rows():
            try:
                useless += self._restored(self._read(row))
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, AttributeError, RecursionError):
                raise self._journal.damaged(row) from None
        self._dropped = [rv for rv in useless if rv != self.rv]  # the newest row keeps the count
        self._check_marks()

    def _restored(self, row: Row) -> list[int]:
        self._newest = self.rv = row.rv
        bucket = self.bucket(row.bucket)
        if row.rv <= bucket.history.trimmed:
            return bucket.restore(row)
        return self._applied(bucket, _event_of(row, bucket))

    def _check_marks(self) -> None:
        """Notice what is missing, and use no version again that somebody may have seen."""
        marks, newest = self._journal.marks, self.rv
        if not marks.known:
            marks.settle(newest)
        elif marks.acknowledged > newest:
            _log.error(
                "%d acknowledged writes are lost (versions %d to %d): the database in %s was damaged; "
                "what is left is served, and to have the rest put back a copy",
                marks.acknowledged - newest,
                newest + 1,
                marks.acknowledged,
                marks.path.parent,
            )
            # Whoever has seen what is lost has to look again.
            self.rv = max(marks.reserved, marks.acknowledged)
            for bucket in self.buckets.values():
                bucket.history.trimmed = self.rv
            self._behind.update(self.buckets)
            marks.settle(newest)
        self._newest = max(newest, marks.reserved, self.rv)

    def _read(self, row: Row) -> Row:
        convert = self._converted.get(row.bucket)
        return row if convert is None else row._replace(data=encode(convert(decode(row.data))))

    # --- life

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self._thread = loop, threading.get_ident()
        self._journal.start(self._outcome)

    def close(self) -> None:
        """Write what is queued and let go of the directory; harmless to repeat."""
        if not self._closed:
            self._closed = True
            self._flush()
            self._journal.close(self._newest)

    # --- writing

    def in_turn(self, act: Callable[[], _T]) -> _T:
        """Do something in the loop's thread, from whichever this is called.

        Raises:
            RuntimeError: the store was closed before it could be done.
        """
        loop = self._loop
        if loop is None or threading.get_ident() == self._thread:
            return act()
        turn: concurrent.futures.Future[_T] = concurrent.futures.Future()

        def take_turn() -> None:
            try:
                turn.set_result(act())
            except Exception as error:  # noqa: BLE001 - it is whoever waits who has to know
                turn.set_exception(error)

        loop.call_soon_threadsafe(take_turn)
        while not self._closed:
            with contextlib.suppress(TimeoutError):
                return turn.result(_A_MOMENT)
        raise RuntimeError("the store is closed")

    def put(self, bucket: Bucket, key: Key, obj: RawObject) -> tuple[Record, asyncio.Future[None]]:
        """Propose an object's new version. It is numbered here, in `obj` too.

        The future is done when the version is on disk and visible.

        Raises:
            StatusError: the object is too large (413).
        """
        rv = self._number(obj)
        data = encode(obj)
        if len(data) > OBJECT_LIMIT:
            raise errors.too_large(OBJECT_LIMIT)
        record = _record(key, rv, data, obj, bucket.fields)
        prev = bucket.newest(key)
        event = WatchEvent(ADDED if prev is None else MODIFIED, record, prev)
        return record, self._propose(bucket, event, record)

    def remove(self, bucket: Bucket, key: Key, obj: RawObject) -> tuple[Record, asyncio.Future[None]]:
        """Propose that an object goes; `obj` is its last state, as watchers shall see it."""
        rv = self._number(obj)
        record = _record(key, rv, encode(obj), obj, bucket.fields)
        event = WatchEvent(DELETED, record, bucket.newest(key))
        return record, self._propose(bucket, event, None)

    def _number(self, obj: RawObject) -> int:
        self._newest += 1
        obj["metadata"]["resourceVersion"] = str(self._newest)
        return self._newest

    def _propose(self, bucket: Bucket, event: WatchEvent, newest: Record | None) -> asyncio.Future[None]:
        loop = self._loop
        if loop is None:
            raise RuntimeError("the store is not started")
        batch = self._open
        if batch is None:
            batch = self._open = Batch(self._epoch, ticket=_Ticket([], loop.create_future()))
            loop.call_soon(self._flush)
        ticket = batch.ticket
        assert isinstance(ticket, _Ticket)  # noqa: S101 - for the type checker
        record = event.record
        bucket.changes += 1
        bucket.queued[record.key] = _Queued(record.rv, newest, ticket.done)
        ticket.events.append((bucket, event))
        batch.rows.append(
            Row(record.rv, bucket.name, *record.key, event.type, record.data, _seen_before(event))
        )
        return ticket.done

    def _flush(self) -> None:
        batch, self._open = self._open, None
        if batch is not None:
            if len(self._dropped) >= (_TRIMMED if self._crowded else _CLEANING):
                batch.dropped, self._dropped, self._crowded = self._dropped, [], False
            batch.expired = self._expire()
            self._journal.submit(batch)

    def _applied(self, bucket: Bucket, event: WatchEvent) -> list[int]:
        """Take in a committed change; the versions that are of no use on disk any more.

        While the histories have more bytes than they may, the largest forgets its oldest changes.
        """
        before = bucket.history.size
        useless = bucket.apply(event)
        self._history_size += bucket.history.size - before
        if bucket.history.trimmed > self._expired.get(bucket.name, 0):
            self._behind.add(bucket.name)
        while self._history_size > self._history_bytes:
            largest = max(self.buckets.values(), key=lambda one: one.history.size)
            before = largest.history.size
            # A few at a time: to look for the largest takes longer than to trim it.
            for _ in range(min(_TRIMMED, len(largest.history.events) - 1)):
                useless += largest.trim()
            if largest.history.size == before:
                break
            self._history_size += largest.history.size - before
            self._behind.add(largest.name)
            self._crowded = True
        return useless

    def _expire(self) -> dict[str, int]:
        """Marks for buckets whose history has gone beyond the one on disk.

        They are set ahead, so that the disk hears of them now and then and not with every write.
        """
        marks: dict[str, int] = {}
        while self._behind:
            name = self._behind.pop()
            history = self.buckets[name].history
            if history.trimmed > self._expired.get(name, 0):
                events = history.events
                ahead = events[min(_CLEANING, len(events) // 4)].record.rv if events else 0
                marks[name] = self._expired[name] = max(ahead, history.trimmed)
        return marks

    def _outcome(self, batches: list[Batch], error: Exception | None) -> None:
        """In the journal's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, batches, error)

    def _settle(self, batches: list[Batch], error: Exception | None) -> None:
        if error is not None:
            self._forget(batches, error)
            return
        for batch in batches:
            ticket = batch.ticket
            assert isinstance(ticket, _Ticket)  # noqa: S101 - for the type checker
            for bucket, event in ticket.events:
                self._dropped += self._applied(bucket, event)
                self.rv = event.record.rv
                for listener in tuple(bucket.listeners):
                    listener.offer(event)
            if not ticket.done.done():
                ticket.done.set_result(None)

    def _forget(self, batches: list[Batch], error: Exception) -> None:
        """A commit failed: nothing queued counts, and what was built upon it is refused as well."""
        failed = list(batches)
        if any(batch.epoch == self._epoch for batch in batches):
            self._epoch += 1
            for bucket in self.buckets.values():
                bucket.changes += 1
                bucket.queued.clear()
            if self._open is not None:
                failed.append(self._open)
                self._open = None
        for batch in failed:
            ticket = batch.ticket
            if isinstance(ticket, _Ticket) and not ticket.done.done():
                ticket.done.set_exception(error)
                ticket.done.exception()  # a client that left does not ask


def _record(key: Key, rv: int, data: bytes, obj: RawObject, fields: Fields) -> Record:
    metadata = obj.get("metadata") or {}
    labels = metadata.get("labels") or NO_LABELS
    return Record(key, rv, data, metadata.get("uid", ""), labels, fields(obj))


def _seen_before(event: WatchEvent) -> bytes | None:
    prev = event.prev
    if prev is None or (prev.labels == event.record.labels and prev.fields == event.record.fields):
        return None
    return encode([prev.labels, prev.fields])


def _event_of(row: Row, bucket: Bucket) -> WatchEvent:
    key = (row.namespace, row.name)
    record = _record(key, row.rv, row.data, decode(row.data), bucket.fields)
    prev = bucket.records.get(key)
    if prev is None and row.prev is not None:
        labels, fields = msgspec.json.decode(row.prev)
        # Enough for selectors; the bytes of this version are gone, see Bucket.at.
        prev = Record(key, 0, b"", record.uid, labels, fields)
    return WatchEvent(row.type, record, prev)
