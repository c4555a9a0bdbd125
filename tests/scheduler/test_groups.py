"""Groups of pods: all get a node, or none does."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import LABELLED_POD_GROUPS, NODES, POD_GROUPS, PODS, VOLUMES
from berth.machines.contract import Action, Bind, Outcome
from tests.scheduler.objects import LABEL, claim, gang, member, mounts, storage_class, volume
from tests.support.builders import ZONE
from tests.support.scripts.scheduler import SchedulerScript, anti, near


def test_a_group_is_placed_as_a_whole() -> None:
    """No pod of a group is bound before all it needs exist; then all are."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    gang(story, "ring", 3)
    for name in ("a", "b"):
        member(story, name)
    story.settle()
    assert story.bindings == []
    assert story.condition("a") == ("Unschedulable", "waiting for pods of group default/ring: 2 of 3 exist")
    member(story, "c")
    story.settle()
    assert len(story.bindings) == 3


def test_gated_members_are_told_of() -> None:
    """Pods that are there and may not be tried are not said to be missing."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 2)
    member(story, "a")
    member(story, "b", schedulingGates=[{"name": "example.com/later"}])
    story.settle()
    said = "waiting for pods of group default/ring: 1 of 2 can be tried; 1 with scheduling gates cannot"
    assert story.condition("a") == ("Unschedulable", said)


def test_a_group_that_cannot_fit_holds_nothing() -> None:
    """A group that does not fit keeps no room from other pods, and says why."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 3)
    for name in ("a", "b", "c"):
        member(story, name, cpu="2")
    story.settle()
    assert story.bindings == []
    story.pod("alone", cpu="4")
    story.settle()
    assert story.node_of("alone") == "n1"
    reason, message = story.condition("a") or ("", "")
    assert reason == "Unschedulable"
    assert message.startswith("pod group default/ring needs 3 of 3 pods placed together: 0/1 nodes")


def test_a_group_is_tried_again_when_there_is_room() -> None:
    """A group that did not fit is placed when a node is added."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 3)
    for name in ("a", "b", "c"):
        member(story, name, cpu="2")
    story.settle()
    story.nodes("n2")
    story.advance(2)
    assert len(story.bindings) == 3


def test_pods_wait_for_the_group_to_be_created() -> None:
    """Pods of a group that does not exist wait for it and say so."""
    story = SchedulerScript()
    story.nodes("n1")
    member(story, "a")
    story.settle()
    assert story.condition("a") == ("Unschedulable", "waiting for pod group default/ring to be created")
    gang(story, "ring", 1)
    story.settle()
    assert story.node_of("a") == "n1"


def test_a_basic_group_places_its_pods_one_by_one() -> None:
    """A group with the basic policy places each pod that fits."""
    story = SchedulerScript()
    story.nodes("n1")
    spec: dict[str, Any] = {"schedulingPolicy": {"basic": {}}}
    story.create(POD_GROUPS, {"metadata": {"name": "ring"}, "spec": spec})
    member(story, "a", cpu="4")
    member(story, "b", cpu="4")
    story.settle()
    assert [name for name, _ in story.bindings] == ["a"]


def test_the_label_and_its_custom_resource_do_the_same() -> None:
    """A group by label and custom resource is placed as a whole, too."""
    story = SchedulerScript()
    story.nodes("n1")
    story.create(LABELLED_POD_GROUPS, {"metadata": {"name": "ring"}, "spec": {"minMember": 2}})
    story.pod("a", labels={LABEL: "ring"})
    story.settle()
    assert story.bindings == []
    story.pod("b", labels={LABEL: "ring"})
    story.settle()
    assert story.placements == {"a": "n1", "b": "n1"}


def test_more_pods_than_the_minimum_are_placed_as_far_as_they_fit() -> None:
    """Pods beyond the minimum are placed as far as they fit, the rest later."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 2)
    for name in ("a", "b", "c"):
        member(story, name, cpu="2")
    story.settle()
    assert len(story.bindings) == 2
    story.nodes("n2")
    story.advance(2)
    assert len(story.bindings) == 3


def test_a_group_that_must_be_together_starts_together() -> None:
    """No pod of it runs yet, so each would be missing the others."""
    story = SchedulerScript()
    story.zoned(n1="a", n2="a", n3="b", n4="b")
    gang(story, "ring", 4)
    for name in ("w", "x"):
        member(story, name, cpu="3", labels={"app": "left"}, affinity=near("right"))
    for name in ("y", "z"):
        member(story, name, cpu="1", labels={"app": "right"}, affinity=near("right"))
    story.settle()
    zones = {"n1": "a", "n2": "a", "n3": "b", "n4": "b"}
    assert len(story.bindings) == 4
    assert len({zones[node] for _, node in story.bindings}) == 1


