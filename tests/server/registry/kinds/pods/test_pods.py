"""What is decided about a pod before it is stored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from berth.kube.gates import FeatureGates
from tests.support.api.client import Client, Json
from tests.support.api.objects import pod
from tests.support.api.servers import running_server
from tests.support.builders import EXECUTION, HOSTNAME, REQUIRED, ZONE
from tests.support.manifests.namespace_terms import ANY_NAMESPACE


def _anti(variant: str, key: str, **term: Any) -> Json:
    selector = {"matchLabels": {"app": "web"}}
    return {"podAntiAffinity": {variant: [{"labelSelector": selector, "topologyKey": key, **term}]}}


@pytest.mark.parametrize("variant", [EXECUTION, REQUIRED])
@pytest.mark.parametrize("annotated", [False, True])
@pytest.mark.parametrize(("term", "beyond"), ANY_NAMESPACE)
def test_anti_affinity_limit(
    client: Client, space: str, variant: str, annotated: bool, term: Json, beyond: bool
) -> None:
    """A required rule against all namespaces may not claim more than a node, wherever it is written."""
    for key, code in ((ZONE, 403 if beyond else 201), (HOSTNAME, 201)):
        affinity = _anti(variant, key, **term)
        body = pod("a")
        if annotated:
            body["metadata"]["annotations"] = {"berth.dev/affinity": json.dumps(affinity)}
        else:
            body["spec"]["affinity"] = affinity
        answer = client.post(f"{space}/pods", body, dryRun="All")
        assert answer.status == code, answer.body
        if code == 403:
            assert answer.json["reason"] == "Forbidden"
            assert variant in answer.message
            assert ZONE in answer.message


def test_anti_affinity_limit_on_update(client: Client, space: str) -> None:
    """An annotation added later is held to the anti-affinity limit, too."""
    client.made(f"{space}/pods", pod("a"))
    rule = json.dumps(_anti(EXECUTION, ZONE, namespaceSelector={}))
    answer = client.patch(f"{space}/pods/a", {"metadata": {"annotations": {"berth.dev/affinity": rule}}})
    assert answer.status == 403


def test_annotation_is_validated(client: Client, space: str) -> None:
    """An affinity annotation that cannot be read is a 422 that names it."""
    body = pod("a")
    body["metadata"]["annotations"] = {"berth.dev/affinity": "{nonsense"}
    answer = client.post(f"{space}/pods", body)
    assert answer.status == 422
    assert "berth.dev/affinity" in answer.json["details"]["causes"][0]["field"]


def test_label_keys_are_merged(client: Client, space: str) -> None:
    """matchLabelKeys become requirements of the selector when the pod is created, and only then."""
    term = {"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": ZONE, "matchLabelKeys": ["rev"]}
    spread = {**term, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    body = pod("a", affinity={"podAffinity": {EXECUTION: [term]}}, topologySpreadConstraints=[spread])
    body["metadata"]["labels"]["rev"] = "7"
    made = client.made(f"{space}/pods", body)
    wanted = [{"key": "rev", "operator": "In", "values": ["7"]}]
    terms = made["spec"]["affinity"]["podAffinity"][EXECUTION]
    assert terms[0]["labelSelector"]["matchExpressions"] == wanted
    assert made["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == wanted
    again = client.patch(f"{space}/pods/a", {"metadata": {"labels": {"x": "y"}}})
    assert (again.status, again.json["spec"]) == (200, made["spec"])


def test_priority(client: Client, space: str) -> None:
    """The class decides the number; an unknown class is refused."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    client.made(classes, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    spec = client.made(f"{space}/pods", pod("a", priorityClassName="high"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    system = client.made(f"{space}/pods", pod("b", priorityClassName="system-node-critical"))["spec"]
    assert system["priority"] == 2_000_001_000
    assert client.made(f"{space}/pods", pod("c"))["spec"]["priority"] == 0
    missing = client.post(f"{space}/pods", pod("d", priorityClassName="missing"))
    assert missing.status == 403
    assert missing.message == 'pods "d" is forbidden: no PriorityClass with name missing was found'
    assert client.post(f"{space}/pods", pod("e", priority=5)).status == 403
    client.made(classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    assert client.made(f"{space}/pods", pod("f"))["spec"]["priority"] == 7
    client.delete(f"{classes}/usual")
    reserved = {"metadata": {"name": "system-mine"}, "value": 1}
    assert client.post(classes, reserved).status == 403
    assert client.patch(f"{classes}/high", {"value": 2}).status == 422


def test_gates(tmp_path: Path) -> None:
    """A disabled gate drops its field on creation, and keeps it where it was in use."""
    pods = "/api/v1/namespaces/default/pods"
    selector = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    body = pod("old", affinity={"nodeAffinity": {EXECUTION: selector}})
    with running_server(tmp_path) as client:
        client.made(pods, body)
    with running_server(tmp_path, gates=FeatureGates.parse("NodeAffinityEviction=false")) as client:
        body["metadata"]["name"] = "new"
        made = client.made(pods, body)
        assert EXECUTION not in made["spec"].get("affinity", {}).get("nodeAffinity", {})
        kept = client.patch(f"{pods}/old", {"metadata": {"labels": {"x": "y"}}})
        assert kept.json["spec"]["affinity"]["nodeAffinity"] == {EXECUTION: selector}


TEMPLATES = {
    "/api/v1/namespaces/default/podtemplates": ("template",),
    "/api/v1/namespaces/default/replicationcontrollers": ("spec", "template"),
    "/apis/apps/v1/namespaces/default/deployments": ("spec", "template"),
    "/apis/apps/v1/namespaces/default/replicasets": ("spec", "template"),
    "/apis/apps/v1/namespaces/default/statefulsets": ("spec", "template"),
    "/apis/apps/v1/namespaces/default/daemonsets": ("spec", "template"),
    "/apis/batch/v1/namespaces/default/jobs": ("spec", "template"),
    "/apis/batch/v1/namespaces/default/cronjobs": ("spec", "jobTemplate", "spec", "template"),
}


def _templated(name: str, path: str) -> Json:
    """A workload whose pods have a rule of each gate."""
    terms = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    apart = [{"topologyKey": HOSTNAME, "labelSelector": {}}]
    spread = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    affinity = {"nodeAffinity": {EXECUTION: terms}, "podAntiAffinity": {EXECUTION: apart}}
    spec = pod("a", affinity=affinity, topologySpreadConstraints=[spread])["spec"]
    labels = {"app": "a"}
    inner: Json = {"metadata": {"labels": labels}, "spec": spec}
    if "/batch/" in path:
        spec["restartPolicy"] = "Never"
    for name_of in reversed(TEMPLATES[path]):
        inner = {name_of: inner}
    if path.endswith("replicationcontrollers"):
        inner["spec"]["selector"] = labels
    elif "/apps/" in path:
        inner["spec"]["selector"] = {"matchLabels": labels}
    if path.endswith("statefulsets"):
        inner["spec"]["serviceName"] = "a"
    if path.endswith("cronjobs"):
        inner["spec"]["schedule"] = "0 0 * * *"
    return {"metadata": {"name": name}, **inner}


def test_gates_hold_for_templates(tmp_path: Path) -> None:
    """As for pods: dropped when they are new, kept where they were in use, and in a controller's copy."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "old", "uid": "u", "controller": True}
    rules = (EXECUTION, "topologySpreadConstraints")
    with running_server(tmp_path) as client:
        for path in TEMPLATES:
            made = client.made(path, _templated("old", path))
            assert all(rule in str(made) for rule in rules)
    gates = FeatureGates.parse("NodeAffinityEviction=false,PodAffinityEviction=false,EvenPodsSpread=false")
    with running_server(tmp_path, gates=gates) as client:
        for path in TEMPLATES:
            made = client.made(path, _templated("new", path))
            assert not any(rule in str(made) for rule in rules)
            kept = client.patch(f"{path}/old", {"metadata": {"labels": {"x": "y"}}})
            assert all(rule in str(kept.json) for rule in rules)
            copied = _templated("copy", path)
            copied["metadata"]["ownerReferences"] = [owner]
            made = client.made(path, copied)
            assert all(rule in str(made) for rule in rules)


def test_quality_of_service(client: Client, space: str) -> None:
    """The QoS class follows from requests and limits."""

    def made(name: str, resources: Json) -> str:
        body = pod(name)
        body["spec"]["containers"][0]["resources"] = resources
        return str(client.made(f"{space}/pods", body)["status"]["qosClass"])

    assert made("a", {}) == "BestEffort"
    assert made("b", {"requests": {"cpu": "1"}}) == "Burstable"
    assert made("c", {"limits": {"cpu": "1", "memory": "1Gi"}}) == "Guaranteed"


def test_quality_of_service_of_a_pod_that_states_its_resources_as_a_whole(client: Client, space: str) -> None:
    """What the pod states as a whole decides, whatever its containers state."""

    def made(name: str, resources: Json, container: Json) -> str:
        body = pod(name)
        body["spec"]["resources"] = resources
        body["spec"]["containers"][0]["resources"] = container
        return str(client.made(f"{space}/pods", body)["status"]["qosClass"])

    whole = {"cpu": "1", "memory": "1Gi"}
    assert made("whole-a", {"requests": {"cpu": "1"}}, {"limits": whole}) == "Burstable"
    assert made("whole-b", {"limits": whole}, {}) == "Guaranteed"
    assert made("whole-c", {"limits": whole, "requests": whole}, {"requests": {"cpu": "1m"}}) == "Guaranteed"
    assert made("whole-d", {"limits": whole}, {"requests": {"cpu": "1m"}}) == "Burstable"
