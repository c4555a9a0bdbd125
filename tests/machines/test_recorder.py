"""The recorder says a thing once, counts it when it happens again, and does not flood."""

from __future__ import annotations

from typing import Any

from berth.kube.api_resources import EVENTS, NODES, PODS
from berth.kube.objects import Node, ObjectMeta, Pod
from berth.machines.contract import Action, Create, Outcome, Patch
from berth.machines.recorder import EVENT, NORMAL, WARNING, Recorder

NOW = 1_800_000_000.0
LATER = Outcome(at=NOW)


def a_pod(name: str = "web-1", uid: str = "u1") -> Pod:
    return Pod(metadata=ObjectMeta(name=name, namespace="shop", uid=uid, resource_version="7"))


def refuse(recorder: Recorder, now: float = NOW, message: str = "no node", pod: Pod | None = None) -> None:
    recorder.record(now, PODS, pod or a_pod(), WARNING, "FailedScheduling", message)


def answer(recorder: Recorder, code: int = 200, reason: str = "", at: float = NOW) -> list[Action]:
    """Take what is to be written and answer all of it alike."""
    actions = recorder.take()
    for action in actions:
        recorder.done(action, Outcome(at=at, code=code, reason=reason))
    return actions


def body(action: Action) -> dict[str, Any]:
    assert isinstance(action, Create | Patch)
    assert isinstance(action.body, dict)
    return action.body


def test_an_event_is_what_kubectl_shows() -> None:
    """An event says who says it, about what, why, and when."""
    recorder = Recorder("berth")
    recorder.record(NOW, PODS, a_pod(), NORMAL, "Preempted", "Preempted by pod u2 on node n1")
    assert recorder.waiting
    (action,) = recorder.take()
    assert (action.resource, action.purpose) == (EVENTS, EVENT)
    assert (action.namespace, action.name) == ("shop", "")
    event = body(action)
    name = event["metadata"].pop("name")
    assert name.startswith("web-1.")
    assert int(name.removeprefix("web-1."), 16) >= NOW * 1e9
    reference = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "resourceVersion": "7"}
    assert event == {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": "shop"},
        "involvedObject": {**reference, "name": "web-1", "uid": "u1"},
        "reason": "Preempted",
        "message": "Preempted by pod u2 on node n1",
        "type": "Normal",
        "count": 1,
        "source": {"component": "berth"},
        "reportingComponent": "berth",
        "reportingInstance": "berth",
        "firstTimestamp": "2027-01-15T08:00:00Z",
        "lastTimestamp": "2027-01-15T08:00:00Z",
    }
    assert not recorder.waiting


def test_what_lives_in_no_namespace_is_told_in_default() -> None:
    """As the API wants it, and long messages are cut to what it takes."""
    recorder = Recorder("berth")
    node = Node(metadata=ObjectMeta(name="n1", uid="n"))
    recorder.record(NOW, NODES, node, NORMAL, "Seen", "x" * 2000)
    (action,) = recorder.take()
    assert action.namespace == body(action)["metadata"]["namespace"] == "default"
    assert len(body(action)["message"]) == 1024


def test_names_are_never_used_twice() -> None:
    """Event names never repeat, not even after a restart, and long ones stay valid."""
    recorder = Recorder("berth")
    for number in range(20):
        refuse(recorder, message=f"reason {number}")
    names = [body(action)["metadata"]["name"] for action in recorder.take()]
    after = Recorder("berth")
    refuse(after, NOW + 0.001)
    names += [body(action)["metadata"]["name"] for action in after.take()]
    assert len(set(names)) == 21
    refuse(recorder, pod=a_pod("p" * 253, "long"))
    (action,) = recorder.take()
    assert len(body(action)["metadata"]["name"]) == 253


def test_the_same_again_is_a_higher_count() -> None:
    """One Event, patched; after ten quiet minutes it is news again."""
    recorder = Recorder("berth")
    refuse(recorder)
    (first,) = answer(recorder)
    refuse(recorder, NOW + 60)
    (second,) = answer(recorder)
    assert isinstance(second, Patch)
    assert (second.namespace, second.name) == ("shop", body(first)["metadata"]["name"])
    assert body(second) == {"count": 2, "lastTimestamp": "2027-01-15T08:01:00Z"}
    refuse(recorder, NOW + 60 + 601)
    (third,) = answer(recorder)
    assert isinstance(third, Create)
    assert body(third)["count"] == 1


def test_other_messages_reasons_and_objects_are_other_events() -> None:
    """Only what says exactly the same is counted together."""
    recorder = Recorder("berth")
    refuse(recorder)
    refuse(recorder, message="another")
    refuse(recorder, pod=a_pod(uid="u2"))
    recorder.record(NOW, PODS, a_pod(), NORMAL, "FailedScheduling", "no node")
    recorder.record(NOW, PODS, a_pod(), WARNING, "Other", "no node")
    assert [Create] * 5 == [type(action) for action in recorder.take()]


