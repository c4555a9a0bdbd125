"""Pods that make room: less important ones go, nobody takes what they leave, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.engine.state.options import Options
from berth.kube.api_resources import BUDGETS, EVENTS, NODES, PODS
from berth.kube.versions import VERSIONS
from berth.machines.contract import Action, Outcome, Patch
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


def test_a_pod_is_not_tried_again_because_its_victims_begin_to_go() -> None:
    """What was said of the room that was found stays until one of them is gone."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("low", "n1", cpu="3", priority=0)
    story.pod("urgent", cpu="4", priority=1000)
    story.settle()
    told = story.events("FailedScheduling")
    assert {event["reason"]: event["action"] for event in story.all(EVENTS)} == {
        "FailedScheduling": "Scheduling",
        "Preempted": "Preempting",
    }
    story.advance(60)
    assert "deletionTimestamp" in story.get(PODS, "low")["metadata"]
    assert story.events("FailedScheduling") == told
    story.leave("low")
    story.settle()
    assert story.node_of("urgent") == "n1"


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


def test_less_important_pods_make_room() -> None:
    """A pod with a higher priority preempts, is nominated, and gets the node."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("low", "n1", cpu="3", priority=1)
    story.pod("high", cpu="3", priority=10)
    story.settle()
    assert story.nominated("high") == "n1"
    assert story.get(PODS, "low")["metadata"]["deletionTimestamp"]
    uid = story.get(PODS, "high")["metadata"]["uid"]
    assert story.events("Preempted") == [f"Preempted by pod {uid} on node n1"]
    conditions = story.get(PODS, "low")["status"]["conditions"]
    assert [c["reason"] for c in conditions if c["type"] == "DisruptionTarget"] == ["PreemptionByScheduler"]
    story.leave("low")
    story.advance(2)
    assert story.node_of("high") == "n1"


def test_nobody_lesser_takes_the_room_that_was_made() -> None:
    """Room made by preemption is kept from pods of lower priority."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("low", "n1", cpu="3", priority=1)
    story.pod("high", cpu="3", priority=10)
    story.settle()
    story.leave("low")
    story.pod("sneaky", cpu="3", priority=5)
    story.advance(15)
    assert story.placements == {"high": "n1", "sneaky": None}


def test_a_pod_that_makes_room_does_not_do_it_twice() -> None:
    """While its victims are on their way out, it waits."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    for node in ("n1", "n2"):
        story.running(f"low-{node}", node, cpu="3", priority=1)
    story.pod("high", cpu="3", priority=10)
    story.advance(400)
    going = [p for p in story.all(PODS) if "deletionTimestamp" in p["metadata"]]
    assert len(going) == 1


def test_victims_that_are_slow_to_go_are_waited_for() -> None:
    """Between the request and the watch that shows it nobody else is asked to go."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    for node in ("n1", "n2"):
        story.running(f"low-{node}", node, cpu="3", priority=1)
    story.held.add(PODS)
    story.pod("high", cpu="3", priority=10)
    story.deliver()
    story.held.add(PODS)
    story.settle()
    story.change(NODES, "n1", {"status": {"allocatable": {"memory": "9Gi"}}})
    story.advance(400)
    going = [p for p in story.all(PODS) if "deletionTimestamp" in p["metadata"]]
    assert len(going) == 1


def test_nobody_goes_for_a_pod_that_is_gone() -> None:
    """Between telling a victim and deleting it, the one it was to make room for may go."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("low", "n1", cpu="3", priority=1)

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Patch) and action.name == "low":
            story.leave("high")
        return None

    story.refuse = refuse
    story.pod("high", cpu="3", priority=10)
    story.advance(60)
    assert "deletionTimestamp" not in story.get(PODS, "low")["metadata"]


def test_each_of_two_pods_makes_its_own_room() -> None:
    """Two preemptors do not count on the same victim."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    for node in ("n1", "n2"):
        story.running(f"low-{node}", node, cpu="3", priority=1)
    story.pod("high-1", cpu="3", priority=10)
    story.pod("high-2", cpu="3", priority=10)
    story.settle()
    assert {story.nominated("high-1"), story.nominated("high-2")} == {"n1", "n2"}


def test_never_means_never() -> None:
    """A pod with preemptionPolicy Never preempts nobody and says so."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("low", "n1", cpu="3", priority=1)
    story.pod("high", cpu="3", priority=10, preemptionPolicy="Never")
    story.settle()
    assert "deletionTimestamp" not in story.get(PODS, "low")["metadata"]
    assert "not eligible due to preemptionPolicy=Never." in (story.condition("high") or ("", ""))[1]


def test_a_nomination_survives_a_restart() -> None:
    """A nominated node found in the status at the start keeps its room."""
    story = SchedulerScript()
    story.nodes("n1")
    story.create(
        PODS,
        {
            "metadata": {"name": "high"},
            "spec": {
                "schedulerName": "berth",
                "priority": 10,
                "schedulingGates": [{"name": "g"}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}],
            },
            "status": {"nominatedNodeName": "n1"},
        },
    )
    story.pod("low", cpu="3", priority=1)
    story.settle()
    assert story.node_of("low") is None
