"""The scheduler as a state machine: what it binds, whom it makes wait, and what it tells."""

from __future__ import annotations

import itertools

from berth.engine.state.options import Options
from berth.kube.api_resources import NODES, PODS
from berth.machines.contract import Action, Bind, Outcome
from tests.support.builders import ZONE
from tests.support.scripts.scheduler import SchedulerScript, anti, near

# --- placing ------------------------------------------------------------------------------------


def test_a_pod_is_bound_and_people_are_told() -> None:
    """A pod that fits is bound, and an event says where."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("p")
    story.settle()
    assert story.placements == {"p": "n1"}
    assert story.events("Scheduled") == ["Successfully assigned default/p to n1"]


def test_pods_of_other_schedulers_are_left_alone() -> None:
    """A pod for another scheduler is not bound."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("theirs", schedulerName="other")
    story.settle()
    assert story.placements == {"theirs": None}


def test_higher_priority_goes_first_then_age() -> None:
    """Pods of one class are decided together, but never before a more important one."""
    story = SchedulerScript()
    story.pod("low", cpu="3", priority=1)
    story.pod("old", cpu="3", priority=5)
    story.now += 5
    story.pod("young", cpu="3", priority=5)
    story.pod("high", cpu="3", priority=9, preemptionPolicy="Never")
    story.nodes("n1", "n2")
    story.settle()
    assert [name for name, _ in story.bindings] == ["high", "old"]


def test_a_pod_without_a_node_says_why_in_kube_schedulers_words() -> None:
    """Condition and event of a pod that fits nowhere have kube-scheduler's words."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    story.pod("big", cpu="8")
    story.settle()
    message = (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: "
        "2 Preemption is not helpful for scheduling."
    )
    assert story.condition("big") == ("Unschedulable", message)
    assert story.events("FailedScheduling") == [message]


def test_no_nodes_is_a_reason_too() -> None:
    """A pod in a cluster without nodes says so, and is bound when one is added."""
    story = SchedulerScript()
    story.pod("p")
    story.settle()
    assert story.condition("p") == ("Unschedulable", "no nodes available to schedule pods")
    story.nodes("n1")
    story.advance(1)
    assert story.node_of("p") == "n1"


def test_a_gated_pod_waits_for_its_last_gate() -> None:
    """A pod with scheduling gates is bound when the last one is removed."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("p", schedulingGates=[{"name": "a"}])
    story.settle()
    assert story.placements == {"p": None}
    assert (story.condition("p") or ("",))[0] == "SchedulingGated"
    story.change(PODS, "p", {"spec": {"schedulingGates": None}})
    story.settle()
    assert story.placements == {"p": "n1"}


def test_an_unreadable_annotation_is_an_error_of_that_pod_only() -> None:
    """An annotation that cannot be read fails its own pod and no other."""
    story = SchedulerScript()
    story.nodes("n1")
    story.create(
        PODS,
        {
            "metadata": {"name": "bad", "annotations": {"berth.dev/affinity": "{"}},
            "spec": {"schedulerName": "berth", "containers": []},
        },
    )
    story.pod("good")
    story.settle()
    assert story.placements == {"bad": None, "good": "n1"}
    assert (story.condition("bad") or ("",))[0] == "SchedulerError"


def test_a_running_pod_with_an_unreadable_annotation_is_forgotten_when_it_goes() -> None:
    """Nothing is kept of a running pod with a bad annotation once it goes."""
    story = SchedulerScript()
    story.nodes("n1")
    metadata = {"name": "bad", "annotations": {"berth.dev/affinity": "{"}}
    story.create(PODS, {"metadata": metadata, "spec": {"nodeName": "n1", "containers": []}})
    mirror = story.scheduler.state.mirror
    assert set(mirror.unreadable) == {("default", "bad")}
    story.leave("bad")
    assert (mirror.bound, mirror.unreadable) == ({}, {})


