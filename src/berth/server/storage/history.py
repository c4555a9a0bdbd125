"""Objects as the store holds them, and the bounded history of their changes, which watches read.

An object is kept encoded; beside the bytes stands only what finding it takes: labels and the
fields a field selector may name.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from berth.kube.objects import Key

_SHARED = 256  # changes whose encoded frames are kept for watchers that are a little behind
_SHARED_BYTES = 8 * 1024 * 1024  # that these frames may have for every form that is watched
_OVERHEAD = 500  # bytes of a change beside its objects
NO_LABELS: Mapping[str, str] = {}


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
