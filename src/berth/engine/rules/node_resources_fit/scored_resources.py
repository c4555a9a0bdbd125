"""The resources that count when an allocation is scored."""

from __future__ import annotations

from dataclasses import dataclass

from berth.engine.state.arrays import Int64Array, Slots
from berth.engine.state.requests import is_scalar
from berth.engine.state.tables import NodeTable
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """A resource that counts.

    Attributes:
        row: Its row in the node table.
        wanted: What the incoming pod adds.
        nonzero_row: Its row among the loads that have a floor, None if it is not among them.
    """

    row: int
    wanted: int
    weight: int = 1
    nonzero_row: int | None = None

    def used(self, nodes: NodeTable, slots: Slots) -> Int64Array:
        used: Int64Array = (
            nodes.requested[self.row, slots]
            if self.nonzero_row is None
            else nodes.nonzero[self.nonzero_row, slots]
        )
        return used

    def used_at(self, nodes: NodeTable, slot: int) -> int:
        if self.nonzero_row is None:
            return nodes.requested.item(self.row, slot)
        return nodes.nonzero.item(self.nonzero_row, slot)


def counts(name: str, wanted: int) -> bool:
    """A scalar resource counts if the pod asks for it, and names the scheduler does not track never do."""
    return wanted > 0 if is_scalar(name) else name in (CPU, MEMORY, EPHEMERAL_STORAGE)
