"""Why a binding could not be placed, in the words and classes of Karmada's Scheduled condition."""

from __future__ import annotations

NO_CLUSTER_FIT = "NoClusterFit"


class PlacementError(Exception):
    """`reason` and `message` are those of the condition."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message

    def within(self, what: str) -> PlacementError:
        """The same failure, seen from the step that it happened in."""
        return PlacementError(self.reason, f"{what}: {self.message}")
