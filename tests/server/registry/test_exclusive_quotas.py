"""Quotas of what pods keep for themselves, and the limit on that, as the server holds them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from berth.kube.affinity.anti_affinity import AdmissionPolicy, AntiAffinityLimit
from berth.kube.quota.exclusive import AVERAGE
from tests.support.api.client import Answer, Client, Json
from tests.support.api.objects import exclusive_pod as exclusive
from tests.support.api.objects import pod
from tests.support.api.servers import running_server
from tests.support.builders import HOSTNAME, ZONE

SPACE = "/api/v1/namespaces/default"
NODES = {"a": ("z1", "4", "8Gi"), "b": ("z1", "8", "4Gi"), "c": ("z2", "2", "2Gi")}
POLICY = AdmissionPolicy(
    users=frozenset({"ann"}), groups=frozenset({"operators"}), exempt=frozenset({"free"})
)


def prepared(client: Client) -> None:
    for name, (zone, cpu, memory) in NODES.items():
        labels = {HOSTNAME: name, ZONE: zone}
        client.made("/api/v1/nodes", {"metadata": {"name": name, "labels": labels}})
        status = {"status": {"allocatable": {"cpu": cpu, "memory": memory}}}
        assert client.patch(f"/api/v1/nodes/{name}/status", status).status == 200


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Client]:
    policy = AdmissionPolicy(limit=None)
    with running_server(tmp_path, policy=policy) as client:
        prepared(client)
        yield client


def quota(**hard: str) -> Json:
    limits = {f"berth.dev/exclusive.{name}": amount for name, amount in hard.items()}
    return {"metadata": {"name": "q"}, "spec": {"hard": limits}}


def used(client: Client) -> dict[str, str]:
    found = client.get(f"{SPACE}/resourcequotas/q").json["status"]["used"]
    return {name.rpartition(".")[2]: amount for name, amount in found.items()}


def bind(client: Client, name: str, node: str) -> None:
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
    assert client.post(f"{SPACE}/pods/{name}/binding", body).status == 201


def test_the_charge_goes_down_once_a_pod_has_a_node(server: Client) -> None:
    """The largest node it could get before, the one it has afterwards, and nothing once it is gone."""
    server.made(f"{SPACE}/resourcequotas", quota(cpu="100", memory="100Gi", nodes="10"))
    server.made(f"{SPACE}/pods", pod("plain"))
    assert used(server) == {"cpu": "0", "memory": "0", "nodes": "0"}
    server.made(f"{SPACE}/pods", exclusive("p"))
    assert used(server) == {"cpu": "8", "memory": str(8 << 30), "nodes": "1"}
    bind(server, "p", "c")
    assert used(server) == {"cpu": "2", "memory": str(2 << 30), "nodes": "1"}
    server.send("DELETE", f"{SPACE}/pods/p?gracePeriodSeconds=0")
    assert used(server) == {"cpu": "0", "memory": "0", "nodes": "0"}


def test_a_whole_domain_is_charged(server: Client) -> None:
    """A rule with a zone's key blocks all its nodes; one pinned to a machine is charged by that."""
    server.made(f"{SPACE}/resourcequotas", quota(cpu="100", nodes="10"))
    server.made(f"{SPACE}/pods", exclusive("zone", ZONE))
    assert used(server) == {"cpu": "12", "nodes": "2"}
    server.made(f"{SPACE}/pods", exclusive("pinned", nodeSelector={HOSTNAME: "a"}))
    assert used(server) == {"cpu": "16", "nodes": "3"}


