"""The real clients: kubectl (where it is installed), the official Python client, kr8s."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.api.client import Client, Json
from tests.support.api.objects import config_map, deployment, namespace, pod

kubernetes: Any = importlib.import_module("kubernetes")  # typed too strictly to take manifests
needs_kubectl = pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")


class Kubectl:
    def __init__(self, client: Client, home: Path, space: str) -> None:
        self._base = ["kubectl", f"--kubeconfig={client.prepared.kubeconfig}", f"--namespace={space}"]
        self._environment = {**os.environ, "HOME": str(home)}

    def __call__(self, *arguments: str, stdin: object = None, fails: bool = False) -> str:
        done = subprocess.run(  # noqa: S603 - our own arguments
            [*self._base, *arguments],
            input=yaml.safe_dump(stdin) if stdin is not None else None,
            capture_output=True,
            text=True,
            timeout=60,
            env=self._environment,
            check=False,
        )
        assert (done.returncode != 0) is fails, done.stderr
        return done.stderr if fails else done.stdout

    def json(self, *arguments: str) -> Json:
        decoded: Json = json.loads(self(*arguments, "-o", "json"))
        return decoded


@pytest.fixture
def kubectl(client: Client, tmp_path: Path, space: str) -> Kubectl:
    return Kubectl(client, tmp_path, space.rpartition("/")[2])


@needs_kubectl
def test_apply_get_scale_delete(kubectl: Kubectl) -> None:
    """kubectl applies, scales, shows and deletes a Deployment."""
    body = deployment(replicas=2)
    assert kubectl("apply", "-f-", stdin=body) == "deployment.apps/web created\n"
    assert kubectl("apply", "-f-", stdin=body) == "deployment.apps/web unchanged\n"
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    assert "nginx:2" in kubectl("apply", "-f-", "--dry-run=server", "-o", "yaml", stdin=body)
    assert kubectl("apply", "-f-", stdin=body) == "deployment.apps/web configured\n"
    assert kubectl("scale", "deploy/web", "--replicas=5") == "deployment.apps/web scaled\n"
    heads, row = kubectl("get", "deploy").splitlines()
    assert heads.split() == ["NAME", "READY", "UP-TO-DATE", "AVAILABLE", "AGE"]
    assert row.split()[:4] == ["web", "0/5", "0", "0"]
    assert "Replicas:" in kubectl("describe", "deploy", "web")
    assert kubectl("rollout", "restart", "deploy/web") == "deployment.apps/web restarted\n"
    assert kubectl("set", "image", "deploy/web", "c=nginx:3") == "deployment.apps/web image updated\n"
    assert kubectl("delete", "deploy", "web") == 'deployment.apps "web" deleted\n'


@needs_kubectl
def test_server_side_apply(kubectl: Kubectl) -> None:
    """kubectl's server-side apply reports conflicts and can force them."""
    kubectl("apply", "--server-side", "-f-", stdin=config_map("a", k="1"))
    conflict = kubectl(
        "apply", "--server-side", "--field-manager=other", "-f-", stdin=config_map("a", k="2"), fails=True
    )
    assert 'Apply failed with 1 conflict: conflict with "kubectl"' in conflict
    kubectl(
        "apply",
        "--server-side",
        "--force-conflicts",
        "--field-manager=other",
        "-f-",
        stdin=config_map("a", k="2"),
    )
    assert kubectl.json("get", "cm", "a")["data"] == {"k": "2"}


@needs_kubectl
def test_validation(kubectl: Kubectl) -> None:
    """kubectl names unknown fields and explains Berth's own."""
    wrong = pod("a", nonsense=1)
    assert 'unknown field "spec.nonsense"' in kubectl("create", "-f-", stdin=wrong, fails=True)
    assert "pod/a created" in kubectl("create", "--validate=warn", "-f-", stdin=wrong)
    assert "FIELD: topologySpreadConstraints" in kubectl("explain", "pod.spec.topologySpreadConstraints")
    execution = "requiredDuringSchedulingRequiredDuringExecution"
    assert execution in kubectl("explain", f"pod.spec.affinity.nodeAffinity.{execution}")


