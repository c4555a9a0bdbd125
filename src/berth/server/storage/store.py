"""All objects, in memory as committed and on disk through the journal.

Everything here runs in the event loop's thread, and proposing a write involves no await: a
handler that looked at the newest state and proposes a change cannot be overtaken.  The newest
state includes what is queued for the disk; `Bucket.records` and watches show committed state only.
Optimistic concurrency is the handlers' business; this module numbers, orders and keeps.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import msgspec

from berth.kube.objects import Key, RawObject
from berth.kube.well_known import ADDED, DELETED, MODIFIED
from berth.server import errors
from berth.server.settings import OBJECT_LIMIT
from berth.server.storage.bucket import Bucket, Fields, QueuedWrite, Record, WatchEvent, decode, encode
from berth.server.storage.journal import Batch, Journal, Row

_T = TypeVar("_T")

_HISTORY_BYTES = 64 * 1024 * 1024
_TRIMMED = 16  # changes forgotten at once when the bytes are too many
_CLEANING = 256  # useless rows that are worth a visit
_A_MOMENT = 0.5  # seconds between two looks at whether the store was closed

_log = logging.getLogger(__name__)


class Store:
    """All buckets and the one count of versions; a write is visible once it is on disk, not before."""

    def __init__(
        self,
        data_dir: Path,  # of the journal, which locks it
        *,
        event_limit: int,  # changes kept for watches, per bucket
        fields: Mapping[str, Fields],  # what can be selected by, per bucket
        # What to make of objects on disk, for buckets where a server of another version may have left others.
        converted: Mapping[str, Callable[[RawObject], RawObject]] | None = None,
        history_bytes: int = _HISTORY_BYTES,  # that the changes kept may have in all
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
            found.fields = self._fields.get(name, found.fields)
            # A resource that appears later has no history that anyone could have missed.
        return found

    def _load(self) -> None:
        self._expired = self._journal.expired()
        for name, rv in self._expired.items():
            self.bucket(name).history.trimmed = rv
        useless: list[int] = []
        for row in self._journal.rows():
            try:
                convert = self._converted.get(row.bucket)
                read = row._replace(data=encode(convert(decode(row.data)))) if convert is not None else row
                bucket = self.bucket(row.bucket)
                self._newest = self.rv = row.rv
                old = row.rv <= bucket.history.trimmed
                useless += bucket.restore(read) if old else self._applied(bucket, bucket.event_of(read))
            except (msgspec.MsgspecError, UnicodeDecodeError, TypeError, AttributeError, RecursionError):
                raise self._journal.damaged(row) from None
        self._dropped = [rv for rv in useless if rv != self.rv]  # the newest row keeps the count
        self._check_marks()

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
            # Clients that saw lost writes must list again.
            self.rv = max(marks.reserved, marks.acknowledged)
            for bucket in self.buckets.values():
                bucket.history.trimmed = self.rv
            self._behind.update(self.buckets)
            marks.settle(newest)
        self._newest = max(newest, marks.reserved, self.rv)

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
        """Propose an object's new version, which is numbered here, in `obj` too; 413 if it is too large.

        The future is done when the version is on disk and visible.
        """
        return self._propose(bucket, ADDED if bucket.newest(key) is None else MODIFIED, key, obj)

    def remove(self, bucket: Bucket, key: Key, obj: RawObject) -> tuple[Record, asyncio.Future[None]]:
        """Propose that an object goes; `obj` is its last state, as watchers shall see it."""
        return self._propose(bucket, DELETED, key, obj)

    def _propose(
        self, bucket: Bucket, kind: str, key: Key, obj: RawObject
    ) -> tuple[Record, asyncio.Future[None]]:
        if self._loop is None:
            raise RuntimeError("the store is not started")
        self._newest += 1
        rv = self._newest
        obj["metadata"]["resourceVersion"] = str(rv)
        data = encode(obj)
        if len(data) > OBJECT_LIMIT and kind != DELETED:
            raise errors.too_large(OBJECT_LIMIT)
        record = bucket.record(key, rv, data, obj)
        event = WatchEvent(kind, record, bucket.newest(key))
        batch = self._open
        if batch is None:
            batch = self._open = Batch(self._epoch, self._loop.create_future())
            self._loop.call_soon(self._flush)
        bucket.changes += 1
        bucket.queued[key] = QueuedWrite(rv, None if kind == DELETED else record, batch.done)
        batch.events.append((bucket, event))
        batch.rows.append(Row(rv, bucket.name, *key, kind, data, _seen_before(event)))
        return record, batch.done

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
        """Pass the outcome of a commit to the event loop; called in the journal's thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._settle, batches, error)

    def _settle(self, batches: list[Batch], error: Exception | None) -> None:
        if error is not None:
            self._forget(batches, error)
            return
        for batch in batches:
            for bucket, event in batch.events:
                self._dropped += self._applied(bucket, event)
                self.rv = event.record.rv
                for listener in tuple(bucket.listeners):
                    listener.offer(event)
            if not batch.done.done():
                batch.done.set_result(None)

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
            if not batch.done.done():
                batch.done.set_exception(error)
                batch.done.exception()  # a client that left does not ask


def _seen_before(event: WatchEvent) -> bytes | None:
    prev = event.prev
    if prev is None or (prev.labels == event.record.labels and prev.fields == event.record.fields):
        return None
    return encode([prev.labels, prev.fields])
