"""Bodies in protobuf sent to a running server, by hand and by kubectl where it is installed."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from berth.server import protobuf
from tests.server.protobuf.encoding import Message, envelope, meta, number
from tests.server.protobuf.examples import DEPLOYMENT
from tests.support.api.client import Client, Json
from tests.support.api.objects import config_map, namespace, pod

_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_KUBECTL = shutil.which("kubectl")
needs_kubectl = pytest.mark.skipif(_KUBECTL is None, reason="kubectl is not installed")


def _send(client: Client, method: str, path: str, api_version: str, kind: str, body: Message) -> Json:
    headers = {"Accept": f"{protobuf.CONTENT_TYPE},application/json"}
    data = envelope(api_version, kind, body)
    answer = client.send(method, path, data, headers=headers, content_type=protobuf.CONTENT_TYPE)
    assert answer.headers["Content-Type"] == "application/json"
    return {"code": answer.status, **answer.json}


def test_create_and_scale(client: Client, space: str) -> None:
    """A Deployment can be created and scaled in protobuf, false and zero included."""
    apps = space.replace("/api/v1", "/apis/apps/v1")
    valid: Any = copy.deepcopy(DEPLOYMENT)
    container = valid[2][3][2][2][0]
    container[15][4] = 0  # a user that there may be
    del container[11][7]  # what readiness probes do not have
    made = _send(client, "POST", f"{apps}/deployments", "apps/v1", "Deployment", valid)
    assert made["code"] == 201
    assert made["spec"]["replicas"] == 0
    assert made["spec"]["template"]["spec"]["automountServiceAccountToken"] is False
    body = {1: meta("web"), 2: {1: 4}, 3: {1: 0, 2: ""}}
    scaled = _send(client, "PUT", f"{apps}/deployments/web/scale", "autoscaling/v1", "Scale", body)
    assert (scaled["code"], scaled["spec"]) == (200, {"replicas": 4})


def test_update_and_delete(client: Client, space: str) -> None:
    """A ConfigMap can be updated and deleted with preconditions in protobuf."""
    path = f"{space}/configmaps/a"
    client.made(f"{space}/configmaps", config_map("a", k="v"))
    updated = _send(client, "PUT", path, "v1", "ConfigMap", {1: meta("a"), 2: {"k": "w"}})
    assert updated["data"] == {"k": "w"}
    wrong: Message = {2: {1: "another-uid"}}
    assert _send(client, "DELETE", path, "v1", "DeleteOptions", wrong)["code"] == 409
    right: Message = {2: {1: updated["metadata"]["uid"]}}
    assert _send(client, "DELETE", path, "v1", "DeleteOptions", right)["code"] == 200
    assert client.get(path).status == 404


def test_bind_and_evict(client: Client, space: str) -> None:
    """Bindings, budgets and evictions can be sent in protobuf."""
    client.made(f"{space}/pods", pod("p"))
    target: Message = {1: meta("p"), 2: {1: "Node", 3: "n"}}
    assert _send(client, "POST", f"{space}/pods/p/binding", "v1", "Binding", target)["code"] == 201
    assert client.get(f"{space}/pods/p").json["spec"]["nodeName"] == "n"
    budget: Message = {1: meta("pdb"), 2: {1: number(1), 2: {1: {"app": "web"}}}}
    policy = space.replace("/api/v1", "/apis/policy/v1")
    made = _send(client, "POST", f"{policy}/poddisruptionbudgets", "policy/v1", "PodDisruptionBudget", budget)
    assert made["spec"] == {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    eviction: Message = {1: meta("p"), 2: {1: 0}}
    assert _send(client, "POST", f"{space}/pods/p/eviction", "policy/v1", "Eviction", eviction)["code"] == 201


@pytest.mark.parametrize("body", [b"", b"{}", b"k8s\x00", envelope("v1", "ConfigMap", b"\x0a\x7f")])
def test_malformed(client: Client, space: str, body: bytes) -> None:
    """A malformed protobuf body is a 400."""
    answer = client.send("POST", f"{space}/configmaps", body, content_type=protobuf.CONTENT_TYPE)
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert "error decoding protobuf" in answer.message


def test_wrong_kind(client: Client, space: str) -> None:
    """A protobuf body of another kind than the path is a 400."""
    assert _send(client, "POST", f"{space}/configmaps", "v1", "Secret", {1: meta("a")})["code"] == 400


def test_custom_resources_have_no_protobuf(client: Client, space: str) -> None:
    """Custom resources have no protobuf form; their definitions do."""
    names: Message = {1: "ships", 2: "ship", 4: "Ship", 5: "ShipList"}
    version: Message = {1: "v1", 2: True, 3: True, 4: {1: {5: "object", 38: True}}}
    spec: Message = {1: "berth.test", 3: names, 4: "Namespaced", 7: [version], 10: False}
    body: Message = {1: meta("ships.berth.test"), 2: spec, 3: {2: {1: "", 4: ""}}}
    made = _send(client, "POST", _CRDS, "apiextensions.k8s.io/v1", "CustomResourceDefinition", body)
    assert made["code"] == 201, made["message"]
    path = space.replace("/api/v1", "/apis/berth.test/v1") + "/ships"
    refused = _send(client, "POST", path, "berth.test/v1", "Ship", {1: meta("a")})
    assert (refused["code"], refused["reason"]) == (415, "UnsupportedMediaType")
    ship = {"apiVersion": "berth.test/v1", "kind": "Ship", "metadata": {"name": "a"}}
    client.made(path, ship)
    assert _send(client, "DELETE", f"{path}/a", "berth.test/v1", "DeleteOptions", {1: 0})["code"] == 200


# --- kubectl ----------------------------------------------------------------------------------------


class Kubectl:
    def __init__(self, client: Client, home: Path, space: str) -> None:
        self._base = [f"--kubeconfig={client.prepared.kubeconfig}", f"--namespace={space}"]
        self._environment = {**os.environ, "HOME": str(home)}

    def __call__(self, *arguments: str) -> str:
        done = subprocess.run(  # noqa: S603 - kubectl itself
            [_KUBECTL or "", *self._base, *arguments],
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def kubectl(client: Client, tmp_path: Path, space: str) -> Kubectl:
    return Kubectl(client, tmp_path, space.rpartition("/")[2])


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[Json]:
    """What the server has read from protobuf."""
    objects: list[Json] = []
    original = protobuf.decode

    def record(body: bytes) -> Json:
        obj = original(body)
        objects.append(json.loads(json.dumps(obj)))
        return obj

    monkeypatch.setattr(protobuf, "decode", record)
    return objects


def _without_empty(value: Any) -> Any:
    """Go's JSON shows empty structs and null times; they say nothing."""
    if isinstance(value, dict):
        kept = {name: _without_empty(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item is not None and item != {}}
    return [_without_empty(item) for item in value] if isinstance(value, list) else value


@needs_kubectl
@pytest.mark.parametrize(
    "arguments",
    [
        "namespace {name}-protobuf",
        "deployment web --image=nginx:1.25 --replicas=0 --port=80",
        "configmap settings --from-literal=a=b",
        "secret generic password --from-literal=a=b",
        "secret docker-registry registry --docker-username=a --docker-password=b",
        "job once --image=busybox -- true",
        "cronjob often --image=busybox --schedule=@hourly -- true",
        "pdb budget --selector=app=web --min-available=0",
        "pdb share --selector=app=web --max-unavailable=50%",
        "priorityclass {name}-low --value=0 --description=low",
        "serviceaccount robot",
        "service clusterip web --tcp=80:8080",
        "service externalname far --external-name=example.com",
        "role reader --verb=get,list --resource=pods",
        "rolebinding reader --role=reader --user=me",
        "clusterrole {name}-reader --verb=get --resource=pods",
        "clusterrolebinding {name}-reader --clusterrole=reader --group=us",
        "ingress web --rule=example.com/a*=web:80",
        "quota limits --hard=cpu=1,pods=2",
    ],
)
def test_kubectl_create(kubectl: Kubectl, space: str, received: list[Json], arguments: str) -> None:
    """What kubectl sends reads as the JSON it prints."""
    words = ["create", *arguments.format(name=space.rpartition("/")[2]).split()]
    at = words.index("--") if "--" in words else len(words)
    shown = json.loads(kubectl(*words[:at], "--dry-run=client", "-o", "json", *words[at:]))
    assert "created" in kubectl(*words)
    assert _without_empty(received[-1]) == _without_empty(shown)


@needs_kubectl
def test_kubectl_asks(kubectl: Kubectl, received: list[Json]) -> None:
    """`kubectl auth` gets its answers."""
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert received[-1]["spec"]["resourceAttributes"]["resource"] == "pods"
    assert "*.*" in kubectl("auth", "can-i", "--list")
    assert "Username" in kubectl("auth", "whoami")


@needs_kubectl
def test_kubectl_scale(kubectl: Kubectl) -> None:
    """`kubectl scale` sets the replicas, zero included."""
    kubectl("create", "deployment", "web", "--image=nginx:1.25")
    for replicas in ("3", "0"):
        assert kubectl("scale", "deployment/web", f"--replicas={replicas}") == "deployment.apps/web scaled\n"
        assert kubectl("get", "deployment/web", "-o", "jsonpath={.spec.replicas}") == replicas


@needs_kubectl
def test_kubectl_drain(kubectl: Kubectl, client: Client, space: str) -> None:
    """The pods of a node are evicted, and the node takes no more."""
    node = f"{space.rpartition('/')[2]}-node"
    client.made("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    client.made(f"{space}/pods", pod("web", nodeName=node))
    assert kubectl("cordon", node) == f"node/{node} cordoned\n"
    assert kubectl("uncordon", node) == f"node/{node} uncordoned\n"
    assert f"node/{node} drained" in kubectl("drain", node, "--force", "--grace-period=0", "--timeout=30s")
    assert client.get(f"/api/v1/nodes/{node}").json["spec"]["unschedulable"] is True
    assert client.get(f"{space}/pods/web").status == 404


@needs_kubectl
def test_kubectl_delete(kubectl: Kubectl, client: Client) -> None:
    """`kubectl delete` deletes objects and namespaces."""
    client.made("/api/v1/namespaces", namespace("kubectl-gone"))
    kubectl("create", "configmap", "a")
    assert "deleted" in kubectl("delete", "configmap", "a", "--grace-period=0")
    assert "deleted" in kubectl("delete", "namespace", "kubectl-gone", "--wait=false")
