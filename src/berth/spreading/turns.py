"""Whose turn it is to move a pod: one group after the other, in a circle, as a plan of all of them has it.

A turn ends when the replacement has a node.  So each move is judged by where the last one landed, and what is
done is what was planned.  Nobody is waited for longer than a while: whoever is held up, by a rate,
a halt or a container that does not start, may go later, and is not in the way of the others until then.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from berth.kube.objects import Key

PATIENCE = 60.0  # for whoever has the turn, or is next and not Ready yet


class Turns:
    """The order of the groups.

    Attributes:
        given: Who may move now, and since when; the last of them has the turn.
        asked: Who was asked since the last replacement landed, and has nobody to move.
        landed: When that was.
    """

    def __init__(self) -> None:
        self._last: Key | None = None
        self.given: dict[Key, float] = {}
        self.asked: set[Key] = set()
        self.landed = 0.0

    def in_order(self, keys: Iterable[Key]) -> list[Key]:
        """The groups that are to be asked, the next one first."""
        ordered = sorted(keys)
        start = bisect_right(ordered, self._last) if self._last is not None else 0
        return [key for key in (*ordered[start:], *ordered[:start]) if key not in self.asked]

    def give(self, key: Key, now: float) -> None:
        self._last = key
        self.given.pop(key, None)
        self.given[key] = now

    def taken_until(self, now: float) -> float | None:
        """Until when somebody has the turn; None if it is free."""
        since = next(reversed(self.given.values()), None)
        return since + PATIENCE if since is not None and now < since + PATIENCE else None

    def end(self, key: Key, landed: float | None = None) -> None:
        """A group moves nobody any more, or its replacement landed, at that time."""
        self.given.pop(key, None)
        if landed is not None:
            self.landed = landed
            self.asked.clear()

    def rest(self) -> None:
        """Nobody has anybody to move: the circle begins anew."""
        self._last = None
