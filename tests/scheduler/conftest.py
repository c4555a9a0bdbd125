"""Every transition that a test of the scheduler makes is one that docs/design/control-plane.md lists."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from berth.scheduler.queue import QueuedPod, SchedulingPhase, SchedulingQueue
from tests.support.scripts.phases import table_of_phases


@pytest.fixture(scope="package", autouse=True)
def listed_transitions() -> Iterator[None]:
    """Fail in the end if a pod went from a phase to one that does not follow it in the table."""
    table, seen = table_of_phases(), set[tuple[str, str]]()
    become = SchedulingQueue._become

    def noted(queue: SchedulingQueue, record: QueuedPod, phase: SchedulingPhase) -> None:
        seen.add((record.phase.value, phase.value))
        become(queue, record, phase)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(SchedulingQueue, "_become", noted)
        yield
    assert {(before, after) for before, after in seen if after not in {before, *table[before]}} == set()
