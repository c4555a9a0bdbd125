"""Pods with claims to devices: the claims are reserved before the binding, and given back without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from berth.kube.api_resources import PODS, RESOURCE_CLAIMS
from berth.machines.contract import Action, Bind, Outcome, Patch
from tests.support.scripts.scheduler import SchedulerScript


def allocation(node: str | None = None, **result: Any) -> dict[str, Any]:
    given: dict[str, Any] = {"devices": {"results": [{"driver": "d", "pool": "p", "device": "x", **result}]}}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        given["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    return given


def claim(story: SchedulerScript, name: str = "gpu", **status: Any) -> None:
    story.create(RESOURCE_CLAIMS, {"metadata": {"name": name}, "spec": {}, "status": status})


def using(*names: str) -> list[dict[str, str]]:
    return [{"name": name, "resourceClaimName": name} for name in names]


def reserved(story: SchedulerScript, name: str = "gpu") -> list[str]:
    found = story.get(RESOURCE_CLAIMS, name)["status"].get("reservedFor") or []
    return [entry["name"] for entry in found]


def order(story: SchedulerScript) -> list[str]:
    """What was asked for, in order: bindings, reservations and their return."""
    words = []
    for action in story.done:
        if isinstance(action, Bind):
            words.append("bind")
        elif isinstance(action, Patch) and action.resource == RESOURCE_CLAIMS:
            assert isinstance(action.body, dict)
            entry = action.body["status"]["reservedFor"][0]
            words.append("return" if entry.get("$patch") == "delete" else "reserve")
    return words


def refusing(wanted: Callable[[Action], bool], outcome: Outcome) -> Callable[[Action], Outcome | None]:
    return lambda action: outcome if wanted(action) else None


def is_reservation(action: Action) -> bool:
    return isinstance(action, Patch) and action.resource == RESOURCE_CLAIMS


def world(**settings: Any) -> SchedulerScript:
    story = SchedulerScript(**settings)
    story.nodes("n1", "n2")
    return story


# --- reserving ------------------------------------------------------------------------------------


def test_a_claim_is_reserved_before_the_pod_is_bound() -> None:
    """The pod goes where the devices are, and stands in the claim before its binding is sent."""
    story = world()
    claim(story, allocation=allocation("n2"))
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    assert story.placements == {"p": "n2"}
    assert order(story) == ["reserve", "bind"]
    (entry,) = story.get(RESOURCE_CLAIMS, "gpu")["status"]["reservedFor"]
    assert entry == {"resource": "pods", "name": "p", "uid": story.get(PODS, "p")["metadata"]["uid"]}


def test_pods_share_a_claim() -> None:
    """Every pod is reserved for itself, and none takes another's place."""
    story = world()
    claim(story, allocation=allocation())
    for name in ("a", "b", "c"):
        story.pod(name, resourceClaims=using("gpu"))
    story.settle()
    assert None not in story.placements.values()
    assert sorted(reserved(story)) == ["a", "b", "c"]


def test_a_pod_is_reserved_in_all_its_claims_or_bound_nowhere() -> None:
    """If one claim cannot be had, the other is given back, and both are asked for again later."""
    story = world()
    claim(story, "one", allocation=allocation())
    claim(story, "two", allocation=allocation())
    refused = Outcome(at=story.now, code=422, reason="Invalid", message="too many")
    story.refuse = refusing(lambda action: is_reservation(action) and action.name == "two", refused)
    story.pod("p", resourceClaims=using("one", "two"))
    story.settle()
    assert story.bindings == []
    assert reserved(story, "one") == []
    assert "add reservation to claim default/two: too many" in (story.condition("p") or ("", ""))[1]
    story.refuse = lambda _action: None
    story.advance(3)
    assert story.node_of("p") is not None
    assert reserved(story, "one") == reserved(story, "two") == ["p"]


