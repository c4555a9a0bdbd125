"""The phases of a pod are those of docs/design/control-plane.md."""

from __future__ import annotations

from berth.scheduler.queue import SchedulingPhase
from tests.support.scripts.phases import table_of_phases


def test_the_table_lists_every_phase() -> None:
    """The table has a row for every phase there is, and what comes next is always one of them."""
    table = table_of_phases()
    phases = {phase.value for phase in SchedulingPhase}
    assert table.keys() == phases
    assert set().union(*table.values()) <= phases