def test_beyond_the_quota_is_refused(server: Client) -> None:
    """With upstream's words; other pods are not concerned, and neither are rules against one's own pods."""
    server.made(f"{SPACE}/resourcequotas", quota(cpu="12", nodes="5"))
    server.made(f"{SPACE}/pods", exclusive("one"))
    answer = server.post(f"{SPACE}/pods", exclusive("two"))
    assert answer.status == 403
    assert answer.message == (
        'pods "two" is forbidden: exceeded quota: q, requested: berth.dev/exclusive.cpu=8, '
        "used: berth.dev/exclusive.cpu=8, limited: berth.dev/exclusive.cpu=12"
    )
    server.made(f"{SPACE}/pods", pod("plain"))
    own = {"topologyKey": HOSTNAME, "labelSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [own]}}
    server.made(f"{SPACE}/pods", pod("own", affinity=rules))


def test_an_annotation_added_later_is_charged(server: Client) -> None:
    """Rules cannot be smuggled in behind the quota's back."""
    server.made(f"{SPACE}/resourcequotas", quota(nodes="0"))
    server.made(f"{SPACE}/pods", pod("p"))
    rules = {"podAntiAffinity": exclusive("x")["spec"]["affinity"]["podAntiAffinity"]}
    patch = {"metadata": {"annotations": {"berth.dev/affinity": json.dumps(rules)}}}
    answer = server.patch(f"{SPACE}/pods/p", patch)
    assert answer.status == 403
    assert "requested: berth.dev/exclusive.nodes=1" in answer.message


@pytest.mark.parametrize("way", ["status", "binding"])
def test_a_subresource_is_no_way_round(tmp_path: Path, way: str) -> None:
    """Neither the limit nor the quota is passed by an annotation in the status or in the Binding."""

    def write(client: Client, rules: Json) -> Answer:
        metadata = {"name": "p", "annotations": {"berth.dev/affinity": json.dumps(rules)}}
        if way == "status":
            return client.patch(f"{SPACE}/pods/p/status", {"metadata": metadata})
        return client.post(f"{SPACE}/pods/p/binding", {"metadata": metadata, "target": {"name": "a"}})

    with running_server(tmp_path) as client:
        prepared(client)
        client.made(f"{SPACE}/resourcequotas", quota(nodes="0"))
        client.made(f"{SPACE}/pods", pod("p"))
        answer = write(client, exclusive("x", ZONE)["spec"]["affinity"])
        assert answer.status == 403
        assert "required anti-affinity against pods of all namespaces" in answer.message
        answer = write(client, exclusive("x")["spec"]["affinity"])
        assert answer.status == 403
        assert "requested: berth.dev/exclusive.nodes=1" in answer.message
        assert write(client, {"nodeAffinity": {}}).status == (200 if way == "status" else 201)


def test_a_namespace_that_comes_is_blocked_and_charged(server: Client) -> None:
    """A rule against a namespace that is not there costs a placed pod nothing, until it is there."""
    server.made(f"{SPACE}/resourcequotas", quota(nodes="1"))
    term = {"topologyKey": HOSTNAME, "labelSelector": {}, "namespaces": ["later"]}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    server.made(f"{SPACE}/pods", pod("p", affinity=rules))
    assert used(server) == {"nodes": "1"}
    bind(server, "p", "a")
    assert used(server) == {"nodes": "0"}
    server.made("/api/v1/namespaces", {"metadata": {"name": "later"}})
    assert server.post(f"{SPACE}/pods", exclusive("q")).status == 403


def test_an_annotation_is_counted_however_it_is_spelt(server: Client) -> None:
    """A field whose name is written with escapes is charged, also when all is counted again."""
    rules = json.dumps(exclusive("x")["spec"]["affinity"]).replace("podAnti", "pod\\u0041nti")
    server.made(f"{SPACE}/resourcequotas", quota(nodes="2"))
    body = pod("p")
    body["metadata"]["annotations"] = {"berth.dev/affinity": rules}
    server.made(f"{SPACE}/pods", body)
    assert used(server) == {"nodes": "1"}
    assert server.patch(f"{SPACE}/resourcequotas/q", {"spec": {"hard": {"pods": "9"}}}).status == 200
    assert used(server)["nodes"] == "1"


def test_a_node_that_changed_is_counted_at_once(server: Client) -> None:
    """Whoever comes right after a node gets its label back is judged by what is blocked then."""
    server.made(f"{SPACE}/resourcequotas", quota(nodes="2"))
    assert server.patch("/api/v1/nodes/a", {"metadata": {"labels": {HOSTNAME: None}}}).status == 200
    for name, node in (("p", "a"), ("q", "b")):
        server.made(f"{SPACE}/pods", exclusive(name))
        bind(server, name, node)
    assert used(server) == {"nodes": "1"}
    assert server.patch("/api/v1/nodes/a", {"metadata": {"labels": {HOSTNAME: "a"}}}).status == 200
    assert server.post(f"{SPACE}/pods", exclusive("r")).status == 403


def test_pods_on_one_node_are_charged_together(server: Client) -> None:
    """What is blocked is blocked once, though several pods that let each other in keep it."""
    term = {
        "topologyKey": HOSTNAME,
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]},
        "namespaceSelector": {},
    }
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    server.made(f"{SPACE}/resourcequotas", quota(nodes="3"))
    for name in ("p", "q", "r"):
        server.made(f"{SPACE}/pods", pod(name, affinity=rules))
    for name, expected in (("p", "3"), ("q", "2"), ("r", "1")):
        bind(server, name, "a")
        assert used(server) == {"nodes": expected}


