"""Services: addresses and node ports that are kept, and what another type leaves behind."""

from __future__ import annotations

import pytest

from berth.server.registry.kinds.network import services
from tests.support.api.client import Client, Json


def service(name: str = "s", kind: str = "ClusterIP", **spec: object) -> Json:
    return {"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}], **spec}}


def test_node_ports_are_found_and_kept(client: Client, space: str) -> None:
    """One for every port, each once, and the same after an update that does not name it."""
    two = [{"name": "a", "port": 80}, {"name": "b", "port": 81}]
    made = client.made(f"{space}/services", service(kind="NodePort", ports=two))["spec"]
    first = [port["nodePort"] for port in made["ports"]]
    other = client.made(f"{space}/services", service("t", "LoadBalancer"))["spec"]
    assert (other["allocateLoadBalancerNodePorts"], other["externalTrafficPolicy"]) == (True, "Cluster")
    found = {*first, other["ports"][0]["nodePort"]}
    assert len(found) == 3
    assert found <= set(range(30_000, 32_768))
    answer = client.patch(f"{space}/services/s", {"spec": {"ports": two}})
    assert [port["nodePort"] for port in answer.json["spec"]["ports"]] == first
    taken = service("u", "NodePort", ports=[{"port": 80, "nodePort": first[0]}])
    answer = client.post(f"{space}/services", taken)
    assert "spec.ports[0].nodePort: Invalid value" in answer.message
    assert "provided port is already allocated" in answer.message
    low = service("u", "NodePort", ports=[{"port": 80, "nodePort": 80}])
    assert "The range of valid ports is 30000-32767" in client.post(f"{space}/services", low).message
    assert client.delete(f"{space}/services/s").status == 200
    assert client.post(f"{space}/services", taken).status == 201


def test_there_are_only_so_many_node_ports(
    client: Client, space: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When all are taken one more Service is refused in a sentence."""
    monkeypatch.setattr(services, "_NODE_PORTS", range(32_700, 32_701))
    assert client.post(f"{space}/services", service(kind="NodePort")).status == 201
    answer = client.post(f"{space}/services", service("t", "NodePort"))
    assert (answer.status, answer.message) == (
        500,
        "Internal error occurred: failed to allocate a nodePort: range is full",
    )


def test_another_type_leaves_things_behind(client: Client, space: str) -> None:
    """Node ports go with NodePort, the address with ClusterIP, and come again."""
    made = client.made(f"{space}/services", service(kind="NodePort"))["spec"]
    spec = client.patch(f"{space}/services/s", {"spec": {"type": "ClusterIP"}}).json["spec"]
    assert "nodePort" not in spec["ports"][0]
    assert "externalTrafficPolicy" not in spec
    assert spec["clusterIP"] == made["clusterIP"]
    change = {"spec": {"type": "ExternalName", "externalName": "a.com"}}
    assert "clusterIP" not in client.patch(f"{space}/services/s", change).json["spec"]
    back = client.patch(f"{space}/services/s", {"spec": {"type": "ClusterIP", "externalName": None}})
    assert back.json["spec"]["clusterIP"]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (service(ports=[]), "spec.ports: Required value"),
        (service(ports=[{"port": 1}, {"port": 2}]), "spec.ports[0].name: Required value"),
        (service(ports=[{"port": 70_000}]), "must be between 1 and 65535, inclusive"),
        (service(kind="Magic"), 'spec.type: Unsupported value: "Magic"'),
        (service(kind="ExternalName"), "spec.externalName: Required value"),
    ],
)
def test_services_that_are_refused(client: Client, space: str, body: Json, problem: str) -> None:
    """A Service that nobody could reach is a 422."""
    answer = client.post(f"{space}/services", body)
    assert (answer.status, problem in answer.message) == (422, True), answer.message


def test_an_address_stays(client: Client, space: str) -> None:
    """Once set, it may not change; headless Services have none and need no ports."""
    made = client.made(f"{space}/services", service())
    spec = {**made["spec"], "clusterIP": "10.96.200.1", "clusterIPs": ["10.96.200.1"]}
    answer = client.put(f"{space}/services/s", {**made, "spec": spec})
    assert (answer.status, "may not change once set" in answer.message) == (422, True)
    headless = client.made(f"{space}/services", service("h", ports=[], clusterIP="None"))
    assert headless["spec"]["clusterIPs"] == ["None"]


def test_priorities_of_users_have_an_end(client: Client) -> None:
    """A value above the system's is refused, and so is a second default."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    answer = client.post(path, {"metadata": {"name": "p"}, "value": 2_000_000_000})
    assert "maximum allowed value of a user defined priority is 1000000000" in answer.message
    client.made(path, {"metadata": {"name": "p"}, "value": 1, "globalDefault": True})
    answer = client.post(path, {"metadata": {"name": "q"}, "value": 1, "globalDefault": True})
    client.delete(f"{path}/p")
    assert answer.status == 403
    assert "PriorityClass p is already marked as default. Only one default can exist" in answer.message


def test_what_is_empty_is_left_out(client: Client, space: str) -> None:
    """Empty labels and annotations are as good as none."""
    metadata = {"name": "e", "labels": {}, "annotations": {}, "finalizers": []}
    made = client.made(f"{space}/configmaps", {"metadata": metadata})
    assert not {"labels", "annotations", "finalizers"} & made["metadata"].keys()
    answer = client.patch(f"{space}/configmaps/e", {"metadata": {"annotations": {}}})
    assert answer.json["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
