"""What a pod is told for which room is made."""

from __future__ import annotations

import pytest

from berth.engine.state.options import Options
from berth.kube.versions import VERSIONS
from tests.support.scripts.scheduler import SchedulerScript

REFUSED = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("1.36", REFUSED),
        (
            "1.37",
            f"{REFUSED} preemption: found a potential placement for pod on node n1, preempting 2 victims",
        ),
    ],
)
def test_room_that_was_found(version: str, told: str) -> None:
    """Since 1.37 the event and the condition say where, and at how many pods' expense."""
    story = SchedulerScript(profiles={"berth": Options(version=VERSIONS[version])})
    story.nodes("n1")
    for name in ("a", "b"):
        story.running(name, "n1", cpu="2", priority=0)
    story.pod("urgent", cpu="4", priority=1000)
    story.settle()
    assert story.nominated("urgent") == "n1"
    assert story.condition("urgent") == ("Unschedulable", told)
    assert story.events("FailedScheduling") == [told]
