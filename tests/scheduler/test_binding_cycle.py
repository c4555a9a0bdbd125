"""Bindings that go wrong: no answer, refusals, pods and nodes that change or go meanwhile."""

from __future__ import annotations

import pytest

from berth.engine.placement.group_placement import NoNode
from berth.kube.api_resources import PODS
from berth.machines.contract import Action, Bind, Get, Outcome
from berth.scheduler.cycles import Placer
from berth.scheduler.queue import QueuedPod
from berth.scheduler.reservations import Choice
from tests.support.scripts.scheduler import SchedulerScript, anti


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
    assert len(state.pod_conditions._open) < 2000


def test_a_draining_scheduler_begins_nothing() -> None:
    """A scheduler that is shutting down starts no binding."""
    story = SchedulerScript()
    story.nodes("n1")
    story.scheduler.drain()
    story.pod("p")
    story.settle()
    assert story.bindings == []
