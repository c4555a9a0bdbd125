"""What a machine did and why, kept for a while: asked by tests, by explanations and in bug reports."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass

_LENGTH = 4096


@dataclass(frozen=True, slots=True)
class StoryEntry:
    at: float
    key: Hashable
    what: str
    why: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.why})" if self.why else self.what


class Story:
    def __init__(self, length: int = _LENGTH) -> None:
        self._entries: deque[StoryEntry] = deque(maxlen=length)

    def tell(self, at: float, key: Hashable, what: str, why: str = "") -> None:
        self._entries.append(StoryEntry(at, key, what, why))

    def of(self, key: Hashable) -> list[str]:
        """What happened to one key, oldest first."""
        return [str(entry) for entry in self._entries if entry.key == key]

    def __iter__(self) -> Iterator[StoryEntry]:
        return iter(self._entries)