def test_repeats_before_anything_was_written_cost_nothing() -> None:
    """The creation that waits carries the count."""
    recorder = Recorder("berth")
    for second in range(5):
        refuse(recorder, NOW + second)
    (action,) = recorder.take()
    assert isinstance(action, Create)
    assert (body(action)["count"], body(action)["lastTimestamp"]) == (5, "2027-01-15T08:00:04Z")
    assert body(action)["firstTimestamp"] == "2027-01-15T08:00:00Z"


def test_repeats_while_the_creation_is_on_its_way_follow_it() -> None:
    """A patch that overtook the creation would find nothing."""
    recorder = Recorder("berth")
    refuse(recorder)
    (create,) = recorder.take()
    refuse(recorder, NOW + 1)
    refuse(recorder, NOW + 2)
    assert not recorder.waiting
    recorder.done(create, LATER)
    (patch,) = answer(recorder)
    assert isinstance(patch, Patch)
    assert body(patch)["count"] == 3


def test_an_event_that_ended_on_the_server_is_made_again() -> None:
    """After a 404 to a patch a new Event is made, which counts from one."""
    recorder = Recorder("berth")
    refuse(recorder)
    (first,) = answer(recorder)
    refuse(recorder, NOW + 60)
    assert [Patch] == [type(action) for action in answer(recorder, 404, "NotFound")]
    (again,) = answer(recorder)
    assert isinstance(again, Create)
    assert body(again)["metadata"]["name"] != body(first)["metadata"]["name"]
    assert body(again)["count"] == 1
    assert body(again)["firstTimestamp"] == "2027-01-15T08:01:00Z"


def test_a_name_that_is_taken_is_replaced() -> None:
    """Another process may have had the same instant."""
    recorder = Recorder("berth")
    refuse(recorder)
    (first,) = answer(recorder, 409, "AlreadyExists")
    name = body(first)["metadata"]["name"]
    (second,) = answer(recorder)
    assert body(second)["metadata"]["name"] != name
    assert not recorder.waiting


def test_a_server_that_is_away_is_asked_again_later() -> None:
    """A few times, each later; what it may have carried out is not written twice."""
    recorder = Recorder("berth")
    refuse(recorder)
    (create,) = answer(recorder, 0)
    assert not recorder.waiting
    due = recorder.due()
    assert due == NOW + 5
    assert recorder.take(NOW + 1) == []
    refuse(recorder, NOW + 2)
    assert recorder.take(due) == [create]
    assert body(create)["count"] == 2
    recorder.done(create, Outcome(at=due, code=409, reason="AlreadyExists"))
    assert recorder.due() is None
    refuse(recorder, NOW + 7)
    (patch,) = recorder.take()
    assert (type(patch), body(patch)["count"]) == (Patch, 3)


def test_a_server_that_stays_away_is_given_up() -> None:
    """Events that cannot be written are given up after a while and leave nothing behind."""
    recorder = Recorder("berth")
    refuse(recorder)
    at, tries = NOW, 0
    while recorder.due() is not None:
        at += 1000
        for action in recorder.take(at):
            tries += 1
            recorder.done(action, Outcome(at=at, code=503))
    assert tries == 6
    assert not recorder._events
    assert not recorder._sent


def test_refusals_are_final() -> None:
    """A namespace that is going takes no events."""
    recorder = Recorder("berth")
    refuse(recorder)
    answer(recorder, 403, "Forbidden")
    assert recorder.due() is None
    assert not recorder._events


def test_a_burst_about_one_object_is_cut() -> None:
    """Twenty-five, then one every five minutes; other objects are not affected."""
    recorder = Recorder("berth")
    for number in range(100):
        refuse(recorder, message=f"reason {number}")
    assert len(recorder.take()) == 25
    refuse(recorder, pod=a_pod(uid="u2"))
    refuse(recorder, NOW + 301, message="late")
    refuse(recorder, NOW + 302, message="too late")
    assert len(recorder.take()) == 2


def test_what_happens_all_the_time_is_patched_now_and_then() -> None:
    """The burst holds for counts, too, and the next one that is written has all of them."""
    recorder = Recorder("berth")
    written = 0
    for second in range(100):
        refuse(recorder, NOW + second)
        written += len(answer(recorder, at=NOW + second))
    assert written == 25
    refuse(recorder, NOW + 500)
    (patch,) = answer(recorder)
    assert body(patch)["count"] == 101


def test_memory_is_bounded() -> None:
    """Memory is bounded, whatever number of objects there is, and however slow the server."""
    recorder = Recorder("berth")
    for number in range(20_000):
        recorder.record(NOW, PODS, a_pod(uid=f"u{number}"), NORMAL, "Scheduled", "bound")
    assert len(recorder._events) == len(recorder._buckets) == 4096
    actions = recorder.take()
    assert len(actions) == 16384
    for action in actions:
        recorder.done(action, LATER)
    assert not recorder._sent
