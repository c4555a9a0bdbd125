"""The binding subresource: a scheduler's decision is written down once, and completely."""

from __future__ import annotations

from tests.support.api.client import Client, Json
from tests.support.api.objects import pod
from tests.support.builders import ZONE


def binding(name: str, node: str = "n1", **metadata: object) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, **metadata},
        "target": {"kind": "Node", "name": node},
    }


def node(name: str, **labels: str) -> Json:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}


def test_a_second_binding_conflicts(client: Client, space: str) -> None:
    """Binding a pod that has a node is a conflict that names the node."""
    client.made(f"{space}/pods", pod("a"))
    assert client.post(f"{space}/pods/a/binding", binding("a")).status == 201
    again = client.post(f"{space}/pods/a/binding", binding("a", "n2"))
    assert (again.status, again.json["reason"]) == (409, "Conflict")
    assert again.message == (
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"'
    )
    assert again.json["details"] == {"name": "a", "kind": "pods/binding"}


def test_a_binding_may_be_meant_for_one_pod_only(client: Client, space: str) -> None:
    """A pod that was recreated under the same name is another pod."""
    uid = client.made(f"{space}/pods", pod("a"))["metadata"]["uid"]
    other = client.post(f"{space}/pods/a/binding", binding("a", uid="other"))
    assert other.status == 409
    assert f"UID in precondition: other, UID in object meta: {uid}" in other.message
    stale = client.post(f"{space}/pods/a/binding", binding("a", resourceVersion="1"))
    assert stale.status == 409
    assert client.post(f"{space}/pods/a/binding", binding("a", uid=uid)).status == 201


def test_a_pod_that_is_going_is_not_bound(client: Client, space: str) -> None:
    """A pod that is being deleted or is gone cannot be bound."""
    made = pod("a")
    made["metadata"]["finalizers"] = ["example.com/wait"]
    client.made(f"{space}/pods", made)
    client.delete(f"{space}/pods/a")
    refused = client.post(f"{space}/pods/a/binding", binding("a"))
    assert refused.status == 409
    assert "pod a is being deleted, cannot be assigned to a host" in refused.message
    assert client.post(f"{space}/pods/gone/binding", binding("gone")).status == 404


def test_a_gated_pod_is_not_bound(client: Client, space: str) -> None:
    """A pod with scheduling gates cannot be bound."""
    client.made(f"{space}/pods", pod("a", schedulingGates=[{"name": "wait"}]))
    refused = client.post(f"{space}/pods/a/binding", binding("a"))
    assert refused.status == 409
    assert "pod a has non-empty .spec.schedulingGates" in refused.message


def test_what_a_binding_leaves_in_the_pod(client: Client, space: str) -> None:
    """The node, the binding's labels and annotations, the condition; the nomination goes."""
    client.made(f"{space}/pods", pod("a"))
    waiting = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/0 nodes"}
    status = {"nominatedNodeName": "n1", "conditions": [waiting]}
    assert client.patch(f"{space}/pods/a/status", {"status": status}).status == 200
    body = binding("a", annotations={"note": "x"}, labels={"tier": "front"})
    assert client.post(f"{space}/pods/a/binding", body).status == 201

    bound = client.get(f"{space}/pods/a").json
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"note": "x"}
    assert bound["metadata"]["labels"] == {"app": "web", "tier": "front"}
    assert "nominatedNodeName" not in bound["status"]
    (scheduled,) = bound["status"]["conditions"]
    assert (scheduled["type"], scheduled["status"]) == ("PodScheduled", "True")
    assert "reason" not in scheduled
    assert "message" not in scheduled


def test_a_bound_pod_knows_its_zone(client: Client, space: str) -> None:
    """Zone and region of the node become labels of the pod; other labels do not."""
    client.made("/api/v1/nodes", node("zoned", **{ZONE: "z1", "disk": "ssd"}))
    client.made(f"{space}/pods", pod("a"))
    assert client.post(f"{space}/pods/a/binding", binding("a", "zoned")).status == 201
    assert client.get(f"{space}/pods/a").json["metadata"]["labels"] == {"app": "web", ZONE: "z1"}
    made = client.made(f"{space}/pods", pod("b", nodeName="zoned"))
    assert made["metadata"]["labels"] == {"app": "web", ZONE: "z1"}


def test_a_dry_run_binds_nothing(client: Client, space: str) -> None:
    """A dry run of a binding leaves the pod without a node."""
    client.made(f"{space}/pods", pod("a"))
    assert client.post(f"{space}/pods/a/binding", binding("a"), dryRun="All").status == 201
    assert "nodeName" not in client.get(f"{space}/pods/a").json["spec"]
