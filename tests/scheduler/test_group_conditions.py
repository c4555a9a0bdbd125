"""The condition of a PodGroup says whether it was placed, under the name that its version gives it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.engine.state.options import Options
from berth.kube.api_resources import LABELLED_POD_GROUPS, POD_GROUPS
from berth.kube.versions import NEWEST, OLDEST, VERSIONS, KubernetesVersion
from berth.machines.contract import Action, Outcome, Patch
from tests.scheduler.objects import LABEL, gang, member
from tests.support.scripts.scheduler import SchedulerScript

NAMES = ("a", "b", "c")


def conditions(story: SchedulerScript, name: str = "ring") -> dict[str, dict[str, Any]]:
    status = story.get(POD_GROUPS, name).get("status") or {}
    return {each["type"]: each for each in status.get("conditions", ())}


def stated(story: SchedulerScript, version: KubernetesVersion = NEWEST) -> tuple[str, str, str]:
    (kind, found), *others = conditions(story).items()
    assert (kind, others) == (version.pod_group_condition, [])
    return found["status"], found["reason"], found["message"]


def writes(story: SchedulerScript) -> list[Action]:
    return [action for action in story.done if isinstance(action, Patch) and action.resource == POD_GROUPS]


@pytest.mark.parametrize("version", VERSIONS.values(), ids=list(VERSIONS))
def test_a_group_that_was_placed(version: KubernetesVersion) -> None:
    """It says so, once, and stays so when a pod goes; nothing is said while pods are missing."""
    story = SchedulerScript(profiles={"berth": Options(version=version)})
    story.nodes("n1", "n2")
    gang(story, "ring", 3)
    for name in NAMES[:2]:
        member(story, name)
    story.settle()
    assert conditions(story) == {}
    member(story, "c")
    story.settle()
    assert stated(story, version) == ("True", "Scheduled", "")
    story.leave("a")
    member(story, "too-large", cpu="999")
    story.settle()
    assert stated(story, version) == ("True", "Scheduled", "")
    assert len(writes(story)) == 1


def test_a_group_without_room() -> None:
    """It says why, as its pods do, and that it was placed once it was; saying so wakes nobody."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 3)
    for name in NAMES:
        member(story, name, cpu="2")
    story.settle()
    story.advance(3)
    status, reason, message = stated(story)
    assert (status, reason, message) == ("False", *(story.condition("a") or ()))
    assert len(writes(story)) == 1
    since = conditions(story)[NEWEST.pod_group_condition]["lastTransitionTime"]
    story.nodes("n2")
    story.advance(5)
    assert stated(story) == ("True", "Scheduled", "")
    assert conditions(story)[NEWEST.pod_group_condition]["lastTransitionTime"] > since


def test_a_group_of_independent_pods() -> None:
    """One pod with a node is enough; if none has one it says why."""
    story = SchedulerScript()
    story.create(POD_GROUPS, {"metadata": {"name": "ring"}, "spec": {"schedulingPolicy": {"basic": {}}}})
    member(story, "a", cpu="2")
    story.nodes("n1")
    member(story, "b", cpu="999")
    story.settle()
    assert stated(story) == ("True", "Scheduled", "")

    story.create(POD_GROUPS, {"metadata": {"name": "lone"}, "spec": {"schedulingPolicy": {"basic": {}}}})
    member(story, "x", group="lone", cpu="999")
    story.settle()
    found = conditions(story, "lone")[NEWEST.pod_group_condition]
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert found["message"].startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_a_condition_of_the_other_version_is_another_one() -> None:
    """What a 1.36 scheduler has said under the old name does not count for 1.37."""
    story = SchedulerScript()
    story.nodes("n1")
    old = {"type": OLDEST.pod_group_condition, "status": "True", "reason": "Scheduled", "message": ""}
    spec = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    story.create(POD_GROUPS, {"metadata": {"name": "ring"}, "spec": spec, "status": {"conditions": [old]}})
    member(story, "a")
    story.settle()
    assert set(conditions(story)) == {OLDEST.pod_group_condition, NEWEST.pod_group_condition}


def test_the_custom_resource_is_left_alone() -> None:
    """Its status is its own controller's."""
    story = SchedulerScript()
    story.nodes("n1")
    story.create(LABELLED_POD_GROUPS, {"metadata": {"name": "ring"}, "spec": {"minMember": 1}})
    story.pod("a", labels={LABEL: "ring"})
    story.settle()
    assert story.node_of("a") == "n1"
    assert not [action for action in story.done if action.resource == LABELLED_POD_GROUPS]


class Refusing(SchedulerScript):
    """Where the first write to a PodGroup is refused."""

    code = 0

    def answer(self, action: Action) -> Outcome:
        if action.resource == POD_GROUPS and self.code:
            code, self.code = self.code, 0
            return Outcome(at=self.now, code=code, message="no")
        return super().answer(action)


@pytest.mark.parametrize(("code", "placed"), [(503, True), (403, False), (404, False)])
def test_a_write_that_fails(code: int, *, placed: bool) -> None:
    """It is repeated if that may help, and given up where it may not be made."""
    story = Refusing()
    story.code = code
    story.nodes("n1")
    gang(story, "ring", 1)
    member(story, "a")
    story.settle()
    story.advance(5)
    assert bool(conditions(story)) == placed


def test_a_smaller_group_is_tried_again() -> None:
    """A minimum that shrinks wakes its pods; a group of which only something else changed is not tried."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 3)
    for name in NAMES:
        member(story, name, cpu="2")
    story.settle()
    record = story.scheduler.state.queue.pods["default", "a"]
    tried = record.attempts
    story.change(POD_GROUPS, "ring", {"metadata": {"labels": {"seen": "yes"}}})
    story.advance(5)
    assert (record.attempts, story.bindings) == (tried, [])
    story.change(POD_GROUPS, "ring", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    story.advance(5)
    assert len(story.bindings) == 2