def test_a_claim_from_a_template_is_waited_for() -> None:
    """The pod is tried again when its status names the claim, and when the claim has devices."""
    story = world()
    story.pod("p", resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": "t"}])
    story.settle()
    assert "ResourceClaim not created yet" in (story.condition("p") or ("", ""))[1]
    owner = {"uid": story.get(PODS, "p")["metadata"]["uid"], "controller": True}
    story.create(RESOURCE_CLAIMS, {"metadata": {"name": "p-x", "ownerReferences": [owner]}, "status": {}})
    story.change(
        PODS, "p", {"status": {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "p-x"}]}}
    )
    story.advance(2)
    assert "p-x is not allocated" in (story.condition("p") or ("", ""))[1]
    story.change(RESOURCE_CLAIMS, "p-x", {"status": {"allocation": allocation("n1")}})
    story.advance(4)
    assert story.placements == {"p": "n1"}
    assert reserved(story, "p-x") == ["p"]


# --- claims that cannot be used -------------------------------------------------------------------


@pytest.mark.parametrize("deleted", [False, True])
def test_room_that_comes_while_the_devices_are_away_is_not_forgotten(*, deleted: bool) -> None:
    """The claim that comes back wakes the pod, although it was refused for want of room alone."""
    story = SchedulerScript()
    story.nodes("n1")
    story.running("x", "n1", cpu="3")
    claim(story, allocation=allocation("n1"))
    story.pod("p", cpu="2", resourceClaims=using("gpu"))
    story.settle()
    assert story.placements["p"] is None
    if deleted:
        story.delete(RESOURCE_CLAIMS, "gpu")
    else:
        story.change(RESOURCE_CLAIMS, "gpu", {"status": {"allocation": None}})
    story.settle()
    story.leave("x")
    story.settle()
    if deleted:
        claim(story, allocation=allocation("n1"))
    else:
        story.change(RESOURCE_CLAIMS, "gpu", {"status": {"allocation": allocation("n1")}})
    story.advance(30)
    assert story.placements == {"p": "n1"}


def test_a_claim_that_is_not_allocated_is_counted() -> None:
    """The pod is not bound, and the metric tells of every attempt that ended so."""
    story = world()
    claim(story)
    claim(story, "used", allocation=allocation("n9"))
    story.pod("p", resourceClaims=using("gpu"))
    story.pod("q", resourceClaims=using("used"))
    story.settle()
    assert story.bindings == []
    words = "resource claim default/gpu is not allocated, and Berth allocates no devices."
    reason, said = story.condition("p") or ("", "")
    assert reason == "Unschedulable"
    assert said.startswith(f"0/2 nodes are available: {words}")
    assert said in story.events("FailedScheduling")
    counted = story.scheduler.state.metrics.unallocated.labels("berth").value
    assert counted == 1.0


def test_a_claim_that_was_moved_is_noticed() -> None:
    """What the answer says of the devices counts, not what the watch said before."""
    story = world()
    claim(story, allocation=allocation("n1"))
    story.held.add(RESOURCE_CLAIMS)
    story.change(RESOURCE_CLAIMS, "gpu", {"status": {"allocation": allocation("n2")}})
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    assert story.bindings == []
    assert "got deallocated elsewhere in the meantime" in (story.condition("p") or ("", ""))[1]
    story.deliver()
    story.advance(3)
    assert story.placements == {"p": "n2"}


@pytest.mark.parametrize("late", [False, True], ids=["before the answer", "after it"])
def test_a_claim_that_goes_away_while_the_pod_waits(late: bool) -> None:
    """Whether the reservation was answered or not, the pod is not bound to devices that are gone."""
    story = world()
    waiting = allocation("n1", bindingConditions=["Up"])
    claim(story, allocation=waiting)
    if not late:
        refused = Outcome(at=story.now, code=422, reason="Invalid", message="not allocated")
        story.refuse = refusing(is_reservation, refused)
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    story.delete(RESOURCE_CLAIMS, "gpu")
    story.settle()
    assert story.bindings == []
    story.advance(3)
    assert 'could not find ResourceClaim "default/gpu"' in (story.condition("p") or ("", ""))[1]


# --- devices that have to be made ready -----------------------------------------------------------


def ready(story: SchedulerScript, kind: str) -> None:
    device = {"driver": "d", "pool": "p", "device": "x"}
    condition = {"type": kind, "status": "True", "reason": "R", "message": "m"}
    story.change(RESOURCE_CLAIMS, "gpu", {"status": {"devices": [{**device, "conditions": [condition]}]}})


