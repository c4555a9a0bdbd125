"""The stream of changes: numbered and kept for a while, so that a page can go on after a lost connection."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections import deque
from collections.abc import AsyncGenerator

import msgspec

_KEPT_BYTES = 8 << 20
_PIECE = 64 << 10  # bytes that are handed out at once
_MOST_READERS = 256
_STAY = 60.0  # seconds after which a reader may be disconnected so that another gets its place
_RETRY, _SOON = 30_000, 1_000  # milliseconds until a page that was refused, or disconnected, tries again
_FULL = {"error": f"{_MOST_READERS} pages are open, and no more can be kept up to date: close some."}
_HEARTBEAT = 15.0  # seconds of silence after which a comment is sent


class ChangeStream:
    """Server-sent events for any number of pages; each message is encoded once for all.

    An id is the name of this stream and a number, since another process counts from the start.
    """

    def __init__(self) -> None:
        self._name = secrets.token_hex(4)
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque()
        self._bytes = 0
        self._news = asyncio.Event()
        self._ended = False
        self._places: dict[object, float] = {}  # of readers, the oldest first, and since when

    @property
    def readers(self) -> int:
        return len(self._places)

    @property
    def position(self) -> str:
        """The id of the last message: a page with an overview of this moment continues from here."""
        return f"{self._name}-{self._number}"

    def tell(self, kind: str, data: object) -> None:
        self._number += 1
        payload = msgspec.json.encode(data)
        message = b"id: %b\nevent: %b\ndata: %b\n\n" % (self.position.encode(), kind.encode(), payload)
        self._kept.append((self._number, message))
        self._bytes += len(message)
        while self._bytes > _KEPT_BYTES and len(self._kept) > 1:
            self._bytes -= len(self._kept.popleft()[1])
        self._wake()

    def end(self) -> None:
        """End the stream for all readers."""
        self._ended = True
        self._news.set()

    async def follow(self, since: str) -> AsyncGenerator[bytes, None]:
        """Messages after a position; if they are no longer kept, a message to load everything anew.

        They come in small pieces, to a limited number of readers, so that slow readers take little memory.
        Once all places are taken, the oldest reader is disconnected: if its page is still open it comes back
        and continues.
        """
        if not self._has_room():
            yield b"retry: %d\nevent: refused\ndata: %b\n\n" % (_RETRY, msgspec.json.encode(_FULL))
            return
        place = object()
        self._places[place] = time.monotonic()
        try:
            number = self._resumed(since)
            if number is None:
                number = self._number
                yield self._reset()
            while not self._ended and place in self._places:
                news = self._news
                found = self._after(number)
                if found and found[0][0] != number + 1:  # the reader is too slow
                    number = self._number
                    yield self._reset()
                elif found:
                    number = found[-1][0]
                    content = b"".join(message for _, message in found)
                    for start in range(0, len(content), _PIECE):
                        yield content[start : start + _PIECE]
                else:
                    try:
                        await asyncio.wait_for(news.wait(), _HEARTBEAT)
                    except TimeoutError:
                        yield b"retry: %d\n: still here\n\n" % _SOON
            yield b"retry: %d\n\n" % _SOON
        finally:
            self._places.pop(place, None)

    def _has_room(self) -> bool:
        """Whether a reader gets a place, if need be that of the reader who has had one the longest."""
        if self.readers < _MOST_READERS:
            return True
        oldest, since = next(iter(self._places.items()))
        if time.monotonic() - since < _STAY:
            return False
        del self._places[oldest]
        self._wake()
        return True

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _reset(self) -> bytes:
        return b"id: %b\nevent: reset\ndata: {}\n\n" % self.position.encode()

    def _after(self, number: int) -> list[tuple[int, bytes]]:
        """The messages after a position, up to the size of a piece."""
        # From the end: most readers lack only the newest ones.
        newer = list(itertools.takewhile(lambda each: each[0] > number, reversed(self._kept)))
        found: list[tuple[int, bytes]] = []
        size = 0
        while newer and size < _PIECE:
            found.append(newer.pop())
            size += len(found[-1][1])
        return found

    def _resumed(self, since: str) -> int | None:
        name, _, number = since.partition("-")
        if name != self._name or not number.isdecimal() or len(number) > 18:
            return None
        found = int(number)
        oldest = self._kept[0][0] if self._kept else self._number + 1
        return found if oldest - 1 <= found <= self._number else None
