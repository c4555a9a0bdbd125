"""The scheduler as a state machine: what it binds, whom it makes wait, and what it tells."""

from __future__ import annotations

import itertools

import pytest

from berth.engine.placement.together import NoNode
from berth.engine.state.options import Options
from berth.kube.api_resources import NODES, PODS
from berth.machines.contract import Action, Bind, Get, Outcome, Patch
from berth.scheduler.placing import Choice, Placer
from berth.scheduler.queued_pod import QueuedPod
from tests.support.scripts.scheduler import ZONE, SchedulerScript, anti, near


def lost_answer(story: SchedulerScript, name: str) -> None:
    """The next binding of a pod is made, but the answer does not arrive."""
    left = [name]

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and action.name in left:
            left.remove(action.name)
            story.change(PODS, action.name, {"spec": {"nodeName": action.node}})
            return Outcome(at=story.now, code=0, reason="Unreachable", message="connection lost")
        return None

    story.refuse = refuse


def failing(story: SchedulerScript, *codes: int, reason: str = "", retry_after: float | None = None) -> None:
    """The next bindings are refused with these codes."""
    left = list(codes)

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and left:
            code = left.pop(0)
            return Outcome(at=story.now, code=code, reason=reason, message="no", retry_after=retry_after)
        return None

    story.refuse = refuse


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


# --- bindings that go wrong ---------------------------------------------------------------------


def test_a_pod_counts_as_soon_as_it_was_decided() -> None:
    """Nothing is placed on top of a pod just decided, even while the watch is silent."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    story.held.add(PODS)
    story.deliver()
    for name in ("a", "b", "c"):
        story.pod(name, cpu="3")
    story.settle()
    assert sorted(node for _, node in story.bindings) == ["n1", "n2"]


def test_a_binding_without_an_answer_is_looked_up_before_anything_else_happens() -> None:
    """A binding whose answer is lost is read back, and its room is kept meanwhile."""
    story = SchedulerScript()
    story.nodes("n1")
    lost_answer(story, "p")
    story.pod("p", cpu="3")
    story.held.add(PODS)
    story.settle()
    story.pod("q", cpu="3")
    story.advance(5)
    assert story.bindings == [("p", "n1")]
    assert any(isinstance(action, Get) for action in story.done)
    story.deliver()
    story.advance(5)
    assert story.placements == {"p": "n1", "q": None}


def test_a_server_error_repeats_the_same_binding() -> None:
    """After a server error the same binding is sent again."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    failing(story, 500, 503)
    story.pod("p")
    story.advance(5)
    assert len({node for _, node in story.bindings}) == 1
    assert len(story.bindings) == 3
    assert story.node_of("p") is not None


def test_a_server_that_is_busy_is_left_alone_for_as_long_as_it_asks() -> None:
    """After a 429 the binding is repeated when Retry-After is over, its room kept."""
    story = SchedulerScript()
    story.nodes("n1")
    failing(story, 429, retry_after=7)
    story.pod("p")
    story.advance(6.5)
    assert story.node_of("p") is None
    story.pod("q", cpu="4")
    story.settle()
    assert story.node_of("q") is None  # the place is kept
    story.advance(1)
    assert story.node_of("p") == "n1"


def test_a_binding_that_was_put_off_is_not_sent_to_a_node_that_went() -> None:
    """A postponed binding to a deleted node is dropped and the pod placed anew."""
    story = SchedulerScript()
    story.nodes("n1")
    failing(story, 429, retry_after=7)
    story.pod("p")
    story.settle()
    story.drop_node("n1")
    story.nodes("n2")
    story.advance(20)
    assert story.placements == {"p": "n2"}


