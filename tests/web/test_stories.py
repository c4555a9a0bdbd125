"""What became of evictions, put together from the events of a cluster."""

from __future__ import annotations

from typing import Any

from berth.kube.objects import Key
from berth.web.events import eviction_stories
from berth.web.overview import NodeRow, PodRow

RULE = "spec.affinity.nodeAffinity does not hold on node n1: disk=ssd, the node has disk=hdd"
GONE = f"Evicted: {RULE}. Its replacement would go to node n2."
LOST = f"Evicted: {RULE}. No node could take its replacement."


def event(second: int, reason: str, name: str, message: str, **more: Any) -> dict[str, Any]:
    told = {"time": f"2026-01-01T00:00:{second:02}Z", "namespace": "default", "kind": "Pod", "count": 1}
    return {**told, "reason": reason, "name": name, "message": message, **more}


def made(second: int, pod: str, owner: str = "web-1", kind: str = "ReplicaSet") -> dict[str, Any]:
    message = (
        f"Created pod: {pod}"
        if kind != "StatefulSet"
        else f"create Pod {pod} in StatefulSet {owner} successful"
    )
    return event(second, "SuccessfulCreate", owner, message, kind=kind)


def row(name: str, node: str, phase: str = "Running") -> dict[Key, PodRow]:
    return {("default", name): PodRow("default", name, "Deployment/web", node, phase, 0, 0)}


def test_a_story_goes_from_the_broken_rule_to_the_pod_that_runs_instead() -> None:
    """Each step has what the machine and the workload said of it."""
    why = "Cannot evict pod as it would violate the pod's disruption budget."
    events = [
        made(1, "web-1-a"),
        event(5, "FailedNodeAffinityEviction", "web-1-a", f"Could not evict: {why} ({RULE})", count=3),
        event(9, "NodeAffinityEviction", "web-1-a", GONE),
        made(9, "web-1-b"),
    ]
    (story,) = eviction_stories(events, row("web-1-b", "n2"), {})
    assert (story["pod"], story["broken"], story["evicted"]) == ("web-1-a", RULE, True)
    assert (story["refused"]["why"], story["refused"]["times"]) == (why, 3)
    assert story["place"] == "Its replacement would go to node n2."
    expected = {"pod": "web-1-b", "node": "n2", "phase": "Running", "waits": None}
    assert {key: story["replacement"][key] for key in expected} == expected


def test_a_pod_that_may_not_go_is_held_back() -> None:
    """Nothing was evicted so far: the story ends with who refuses."""
    events = [
        made(1, "web-1-a"),
        event(5, "FailedPodAffinityEviction", "web-1-a", f"Could not evict: no ({RULE})"),
    ]
    (story,) = eviction_stories(events, {}, {})
    assert (story["evicted"], story["refused"]["why"], story["replacement"]) == (False, "no", None)


def test_a_replacement_without_a_node_says_why() -> None:
    """The scheduler's newest sentence about it is part of the story."""
    events = [
        made(1, "web-1-a"),
        event(9, "NodeAffinityEviction", "web-1-a", LOST),
        made(9, "web-1-b"),
        event(10, "FailedScheduling", "web-1-b", "0/3 nodes are available"),
    ]
    (story,) = eviction_stories(events, row("web-1-b", "", "Pending"), {})
    assert story["place"] == "No node could take its replacement."
    assert story["replacement"]["waits"] == "0/3 nodes are available"


def test_two_evictions_of_one_workload_have_a_replacement_each() -> None:
    """The first that goes is replaced by the first that is made, and nobody by a pod of another workload."""
    events = [
        *(made(1, f"web-1-{name}") for name in "ab"),
        event(5, "NodeAffinityEviction", "web-1-a", GONE),
        made(5, "other", owner="api-1"),
        made(6, "web-1-c"),
        event(7, "NodeAffinityEviction", "web-1-b", GONE),
        made(8, "web-1-d"),
    ]
    newest, oldest = eviction_stories(events, {}, {})
    assert (newest["pod"], newest["replacement"]["pod"]) == ("web-1-b", "web-1-d")
    assert (oldest["pod"], oldest["replacement"]["pod"]) == ("web-1-a", "web-1-c")


def test_a_stateful_pod_is_replaced_under_its_name() -> None:
    """What a StatefulSet makes anew has the name of the pod that went."""
    events = [
        event(5, "NodeAffinityEviction", "db-0", GONE),
        made(6, "db-0", owner="db", kind="StatefulSet"),
    ]
    (story,) = eviction_stories(events, row("db-0", "n2", "NotReady"), {})
    assert (story["replacement"]["pod"], story["replacement"]["phase"]) == ("db-0", "NotReady")


def test_events_of_others_and_without_words_make_no_story() -> None:
    """What is no eviction is not told as one, and a message in other words is told as it is."""
    events = [event(1, "Scheduled", "a", "to n1"), event(2, "NodeAffinityEviction", "b", "gone", time=None)]
    (story,) = eviction_stories(events, {}, {})
    assert (story["pod"], story["broken"], story["replacement"]) == ("b", "gone", None)


def test_a_pod_that_a_taint_drove_away_has_a_story_too() -> None:
    """The taint of the node it was on is named, nobody is refused, and its replacement is found."""
    tainted = NodeRow(
        "n1", {}, "Ready", unschedulable=False, taints=["gone:NoExecute"], cpu=0, memory=0, pods=0
    )
    events = [
        made(1, "web-1-a"),
        event(2, "Scheduled", "web-1-a", "Successfully assigned default/web-1-a to n1"),
        event(5, "TaintManagerEviction", "web-1-a", "Marking for deletion Pod default/web-1-a"),
        made(6, "web-1-b"),
    ]
    (story,) = eviction_stories(events, row("web-1-b", "n2"), {"n1": tainted})
    assert (story["cause"], story["evicted"], story["refused"]) == ("taint", True, None)
    assert story["broken"] == "node n1 has the taint gone:NoExecute, which it does not tolerate"
    assert (story["replacement"]["pod"], story["replacement"]["node"]) == ("web-1-b", "n2")


def test_a_taint_that_was_taken_off_in_time_makes_no_story() -> None:
    """Who was to go and stays after all was not evicted."""
    words = ("Marking for deletion Pod default/a", "Cancelling deletion of Pod default/a")
    events = [event(second, "TaintManagerEviction", "a", said) for second, said in enumerate(words)]
    assert eviction_stories(events, {}, {}) == []


def test_a_pod_moved_for_evenness_has_a_story_too() -> None:
    """What was uneven is told, though nobody said where its replacement would go."""
    events = [
        made(1, "web-1-a"),
        event(5, "Rebalanced", "web-1-a", "Evicted: zone a has 5, c has 1"),
        made(6, "b"),
    ]
    (story,) = eviction_stories(events, {}, {})
    assert (story["cause"], story["broken"], story["place"]) == ("evenness", "zone a has 5, c has 1", None)
