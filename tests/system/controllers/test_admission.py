"""What decides about pods beside their own spec: readiness gates, limits, runtime classes, new capacity.

Every outcome is what kube-apiserver and kube-controller-manager v1.37 come to on the same requests.
"""

from __future__ import annotations

from functools import partial

import pytest

from tests.support.api.client import STRATEGIC, Json
from tests.support.api.objects import deployment, pod
from tests.support.api.servers import REAL
from tests.support.waiting import wait_for
from tests.system.controllers.plane import Plane, items

GATE = "example.com/connected"


def test_a_pod_is_ready_once_its_gates_are(plane: Plane) -> None:
    """A Deployment counts it as ready only when the condition that the gate names holds."""
    path = f"{plane.under('apps/v1')}/deployments"
    body = deployment("web")
    body["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": GATE}]
    plane.client.made(path, body)

    def replicas() -> tuple[int, int]:
        status = plane.client.get(f"{path}/web").json["status"]
        return status.get("updatedReplicas", 0), status.get("readyReplicas", 0)

    def conditions() -> dict[str, str]:
        found = [one["status"].get("conditions", ()) for one in items(plane, "pods")]
        return {one["type"]: one["status"] for one in (found[0] if found else ())}

    wait_for(lambda: conditions().get("ContainersReady") == "True", "the containers run")
    wait_for(lambda: conditions().get("Ready") == "False", "the pod is not ready")
    wait_for(lambda: replicas() == (1, 0), "none ready")
    (name,) = (one["metadata"]["name"] for one in items(plane, "pods"))
    for status, ready in (("True", 1), ("False", 0)):
        change = {"status": {"conditions": [{"type": GATE, "status": status}]}}
        assert plane.client.patch(f"{plane.space}/pods/{name}/status", change, STRATEGIC).status == 200
        wanted = (1, ready)
        wait_for(partial(lambda wanted: replicas() == wanted, wanted), f"{ready} ready")


def limited(plane: Plane) -> None:
    limits = {
        "type": "Container",
        "max": {"cpu": "1"},
        "default": {"cpu": "500m", "memory": "64Mi"},
        "defaultRequest": {"cpu": "250m"},
    }
    plane.client.made(
        f"{plane.space}/limitranges", {"metadata": {"name": "limits"}, "spec": {"limits": [limits]}}
    )


def asking(cpu: str) -> Json:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])


def test_a_limit_range_fills_in_and_refuses(plane: Plane) -> None:
    """What a container does not say is filled in; more than the most is refused, in these words."""
    limited(plane)
    (container,) = plane.client.made(f"{plane.space}/pods", pod("filled"))["spec"]["containers"]
    assert container["resources"] == {
        "limits": {"cpu": "500m", "memory": "64Mi"},
        "requests": {"cpu": "250m", "memory": "64Mi"},
    }
    answer = plane.client.post(f"{plane.space}/pods", asking("2"))
    assert (answer.status, answer.message) == (
        403,
        'pods "p" is forbidden: maximum cpu usage per Container is 1, but limit is 2',
    )


def test_a_workload_says_that_its_pods_are_refused(plane: Plane) -> None:
    """A ReplicaSet whose pods exceed a limit has a condition that tells why there are none."""
    limited(plane)
    path = f"{plane.under('apps/v1')}/replicasets"
    body = {**deployment("web"), "kind": "ReplicaSet"}
    body["spec"]["template"]["spec"] = asking("2")["spec"]
    plane.client.made(path, body)

    def failure() -> Json:
        found = plane.client.get(f"{path}/web").json["status"].get("conditions", ())
        return next((one for one in found if one["type"] == "ReplicaFailure"), {})

    wait_for(lambda: bool(failure()), "the condition is there")
    said = failure()
    assert (said["status"], said["reason"]) == ("True", "FailedCreate")
    assert said["message"].endswith("is forbidden: maximum cpu usage per Container is 1, but limit is 2")


def test_a_runtime_class_says_what_its_pods_cost_and_where_they_go(plane: Plane) -> None:
    """Overhead, node selector and tolerations are the class's; what contradicts it is refused."""
    name = f"{plane.name}-gvisor"
    toleration = {"key": "sandbox", "operator": "Exists", "effect": "NoSchedule"}
    plane.client.made(
        "/apis/node.k8s.io/v1/runtimeclasses",
        {
            "metadata": {"name": name},
            "handler": "runsc",
            "overhead": {"podFixed": {"cpu": "250m", "memory": "64Mi"}},
            "scheduling": {"nodeSelector": {"sandbox": "gvisor"}, "tolerations": [toleration]},
        },
    )
    own = {"disk": "ssd"}
    spec = plane.client.made(f"{plane.space}/pods", pod("p", runtimeClassName=name, nodeSelector=own))["spec"]
    assert spec["overhead"] == {"cpu": "250m", "memory": "64Mi"}
    assert spec["nodeSelector"] == {**own, "sandbox": "gvisor"}
    assert toleration in spec["tolerations"]
    for body, why in (
        (pod("q", runtimeClassName="nope"), 'pod rejected: RuntimeClass "nope" not found'),
        (
            pod("q", runtimeClassName=name, nodeSelector={"sandbox": "kata"}),
            "is forbidden: conflict: runtimeClass.scheduling.nodeSelector[sandbox] = gvisor;",
        ),
        (
            pod("q", runtimeClassName=name, overhead={"cpu": "1"}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
    ):
        answer = plane.client.post(f"{plane.space}/pods", body)
        assert (answer.status, why in answer.message) == (403, True), answer.message


@pytest.mark.skipif(REAL, reason="it is the kubelet that does this, and there is none")
def test_new_capacity_can_be_asked_for(plane: Plane) -> None:
    """What is written to a node's capacity is allocatable soon, and pods that ask for it run."""
    node = plane.client.get("/api/v1/nodes").json["items"][0]["metadata"]["name"]
    path = f"/api/v1/nodes/{node}"
    change = {"status": {"capacity": {"example.com/dongle": "3"}}}
    assert plane.client.patch(f"{path}/status", change, STRATEGIC).status == 200

    def allocatable() -> str | None:
        found: str | None = plane.client.get(path).json["status"]["allocatable"].get("example.com/dongle")
        return found

    wait_for(lambda: allocatable() == "3", "it is allocatable")
    resources = {"limits": {"example.com/dongle": "2"}}
    plane.client.made(
        f"{plane.space}/pods", pod("p", containers=[{"name": "c", "image": "i", "resources": resources}])
    )
    wait_for(lambda: items(plane, "pods")[0]["spec"].get("nodeName") == node, "the pod is there")
