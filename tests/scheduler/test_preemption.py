"""What a pod is told for which room is made."""

from __future__ import annotations

from typing import Any

import pytest

from berth.engine.state.options import Options
from berth.kube.api_resources import BUDGETS, PODS
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


def test_who_started_last_goes_first_also_when_it_is_said_later() -> None:
    """What was found out about a node for one pod is not used for the next once a pod there has started."""
    story = among_others("n1", "n2", "n3")
    for number, node in enumerate(("n1", "n2", "n3")):
        story.running(f"on-{node}", node, cpu="3", priority=0)
        story.change(PODS, f"on-{node}", {"status": {"startTime": f"2026-01-01T0{number}:00:00Z"}})
    story.pod("first", cpu="3", priority=10)
    story.settle()
    assert story.nominated("first") == "n3"
    story.change(PODS, "on-n1", {"status": {"startTime": "2026-01-01T09:00:00Z"}})
    story.pod("second", cpu="3", priority=10)
    story.settle()
    assert story.nominated("second") == "n1"


@pytest.mark.parametrize("change", ["allows less", "is another's", "is new"])
def test_budgets_that_change_between_two_preemptors(change: str) -> None:
    """What was found out about a node for one pod is not used for the next once a budget says otherwise."""
    story = among_others("n1", "n2", "n3")
    for name, node in (("z", "n3"), ("b", "n2"), ("a", "n1")):
        story.running(name, node, cpu="3", priority=0, labels={"app": name})
        story.change(PODS, name, {"status": {"startTime": f"2026-01-0{node[1]}T00:00:00Z"}})
    if change != "is new":
        app = "b" if change == "allows less" else "nobody"
        story.create(BUDGETS, budget(app, allowed=1 if change == "allows less" else 0))
    story.pod("first", cpu="3", priority=10)
    story.settle()
    assert story.nominated("first") == "n3"
    if change == "is new":
        story.create(BUDGETS, budget("b", allowed=0))
    else:
        story.change(BUDGETS, "guard", {key: budget("b", allowed=0)[key] for key in ("spec", "status")})
    story.pod("second", cpu="3", priority=10)
    story.settle()
    assert story.nominated("second") == "n1", "n2 has the later start, but its pod is protected now"


def among_others(*names: str) -> SchedulerScript:
    """A cluster in which these are few of many nodes, so that what was found out about them is kept."""
    story = SchedulerScript()
    story.nodes(*names)
    story.nodes(*(f"taken-{i}" for i in range(20)), unschedulable=True)
    return story


def budget(app: str, allowed: int) -> dict[str, Any]:
    return {
        "metadata": {"name": "guard"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": app}}},
        "status": {"disruptionsAllowed": allowed},
    }
