"""Which nodes changed, for readers that keep up at their own pace."""

from __future__ import annotations


class ChangeLog:
    """The node slots that changed, in order; readers remember how far they have read."""

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._start = 0

    @property
    def end(self) -> int:
        return self._start + len(self._entries)

    def append(self, slot: int) -> None:
        self._entries.append(slot)

    def since(self, position: int) -> list[int] | None:
        """The slots changed since `position`, None if that is too long ago."""
        return None if position < self._start else self._entries[position - self._start :]

    def trim(self, keep: int) -> None:
        if len(self._entries) > 2 * keep:
            drop = len(self._entries) - keep
            del self._entries[:drop]
            self._start += drop