@needs_kubectl
def test_lists(kubectl: Kubectl) -> None:
    """A document of kind List is checked by kubectl itself, item by item, with the OpenAPI v2 document."""
    running = pod("a")
    running["spec"]["containers"][0]["resources"] = {"requests": {"cpu": 1, "memory": "1Gi"}}
    made = kubectl("create", "-f-", stdin=listed(running, config_map("b", k="1"), deployment()))
    assert made.splitlines() == ["pod/a created", "configmap/b created", "deployment.apps/web created"]
    assert kubectl("apply", "-f-", stdin=listed(config_map("c"))) == "configmap/c created\n"
    wrong = kubectl("create", "-f-", stdin=listed(pod("d", nonsense=1)), fails=True)
    assert 'ValidationError(Pod.spec): unknown field "nonsense" in io.k8s.api.core.v1.PodSpec' in wrong


@needs_kubectl
def test_lists_of_custom_objects(kubectl: Kubectl) -> None:
    """Their schemas are in the document as soon as their definition is there."""
    number = {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}
    fields = {
        "size": {"type": "integer", "minimum": 0},
        "note": {"type": "string", "nullable": True},
        "port": number,
        "rest": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"q": number}},
    }
    spec = {"type": "object", "required": ["size"], "properties": fields}
    schema = {"type": "object", "properties": {"spec": spec}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.example.org"},
        "spec": {"group": "example.org", "scope": "Namespaced", "names": names, "versions": [version]},
    }
    kubectl("apply", "-f-", stdin=listed(config_map("a")))  # whatever kubectl keeps is too old afterwards
    kubectl("apply", "-f-", stdin=listed(crd))
    gadget: Json = {"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": {"name": "g"}}
    legal = {"size": 0, "note": None, "port": "http", "rest": {"q": 1, "more": {"than": "that"}}}
    assert "created" in kubectl("create", "-f-", stdin=listed({**gadget, "spec": legal}))
    assert kubectl.json("get", "gadget", "g")["spec"] == legal
    wrong = kubectl("apply", "-f-", stdin=listed({**gadget, "spec": {"sise": 1}}), fails=True)
    assert 'unknown field "sise"' in wrong
    assert 'missing required field "size"' in wrong
    kubectl("delete", "crd", "gadgets.example.org")


def listed(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


@needs_kubectl
def test_pods(kubectl: Kubectl) -> None:
    """kubectl's everyday commands about pods work."""
    assert kubectl("run", "a", "--image=nginx") == "pod/a created\n"
    assert kubectl("label", "pod", "a", "tier=front") == "pod/a labeled\n"
    assert kubectl("annotate", "pod", "a", "note=x") == "pod/a annotated\n"
    assert kubectl("get", "pods", "-l", "tier=front", "-o", "name") == "pod/a\n"
    assert kubectl("get", "pods", "--field-selector=status.phase=Running", "-o", "name") == ""
    wide = kubectl("get", "pods", "-o", "wide").splitlines()[0]
    assert wide.split()[-4:] == ["NOMINATED", "NODE", "READINESS", "GATES"]
    assert "Status:           Pending" in kubectl("describe", "pod", "a")
    assert kubectl("logs", "a") == ""
    assert kubectl("wait", "--for=jsonpath={.status.phase}=Pending", "pod/a") == "pod/a condition met\n"
    assert kubectl("delete", "pod", "a", "--wait=true") == 'pod "a" deleted\n'
    assert kubectl("auth", "can-i", "create", "pods") == "yes\n"


@needs_kubectl
def test_nodes_and_drain(client: Client, kubectl: Kubectl, space: str) -> None:
    """cordon, taint and drain: evictions stop at the budget."""
    client.post("/api/v1/nodes", {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "4"}}})
    assert kubectl("cordon", "n1") == "node/n1 cordoned\n"
    assert kubectl("taint", "node", "n1", "a=b:NoSchedule") == "node/n1 tainted\n"
    assert "SchedulingDisabled" in kubectl("get", "nodes")
    client.made(f"{space}/pods", pod("a", nodeName="n1"))
    ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
    client.patch(f"{space}/pods/a/status", ready)
    budgets = f"/apis/policy/v1{space.removeprefix('/api/v1')}/poddisruptionbudgets"
    selector = {"matchLabels": {"app": "web"}}
    client.made(budgets, {"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": selector}})
    status = {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "observedGeneration": 1}
    client.patch(f"{budgets}/b/status", {"status": status})
    refused = kubectl("drain", "n1", "--force", "--timeout=1s", fails=True)
    assert "Cannot evict pod as it would violate the pod's disruption budget." in refused
    client.patch(f"{budgets}/b/status", {"status": {"disruptionsAllowed": 1}})
    drained = kubectl("drain", "n1", "--force", "--timeout=60s", "--grace-period=0")
    assert "evicting pod" in drained or "drained" in drained
    client.delete("/api/v1/nodes/n1")