def test_concurrent_creates_do_not_exceed_it(server: Client) -> None:
    """Concurrent creates do not exceed the quota, as with any other resource."""
    server.made(f"{SPACE}/resourcequotas", quota(nodes="4"))
    assert server.post_at_once(f"{SPACE}/pods", exclusive) == [201] * 4 + [403] * 8


def test_the_average_can_be_charged_instead(tmp_path: Path) -> None:
    """A setting of the server has the average node charged instead of the largest."""
    with running_server(tmp_path, exclusive_charge=AVERAGE) as client:
        prepared(client)
        client.made(f"{SPACE}/resourcequotas", quota(cpu="100"))
        client.made(f"{SPACE}/pods", exclusive("p"))
        assert used(client) == {"cpu": "4"}


# --- the limit


def acting(user: str, *groups: str) -> dict[str, str]:
    return {"Impersonate-User": user, "Impersonate-Group": ",".join(("system:masters", *groups))}


def test_some_are_trusted_without_the_limit(tmp_path: Path) -> None:
    """Users, groups and namespaces; everybody else is told, and an update keeps what was trusted before."""
    with running_server(tmp_path, policy=POLICY) as client:
        client.made("/api/v1/namespaces", {"metadata": {"name": "free"}})
        wide = exclusive("p", ZONE)
        assert client.post(f"{SPACE}/pods", wide).status == 403
        assert client.post("/api/v1/namespaces/free/pods", wide).status == 201
        assert client.send("POST", f"{SPACE}/pods", wide, headers=acting("bob")).status == 403
        assert client.send("POST", f"{SPACE}/pods", wide, headers=acting("ann")).status == 201
        other = exclusive("q", ZONE)
        headers = {**acting("bob"), "Impersonate-Group": "operators"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "operators"}
        bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        client.made(bindings, {"metadata": {"name": "ops"}, "roleRef": role, "subjects": [subject]})
        assert client.send("POST", f"{SPACE}/pods", other, headers=headers).status == 201
        image = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
        assert client.patch(f"{SPACE}/pods/p", image, "application/strategic-merge-patch+json").status == 200


def test_every_rule_can_be_limited(tmp_path: Path) -> None:
    """Every rule can be limited and other keys be allowed, as with the webhook."""
    limit = AntiAffinityLimit(every_rule=True, topology_keys=("rack",))
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}
    with running_server(tmp_path, policy=AdmissionPolicy(limit=limit)) as client:
        rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        assert client.post(f"{SPACE}/pods", pod("p", affinity=rules)).status == 403
        term["topologyKey"] = "rack"
        assert client.post(f"{SPACE}/pods", pod("p", affinity=rules)).status == 201
