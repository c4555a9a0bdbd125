"""Evictions that are asked for by EvictionRequests: others evict, and it is watched what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from berth.eviction import EvictionSettings
from berth.kube.api_resources import EVENTS, EVICTION_REQUESTS, PODS
from berth.machines.contract import Action, Create, Delete, Evict, Outcome
from tests.support.scripts.eviction import EvictionScript, needs_label

TIMEOUT = 600.0


def world(**settings: Any) -> EvictionScript:
    """A pod on a node that has just lost the label that the pod needs."""
    given = EvictionSettings(uses_requests=True, request_timeout=TIMEOUT, **settings)
    story = EvictionScript(given)
    story.labelled("n1", disk="ssd")
    story.labelled("n2", disk="ssd")
    owner = story.replica_set("web", 1)
    story.pod("web-1", "n1", needs_label("disk", "ssd"), owner=owner)
    story.settle()
    story.relabel("n1", disk=None)
    story.settle()
    return story


def requests(story: EvictionScript) -> list[dict[str, Any]]:
    return story.all(EVICTION_REQUESTS)


def made(story: EvictionScript) -> int:
    return sum(isinstance(a, Create) and a.resource == EVICTION_REQUESTS for a in story.done)


def say(story: EvictionScript, kind: str, reason: str) -> None:
    """What the controller of EvictionRequests writes."""
    (request,) = requests(story)
    condition = {"type": kind, "status": "True", "reason": reason, "message": "so it is"}
    change = {"status": {"conditions": [condition]}}
    story.change(EVICTION_REQUESTS, request["metadata"]["name"], change)


def messages(story: EvictionScript) -> list[str]:
    return [event["message"] for event in story.all(EVENTS)]


def warnings(story: EvictionScript) -> list[str]:
    return [text for text in messages(story) if text.startswith("Could not evict")]


def test_a_pod_is_asked_for_and_not_evicted() -> None:
    """The request names just this pod, and who asks; nobody calls the Eviction API."""
    story = world()
    (request,) = requests(story)
    pod = story.get(PODS, "web-1")["metadata"]
    assert request["spec"] == {
        "target": {"pod": {"name": "web-1", "uid": pod["uid"]}},
        "requester": "berth.dev/controllers",
        "intent": "Eviction",
    }
    story.advance(TIMEOUT / 2)
    assert made(story) == 1
    assert not any(isinstance(action, Evict) for action in story.done)


def test_the_eviction_counts_when_the_pod_goes() -> None:
    """Only when the pod goes is its eviction told, and the request taken away."""
    story = world()
    assert not any(text.startswith("Evicted") for text in messages(story))
    story.delete(PODS, "web-1", grace=0)
    story.advance(1)
    assert any(text.startswith("Evicted: spec.affinity") for text in messages(story))
    assert requests(story) == []


def test_a_pod_that_terminates_has_been_evicted() -> None:
    """It need not be gone to count, and it counts once."""
    story = world()
    story.delete(PODS, "web-1")
    story.advance(1)
    story.delete(PODS, "web-1", grace=0)
    story.advance(60)
    assert sum(text.startswith("Evicted") for text in messages(story)) == 1
    assert requests(story) == []


def test_what_the_request_says_counts() -> None:
    """A target that was evicted is, even before the watch shows it."""
    story = world()
    say(story, "TargetEvicted", "PodDeleted")
    story.advance(1)
    assert any(text.startswith("Evicted") for text in messages(story))


def test_a_rule_that_holds_again_withdraws_the_request() -> None:
    """The pod stays, and its condition is taken back."""
    story = world()
    story.relabel("n1", disk="ssd")
    story.advance(1)
    assert requests(story) == []
    (condition,) = [
        c for c in story.get(PODS, "web-1")["status"]["conditions"] if c["type"] == "DisruptionTarget"
    ]
    assert condition["status"] == "False"


def test_a_withdrawal_is_repeated_until_it_is_seen() -> None:
    """A deletion that nobody answers leaves nobody evicted by mistake for long."""
    story = world()
    lost = [Outcome(at=story.now, code=0), Outcome(at=story.now, code=503)]
    story.refuse = lambda action: lost.pop() if isinstance(action, Delete) and lost else None
    story.relabel("n1", disk="ssd")
    story.advance(30)
    assert requests(story) == []
    assert sum(isinstance(action, Delete) for action in story.done) == 3


@pytest.mark.parametrize("by", ["failure", "withdrawal", "silence"])
def test_a_request_in_vain_is_told_and_made_again(by: str) -> None:
    """Whether it failed, was withdrawn, or nobody answered: the pod is there, and is asked for anew."""
    story = world()
    (request,) = requests(story)
    if by == "failure":
        say(story, "Failed", "NoFurtherResponder")
        words = "the EvictionRequest failed: NoFurtherResponder so it is"
    elif by == "withdrawal":
        story.delete(EVICTION_REQUESTS, request["metadata"]["name"])
        words = "the EvictionRequest was withdrawn by somebody else"
    else:
        story.advance(TIMEOUT - 1)
        assert warnings(story) == []
        words = "nobody evicted the pod within 600 s of the EvictionRequest"
    story.advance(1.5)
    assert words in warnings(story)[0]
    story.advance(60)
    assert made(story) == 2
    (again,) = requests(story)
    assert again["metadata"]["uid"] != request["metadata"]["uid"]


def test_the_next_of_an_owner_waits() -> None:
    """While one pod is asked for, no other of its owner is, however long that takes."""
    story = world()
    owner = story.replica_set("more", 2)
    for name in ("more-1", "more-2"):
        story.pod(name, "n2", needs_label("disk", "ssd"), owner=owner)
    story.settle()
    story.relabel("n2", disk=None)
    story.advance(TIMEOUT / 2)
    asked = {request["spec"]["target"]["pod"]["name"] for request in requests(story)}
    assert len(asked & {"more-1", "more-2"}) == 1


def test_another_process_goes_on_with_the_request() -> None:
    """A request that is there is not made again, and one for a pod that need not go is withdrawn."""
    story = world()
    (request,) = requests(story)
    story.restart()
    story.advance(5)
    assert [found["metadata"]["uid"] for found in requests(story)] == [request["metadata"]["uid"]]
    story.relabel("n1", disk="ssd")
    story.restart()
    story.advance(5)
    assert requests(story) == []


def test_requests_of_others_are_left_alone() -> None:
    """Whatever somebody else asks for is not ours to take back."""
    story = world()
    other = {"target": {"pod": {"name": "x", "uid": "u"}}, "requester": "acme.io/drain", "intent": "Eviction"}
    story.create(EVICTION_REQUESTS, {"metadata": {"name": "other"}, "spec": other})
    story.delete(PODS, "web-1", grace=0)
    story.advance(10)
    assert [request["metadata"]["name"] for request in requests(story)] == ["other"]


def test_a_server_that_has_no_requests_any_more_refuses() -> None:
    """The pod stays, the failure is told, and nobody falls back to evicting it otherwise."""
    story = EvictionScript(EvictionSettings(uses_requests=True))
    story.labelled("n1", disk="ssd")
    story.pod("web-1", "n1", needs_label("disk", "ssd"))
    missing = Outcome(at=story.now, code=404, reason="NotFound", message="no such resource")

    def refuse(action: Action) -> Outcome | None:
        return missing if action.resource == EVICTION_REQUESTS else None

    story.refuse = refuse
    story.relabel("n1", disk=None)
    story.advance(10)
    assert "no such resource" in warnings(story)[0]
    assert not any(isinstance(action, Evict) for action in story.done)


def test_members_of_a_group_are_evicted_directly() -> None:
    """Members of a group are evicted directly, since EvictionRequests do not support them."""
    story = EvictionScript(EvictionSettings(uses_requests=True))
    story.labelled("n1", disk="ssd")
    story.pod("web-1", "n1", needs_label("disk", "ssd"))
    story.change(PODS, "web-1", {"spec": {"schedulingGroup": {"podGroupName": "g"}}})
    story.relabel("n1", disk=None)
    story.advance(10)
    assert requests(story) == []
    assert any(isinstance(action, Evict) for action in story.done)


def test_a_dry_run_asks_for_nothing() -> None:
    """A dry run makes no request."""
    story = world(dry_run=True)
    story.advance(10)
    assert requests(story) == []