@needs_kubectl
def test_namespaces_and_secrets(kubectl: Kubectl) -> None:
    """kubectl creates namespaces, secrets, config maps and jobs."""
    assert kubectl("create", "ns", "extra") == "namespace/extra created\n"
    kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    assert kubectl.json("get", "secret", "s")["data"] == {"a": "Yg=="}
    kubectl("create", "configmap", "c", "--from-literal=a=b")
    assert "configmap/c patched" in kubectl("patch", "cm", "c", "-p", '{"data":{"x":"y"}}')
    kubectl("create", "job", "j", "--image=x")
    assert kubectl.json("get", "job", "j")["spec"]["template"]["metadata"]["labels"]["job-name"] == "j"


def _api(client: Client) -> Any:
    return kubernetes.config.new_client_from_config(str(client.prepared.kubeconfig))


def test_official_client(client: Client, space: str) -> None:
    """Typed create, list, patch, watch, evict and delete."""
    name = space.rpartition("/")[2]
    with _api(client) as api:
        core = kubernetes.client.CoreV1Api(api)
        made = core.create_namespaced_pod(name, pod("a"))
        assert made.status.phase == "Pending"
        start = core.list_namespaced_pod(name).metadata.resource_version
        core.patch_namespaced_pod("a", name, {"metadata": {"labels": {"x": "y"}}})
        core.delete_namespaced_pod("a", name)
        stream = kubernetes.watch.Watch().stream(
            core.list_namespaced_pod, name, resource_version=start, timeout_seconds=1
        )
        seen = [(event["type"], event["object"].metadata.name) for event in stream]
        assert seen == [("MODIFIED", "a"), ("DELETED", "a")]
        apps = kubernetes.client.AppsV1Api(api)
        apps.create_namespaced_deployment(name, deployment(replicas=3))
        scaled = apps.patch_namespaced_deployment_scale("web", name, {"spec": {"replicas": 1}})
        assert scaled.spec.replicas == 1
        with pytest.raises(kubernetes.client.ApiException) as refused:
            core.create_namespaced_pod("missing", pod("a"))
        assert refused.value.status == 404


_KR8S = """
import sys, json, kr8s
from kr8s.objects import Pod
api = kr8s.api(kubeconfig=sys.argv[1])
created = Pod(json.loads(sys.argv[2]), api=api)
created.create()
assert created.exists()
created.label(tier="front")
found = list(api.get("pods", namespace="kr8s", label_selector={"tier": "front"}))
assert [item.name for item in found] == ["a"], found
for event, seen in api.watch("pods", namespace="kr8s"):
    assert (event, seen.name) == ("ADDED", "a")
    break
created.delete()
assert not created.exists()
"""


def test_kr8s(client: Client) -> None:
    """In a process of its own: it leaves its connections to the interpreter's end."""
    client.made("/api/v1/namespaces", namespace("kr8s"))
    body = pod("a")
    body["metadata"]["namespace"] = "kr8s"
    command = [sys.executable, "-W", "ignore", "-c", _KR8S, str(client.prepared.kubeconfig), json.dumps(body)]
    done = subprocess.run(  # noqa: S603 - our own script
        command, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
