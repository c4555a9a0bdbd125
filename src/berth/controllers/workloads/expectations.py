"""Creations and deletions that were asked for but not yet seen in the watch.

Until they are seen a controller's picture of its pods is out of date; deciding on it would create
or delete too many.  Upstream: pkg/controller/controller_utils.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

TIMEOUT = 300.0


@dataclass(slots=True)
class _Expected:
    until: float
    creations: int = 0
    deletions: set[str] = field(default_factory=set)

    @property
    def fulfilled(self) -> bool:
        return self.creations <= 0 and not self.deletions


class Expectations:
    """By the uid of the owner."""

    def __init__(self) -> None:
        self._by_owner: dict[str, _Expected] = {}

    def expect_creation(self, owner: str, now: float) -> None:
        self._of(owner, now).creations += 1

    def expect_deletion(self, owner: str, uid: str, now: float) -> None:
        self._of(owner, now).deletions.add(uid)

    def created(self, owner: str) -> None:
        """A creation was seen, or it failed."""
        expected = self._by_owner.get(owner)
        if expected is not None:
            expected.creations -= 1
            self._drop_fulfilled(owner, expected)

    def deleted(self, owner: str, uid: str) -> None:
        """A deletion was seen, or it failed."""
        expected = self._by_owner.get(owner)
        if expected is not None:
            expected.deletions.discard(uid)
            self._drop_fulfilled(owner, expected)

    def pending_until(self, owner: str, now: float) -> float | None:
        """Until when to wait, None if there is nothing to wait for."""
        expected = self._by_owner.get(owner)
        if expected is None:
            return None
        if expected.until <= now:
            del self._by_owner[owner]
            return None
        return expected.until

    def forget(self, owner: str) -> None:
        self._by_owner.pop(owner, None)

    def _of(self, owner: str, now: float) -> _Expected:
        expected = self._by_owner.get(owner)
        if expected is None:
            expected = self._by_owner[owner] = _Expected(now + TIMEOUT)
        expected.until = now + TIMEOUT
        return expected

    def _drop_fulfilled(self, owner: str, expected: _Expected) -> None:
        if expected.fulfilled:
            del self._by_owner[owner]
