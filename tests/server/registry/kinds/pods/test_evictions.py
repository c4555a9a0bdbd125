"""Evictions against disruption budgets."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.api.client import Client, Json
from tests.support.api.objects import pod


def _running(client: Client, space: str, name: str, *, ready: bool = True, phase: str = "Running") -> None:
    client.made(f"{space}/pods", pod(name, nodeName="n"))
    status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(ready)}]}
    assert client.patch(f"{space}/pods/{name}/status", {"status": status}).status == 200


def _budget(client: Client, space: str, allowed: int, name: str = "pdb", **spec: object) -> str:
    path = f"/apis/policy/v1{space.removeprefix('/api/v1')}/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}, **spec}
    made = client.made(path, {"metadata": {"name": name}, "spec": spec})
    status = {
        "disruptionsAllowed": allowed,
        "currentHealthy": 1 + allowed,
        "desiredHealthy": 1,
        "expectedPods": 1 + allowed,
        "observedGeneration": made["metadata"]["generation"],
    }
    assert client.patch(f"{path}/{name}/status", {"status": status}).status == 200
    return f"{path}/{name}"


def _evict(client: Client, space: str, name: str, **options: object) -> tuple[int, Json]:
    body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    if options:
        body["deleteOptions"] = options
    answer = client.post(f"{space}/pods/{name}/eviction", body)
    return answer.status, answer.json


def test_without_budget(client: Client, space: str) -> None:
    """The pod is marked and deleted with its grace."""
    _running(client, space, "a")
    status, body = _evict(client, space, "a")
    assert (status, body["status"]) == (201, "Success")
    left = client.get(f"{space}/pods/a").json
    condition = next(c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget")
    assert (condition["status"], condition["reason"]) == ("True", "EvictionByEvictionAPI")
    assert left["metadata"]["deletionGracePeriodSeconds"] == 30


@pytest.mark.parametrize(
    ("status", "kept"), [("True", "RequiredNodeAffinityViolation"), ("False", "EvictionByEvictionAPI")]
)
def test_a_reason_that_was_given_before_is_kept(client: Client, space: str, status: str, kept: str) -> None:
    """Whoever marked the pod said why; a mark that was taken back says nothing."""
    _running(client, space, "a")
    marked = {"type": "DisruptionTarget", "status": status, "reason": "RequiredNodeAffinityViolation"}
    path = f"{space}/pods/a"
    conditions = [*client.get(path).json["status"].get("conditions", []), marked]
    assert client.patch(f"{path}/status", {"status": {"conditions": conditions}}).status == 200
    assert _evict(client, space, "a")[0] == 201
    left = client.get(path).json
    (condition,) = [c for c in left["status"]["conditions"] if c["type"] == "DisruptionTarget"]
    assert (condition["status"], condition["reason"]) == ("True", kept)


def test_budget_is_taken_from(client: Client, space: str) -> None:
    """An eviction takes from the budget; the next is a 429 that names it."""
    budget = _budget(client, space, 1)
    for name in "ab":
        _running(client, space, name)
    assert _evict(client, space, "a")[0] == 201
    status = client.get(budget).json["status"]
    assert (status["disruptionsAllowed"], list(status["disruptedPods"])) == (0, ["a"])
    code, body = _evict(client, space, "b")
    assert (code, body["reason"]) == (429, "TooManyRequests")
    assert body["message"] == "Cannot evict pod as it would violate the pod's disruption budget."
    (cause,) = body["details"]["causes"]
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget pdb does not allow evicting pods currently"


def test_explains_missing_health(client: Client, space: str) -> None:
    """A refused eviction says how many healthy pods the budget needs and has."""
    budget = _budget(client, space, 0)
    client.patch(f"{budget}/status", {"status": {"desiredHealthy": 2, "currentHealthy": 2}})
    _running(client, space, "a")
    _, body = _evict(client, space, "a")
    wanted = "The disruption budget pdb needs 2 healthy pods and has 2 currently"
    assert body["details"]["causes"][0]["message"] == wanted


def test_unobserved_budget(client: Client, space: str) -> None:
    """A budget the controller has not looked at yet: try again later."""
    budget = _budget(client, space, 5)
    client.patch(budget, {"spec": {"minAvailable": 2}})
    _running(client, space, "a")
    code, body = _evict(client, space, "a")
    assert (code, body["details"]["retryAfterSeconds"]) == (429, 10)


def test_several_budgets(client: Client, space: str) -> None:
    """Evicting a pod that several budgets match is an error."""
    _budget(client, space, 5, "one")
    _budget(client, space, 5, "two")
    _running(client, space, "a")
    code, body = _evict(client, space, "a")
    assert (code, "more than one PodDisruptionBudget" in body["message"]) == (500, True)


@pytest.mark.parametrize("phase", ["Pending", "Succeeded", "Failed"])
def test_pods_no_budget_counts(client: Client, space: str, phase: str) -> None:
    """Pending and finished pods are evicted whatever the budget says."""
    _budget(client, space, 0)
    _running(client, space, "a", phase=phase)
    assert _evict(client, space, "a")[0] == 201


def test_unhealthy_pods(client: Client, space: str) -> None:
    """An unready pod may go while enough others are healthy, or always where the budget says so."""
    budget = _budget(client, space, 0)
    _running(client, space, "a", ready=False)
    assert _evict(client, space, "a")[0] == 201  # 1 healthy of 1 desired
    client.patch(f"{budget}/status", {"status": {"currentHealthy": 0}})
    _running(client, space, "b", ready=False)
    assert _evict(client, space, "b")[0] == 429
    client.patch(budget, {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}})
    assert _evict(client, space, "b")[0] == 201


def test_preconditions_and_dry_run(client: Client, space: str) -> None:
    """Evictions honour UID and version preconditions, and dry runs change nothing."""
    budget = _budget(client, space, 1)
    _running(client, space, "a")
    assert _evict(client, space, "a", preconditions={"uid": "other"})[0] == 409
    assert _evict(client, space, "a", preconditions={"resourceVersion": "1"})[0] == 409
    assert _evict(client, space, "a", dryRun=["All"])[0] == 201
    assert "deletionTimestamp" not in client.get(f"{space}/pods/a").json["metadata"]
    assert client.get(budget).json["status"]["disruptionsAllowed"] == 1
    now = client.get(f"{space}/pods/a").json["metadata"]["resourceVersion"]
    assert _evict(client, space, "a", preconditions={"resourceVersion": now})[0] == 201


def test_concurrent_evictions_never_overrun(client: Client, space: str) -> None:
    """Twelve clients at once, three disruptions allowed: three pods go, nine evictions are refused."""
    budget = _budget(client, space, 3)
    names = [f"p{i}" for i in range(12)]
    for name in names:
        _running(client, space, name)
    barrier = threading.Barrier(len(names))

    def attempt(name: str) -> int:
        own = Client(client.prepared)
        try:
            own.get("/readyz")
            barrier.wait()
            return _evict(own, space, name)[0]
        finally:
            own.close()

    with ThreadPoolExecutor(len(names)) as pool:
        codes = list(pool.map(attempt, names))
    assert sorted(codes) == [201] * 3 + [429] * 9
    status = client.get(budget).json["status"]
    assert (status["disruptionsAllowed"], len(status["disruptedPods"])) == (0, 3)
    left = client.get(f"{space}/pods").json["items"]
    assert sum("deletionTimestamp" in item["metadata"] for item in left) == 3
