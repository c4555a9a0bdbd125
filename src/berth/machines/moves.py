"""What a machine that knows of better places tells the one that evicts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WantedMove:
    """A pod that should move though no rule demands it.

    Attributes:
        pod: ``namespace/name``.
        reason: In words.
        since: When it was found.
    """

    pod: str
    reason: str
    since: float


class MoveSource(Protocol):
    """Who wants pods to move; asked again and again, until the request is sent.

    Attributes:
        revision: Grows when other moves than before are wanted.
    """

    revision: int

    def wanted(self) -> Sequence[WantedMove]:
        """The moves that may be made now, the first of every group."""

    def wants(self, pod: str) -> bool:
        """Whether a pod should still move, as everything is at this moment."""

    def confirms(self, pod: str) -> bool:
        """The same, asked right before the eviction is sent: from then on it is under way."""


class NoMoves:
    """Nobody wants anything."""

    revision = 0

    def wanted(self) -> Sequence[WantedMove]:
        return ()

    def wants(self, pod: str) -> bool:
        del pod
        return False

    def confirms(self, pod: str) -> bool:
        return self.wants(pod)