def test_a_pod_waits_until_its_devices_are_ready() -> None:
    """The claim is reserved at once, the binding follows when the driver says so."""
    story = world()
    claim(story, allocation=allocation(bindingConditions=["Up"], bindingFailureConditions=["Down"]))
    story.pod("p", resourceClaims=using("gpu"))
    story.advance(30)
    assert (reserved(story), story.bindings) == (["p"], [])
    ready(story, "Up")
    story.settle()
    assert story.node_of("p") is not None


def test_devices_that_cannot_be_made_ready_are_given_back() -> None:
    """The pod says why and is not bound."""
    story = world()
    claim(story, allocation=allocation(bindingConditions=["Up"], bindingFailureConditions=["Down"]))
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    ready(story, "Down")
    story.settle()
    assert (reserved(story), story.bindings) == ([], [])
    assert any("device binding failed: claim=gpu, reason=R, message=m" in e for e in story.events())


def test_waiting_for_devices_has_an_end() -> None:
    """After the timeout the claim is given back, and the pod tried anew."""
    story = world(device_timeout=60.0)
    claim(story, allocation=allocation(bindingConditions=["Up"]))
    story.pod("p", resourceClaims=using("gpu"))
    story.advance(60.5)
    assert story.events("FailedScheduling")[-1] == "binding rejected: device binding timeout: claim=gpu"
    assert order(story) == ["reserve", "return"]
    story.advance(3)
    assert order(story) == ["reserve", "return", "reserve"]


# --- giving back ----------------------------------------------------------------------------------


def test_a_binding_that_is_refused_gives_the_claim_back() -> None:
    """The claim is given back first, so that the next attempt does not lose what it has just got."""
    story = world()
    claim(story, allocation=allocation())
    refused = Outcome(at=story.now, code=422, reason="Invalid", message="no")
    lost = Outcome(at=story.now, code=0, message="no answer")
    returns = [lost, lost]

    def refuse(action: Action) -> Outcome | None:
        if isinstance(action, Bind):
            return refused
        if order(story)[-1:] == ["return"] and is_reservation(action) and returns:
            return returns.pop()
        return None

    story.refuse = refuse
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    assert order(story) == ["reserve", "bind", "return"]
    story.refuse = lambda action: returns.pop() if is_reservation(action) and returns else None
    story.advance(10)
    assert order(story) == ["reserve", "bind", "return", "return", "return", "reserve", "bind"]
    assert reserved(story) == ["p"]
    assert story.node_of("p") is not None


def test_a_pod_that_goes_before_it_is_bound_gives_its_claim_back() -> None:
    """Nothing is left of it, whether it is gone at once or was only told to go."""
    story = world()
    claim(story, allocation=allocation(bindingConditions=["Up"]))
    story.pod("p", resourceClaims=using("gpu"))
    story.settle()
    assert reserved(story) == ["p"]
    story.leave("p")
    story.settle()
    assert reserved(story) == []


def test_a_pod_that_may_be_bound_keeps_its_claim() -> None:
    """While nobody knows what became of the binding, nothing is given back."""
    story = world()
    claim(story, allocation=allocation())
    story.refuse = lambda action: Outcome(at=story.now, code=0) if isinstance(action, Bind) else None
    story.pod("p", resourceClaims=using("gpu"))
    story.advance(1)
    story.leave("p")
    story.settle()
    assert "return" not in order(story)


# --- leaving pods to others -----------------------------------------------------------------------


def test_pods_with_claims_can_be_left_to_another_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    """They are not tried at all, which is said once; their neighbours are placed as ever."""
    caplog.set_level("INFO")
    story = world(skips_claims=True)
    claim(story, allocation=allocation())
    story.pod("p", resourceClaims=using("gpu"))
    story.pod("q")
    story.change(PODS, "p", {"metadata": {"labels": {"seen": "again"}}})
    story.settle()
    assert story.bindings[0][0] == "q"
    assert (story.node_of("p"), story.condition("p"), reserved(story)) == (None, None, [])
    words = [record.message for record in caplog.records if "left to another" in record.message]
    assert words == ["pod default/p has resource claims and is left to another scheduler"]