def test_a_running_pod_with_an_unreadable_annotation_takes_its_room() -> None:
    """The requests of a running pod with a bad annotation still count."""
    story = SchedulerScript()
    story.nodes("n1")
    metadata = {"name": "bad", "annotations": {"berth.dev/affinity": "{"}}
    container = {"name": "c", "resources": {"requests": {"cpu": "1000"}}}
    story.create(PODS, {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [container]}})
    story.pod("p")
    story.settle()
    assert story.placements["p"] is None


def test_each_profile_places_by_its_own_rules() -> None:
    """Each pod is placed by the rules of the profile it names."""
    plain = Options()
    careless = Options(disabled=frozenset({"NodeResourcesFit"}))
    story = SchedulerScript(profiles={"berth": plain, "careless": careless})
    story.nodes("n1")
    story.pod("strict", cpu="8")
    story.pod("lax", cpu="8", schedulerName="careless")
    story.settle()
    assert story.placements == {"lax": "n1", "strict": None}


# --- waiting for what can help ------------------------------------------------------------------


def attempts(story: SchedulerScript, name: str) -> int:
    return story.scheduler.state.queue.pods["default", name].attempts


def test_a_stuck_pod_is_not_tried_for_changes_that_cannot_help() -> None:
    """A pod that does not fit is tried again only for changes that can help it."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("big", cpu="8")
    story.settle()
    story.nodes("small")
    story.running("other", "n1")
    story.change(NODES, "n1", {"metadata": {"annotations": {"heartbeat": "1"}}})
    story.advance(60)
    assert attempts(story, "big") == 1
    story.node("large")
    story.change(NODES, "large", {"status": {"allocatable": {"cpu": "16"}}})
    story.advance(60)
    assert story.node_of("big") == "large"


def test_a_stuck_pod_is_tried_again_after_five_minutes_whatever_happens() -> None:
    """A pod that does not fit is tried again after five minutes without any change."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("big", cpu="8")
    story.advance(299)
    assert attempts(story, "big") == 1
    story.advance(2)
    assert attempts(story, "big") == 2


def test_backoff_doubles_to_ten_seconds() -> None:
    """A pod whose attempts fail, here at the binding, is tried ever more rarely."""
    story = SchedulerScript()
    story.nodes("n1")
    tried: list[float] = []

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind):
            tried.append(story.now)
            return Outcome(at=story.now, code=400, reason="BadRequest", message="no")
        return None

    story.refuse = refuse
    story.pod("p")
    story.advance(60)
    gaps = [round(b - a) for a, b in itertools.pairwise(tried)]
    assert gaps[:6] == [1, 2, 4, 8, 10, 10]


def test_a_pod_is_placed_when_what_blocks_it_goes() -> None:
    """A pod kept away by anti-affinity is bound when the other pod goes."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("first", "n1", labels={"app": "a"})
    story.pod("second", labels={"app": "a"}, affinity=anti("a"))
    story.settle()
    assert story.node_of("second") is None
    story.leave("first")
    story.advance(2)
    assert story.node_of("second") == "n1"


def test_a_pod_is_placed_when_the_peer_it_needs_was_placed() -> None:
    """A pod that needs a peer is placed once the scheduler has placed the peer."""
    story = SchedulerScript()
    story.zoned(n1="a", n2="b")
    story.pod("follower", affinity=near("leader"))
    story.settle()
    assert story.node_of("follower") is None
    story.pod("leader", labels={"app": "leader"}, nodeSelector={ZONE: "b"})
    story.advance(2)
    assert story.placements == {"follower": "n2", "leader": "n2"}


def test_a_changed_pod_is_judged_anew_at_once() -> None:
    """A pod whose spec changes is tried again without backoff."""
    story = SchedulerScript()
    story.nodes("n1")
    story.pod("p", nodeSelector={"disk": "ssd"})
    story.settle()
    story.change(PODS, "p", {"spec": {"nodeSelector": None}})
    story.settle()
    assert story.node_of("p") == "n1"