def test_the_first_pod_does_not_lead_the_group_into_a_domain_that_is_too_small() -> None:
    """The emptiest node is in a zone with room for one; the group goes where all fit."""
    story = SchedulerScript()
    story.zoned(lonely="a", n1="b", n2="b", n3="b")
    for node in ("n1", "n2", "n3"):
        story.running(f"filler-{node}", node)
    gang(story, "ring", 3)
    for name in ("x", "y", "z"):
        member(story, name, cpu="3", labels={"app": "ring"}, affinity=near("ring", ZONE))
    story.settle()
    assert sorted(node for _, node in story.bindings) == ["n1", "n2", "n3"]


def test_members_that_exclude_each_other_need_a_node_each() -> None:
    """A group with anti-affinity waits until there is a node for each member."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    gang(story, "ring", 3)
    for name in ("x", "y", "z"):
        member(story, name, labels={"app": "ring"}, affinity=anti("ring"))
    story.settle()
    assert story.bindings == []
    story.nodes("n3")
    story.advance(2)
    assert sorted(node for _, node in story.bindings) == ["n1", "n2", "n3"]


def test_a_member_whose_binding_failed_is_placed_alone_later() -> None:
    """A member whose binding was refused is bound later, without the others."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 2)
    failed: list[str] = []

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and action.name == "b" and not failed:
            failed.append(action.name)
            return Outcome(at=story.now, code=429, message="busy")
        return None

    story.refuse = refuse
    member(story, "a")
    member(story, "b")
    story.advance(5)
    assert story.placements == {"a": "n1", "b": "n1"}


def test_a_group_that_loses_a_pod_waits_for_another() -> None:
    """A group that loses a pod before it is placed waits until there are enough again."""
    story = SchedulerScript()
    gang(story, "ring", 2)
    member(story, "a")
    member(story, "b")
    story.settle()
    story.leave("b")
    story.nodes("n1")
    story.advance(5)
    assert story.bindings == []
    member(story, "c")
    story.advance(5)
    assert story.placements == {"a": "n1", "c": "n1"}


def test_a_gated_member_does_not_count() -> None:
    """A pod with scheduling gates does not count for its group."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 2)
    member(story, "a")
    member(story, "b", schedulingGates=[{"name": "g"}])
    story.settle()
    assert story.bindings == []
    story.change(PODS, "b", {"spec": {"schedulingGates": None}})
    story.settle()
    assert len(story.bindings) == 2


def test_members_that_want_the_same_volume_do_not_fit_together() -> None:
    """What one member is promised the other cannot have; nothing is promised if not all fit."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    storage_class(story, "local", "kubernetes.io/no-provisioner")
    for name in ("c1", "c2"):
        claim(story, name, "local")
    volume(story, "pv1", "n1", "local")
    gang(story, "ring", 2)
    member(story, "a", volumes=mounts("c1"))
    member(story, "b", volumes=mounts("c2"))
    story.settle()
    assert "didn't find available persistent volumes" in (story.condition("a") or ("", ""))[1]
    assert "claimRef" not in story.get(VOLUMES, "pv1")["spec"]
    volume(story, "pv2", "n2", "local")
    story.advance(5)
    claimed = {story.get(VOLUMES, name)["spec"]["claimRef"]["name"] for name in ("pv1", "pv2")}
    assert claimed == {"c1", "c2"}


def test_a_group_that_needs_fewer_pods_now_is_tried_again() -> None:
    """A group whose minimum is lowered is tried again."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 3)
    for name in ("a", "b", "c"):
        member(story, name, cpu="2")
    story.settle()
    story.change(POD_GROUPS, "ring", {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
    story.advance(3)
    assert len(story.bindings) == 2


def test_members_of_a_group_that_has_enough_wait_for_what_each_of_them_lacks() -> None:
    """In a group that has enough, each pod waits for what it lacks itself."""
    story = SchedulerScript()
    story.nodes("n1")
    gang(story, "ring", 1)
    member(story, "big", cpu="9")
    member(story, "picky", nodeSelector={"gpu": "yes"})
    story.settle()
    assert "node affinity/selector" in (story.condition("picky") or ("", ""))[1]
    story.change(NODES, "n1", {"metadata": {"labels": {"gpu": "yes"}}}, "")
    story.advance(3)
    assert story.node_of("picky") == "n1"


def test_a_pod_that_moves_to_another_group_no_longer_counts_in_the_first() -> None:
    """A running pod counts only for the group its label names now."""
    story = SchedulerScript()
    story.nodes("n1")
    for name in ("one", "two"):
        story.create(LABELLED_POD_GROUPS, {"metadata": {"name": name}, "spec": {"minMember": 2}})
    story.running("a", "n1", labels={LABEL: "one"})
    story.change(PODS, "a", {"metadata": {"labels": {LABEL: "two"}}})
    story.pod("b", labels={LABEL: "one"})
    story.settle()
    assert story.node_of("b") is None
    story.pod("c", labels={LABEL: "two"})
    story.settle()
    assert story.node_of("c") == "n1"