def test_a_pod_that_somebody_else_bound_is_counted_where_it_is() -> None:
    """After a conflict the pod counts on the node it was bound to by another."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    story.running("filler", "n2", cpu="2")

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and not story.node_of(action.name):
            story.change(PODS, action.name, {"spec": {"nodeName": "n2"}})
            return Outcome(at=story.now, code=409, reason="Conflict", message="already assigned")
        return None

    story.refuse = refuse
    story.pod("p", cpu="2")
    story.advance(5)
    assert story.placements["p"] == "n2"
    story.refuse = lambda _action: None
    story.pod("q", cpu="4")
    story.advance(5)
    assert story.placements["q"] == "n1"


def test_a_pod_deleted_while_it_is_bound_leaves_no_trace() -> None:
    """A pod that is deleted while it is bound gives its room back."""
    story = SchedulerScript()
    story.nodes("n1")

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and action.name == "p":
            story.leave("p")
            return Outcome(at=story.now, code=404, reason="NotFound", message="gone")
        return None

    story.refuse = refuse
    story.pod("p", cpu="4")
    story.settle()
    story.pod("q", cpu="4")
    story.settle()
    assert story.placements == {"q": "n1"}


def test_a_pod_recreated_with_the_same_name_is_another_pod() -> None:
    """The outcome of the first one's binding does not concern it."""
    story = SchedulerScript()
    story.nodes("n1")

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind) and action.uid == first:
            story.leave("p")
            story.pod("p", cpu="4")
            return Outcome(at=story.now, code=409, reason="Conflict", message="uid does not match")
        return None

    story.refuse = refuse
    story.pod("p", cpu="4")
    first = story.get(PODS, "p")["metadata"]["uid"]
    story.advance(5)
    assert story.placements == {"p": "n1"}
    assert len({action.uid for action in story.done if isinstance(action, Bind)}) == 2


def test_a_label_changed_while_the_pod_is_bound_counts() -> None:
    """Anti-affinity sees the labels a pod has now, not those it was bound with."""
    story = SchedulerScript()
    story.nodes("n1", "n2")
    story.pod("p", labels={"app": "a"})
    story.settle()
    story.change(PODS, "p", {"metadata": {"labels": {"app": "b"}}})
    story.pod("q", labels={"app": "b"}, affinity=anti("b"))
    story.settle()
    assert story.node_of("q") != story.node_of("p")


def test_a_node_that_went_is_not_bound_to_again() -> None:
    """A failed binding is not repeated to a node that was deleted."""
    story = SchedulerScript()
    story.nodes("n1")
    failing(story, 500)
    story.pod("p")
    story.settle()
    story.drop_node("n1")
    story.advance(20)
    assert story.bindings == [("p", "n1")]
    story.nodes("n2")
    story.advance(20)
    assert story.node_of("p") == "n2"


def test_not_found_is_not_believed_while_the_pod_is_there() -> None:
    """A proxy in between may say so of everything."""
    story = SchedulerScript()
    story.nodes("n1")
    failing(story, 404)
    story.pod("p")
    story.advance(10)
    assert story.node_of("p") == "n1"


def test_a_pod_that_is_going_is_not_bound_again_and_again() -> None:
    """A finalizer keeps it, but no binding will ever be accepted."""
    story = SchedulerScript()
    story.nodes("n1")

    def refuse(action: Action) -> Outcome | None:
        if not isinstance(action, Bind):
            return None
        metadata = {"deletionTimestamp": "2026-01-01T00:00:30Z", "finalizers": ["example.com/keep"]}
        story.change(PODS, "p", {"metadata": metadata})
        return Outcome(at=story.now, code=409, reason="Conflict", message="is being deleted")

    story.refuse = refuse
    story.pod("p")
    story.advance(600)
    assert len(story.bindings) == 1
    assert not story.scheduler.state.queue.assumed


def test_a_pod_that_cannot_be_judged_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody foresaw is an error of that pod; it is tried again later."""
    story = SchedulerScript()
    story.nodes("n1")
    place = Placer.place

    def fails(placer: Placer, record: QueuedPod) -> Choice | NoNode:
        if record.key[1] == "cursed":
            raise ValueError("nobody foresaw this")
        return place(placer, record)

    monkeypatch.setattr(Placer, "place", fails)
    story.pod("cursed", cpu="2")
    story.pod("p")
    story.settle()
    assert story.placements == {"cursed": None, "p": "n1"}
    assert story.condition("cursed") == ("SchedulerError", "ValueError: nobody foresaw this")
    monkeypatch.setattr(Placer, "place", place)
    story.advance(5)
    assert story.node_of("cursed") == "n1"


def test_a_scheduler_that_never_decides_keeps_no_record_of_pods_that_are_gone() -> None:
    """A standby may be one for months."""
    story = SchedulerScript()
    for number in range(5000):
        gates = [{"name": "g"}] if number % 2 else []
        story.pod(f"p{number}", schedulingGates=gates)
        story.leave(f"p{number}")
    state = story.scheduler.state
    assert len(state.queue._active) < 2000
    assert len(state.statements._open) < 2000


def test_a_draining_scheduler_begins_nothing() -> None:
    """A scheduler that is shutting down starts no binding."""
    story = SchedulerScript()
    story.nodes("n1")
    story.scheduler.drain()
    story.pod("p")
    story.settle()
    assert story.bindings == []


# --- making room --------------------------------------------------------------------------------


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
