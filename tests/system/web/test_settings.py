"""The page of `berth up` judges with the settings of the machines that it shows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from tests.support.api.client import Client, Json
from tests.support.processes.control_plane import up
from tests.support.processes.plane_client import plane_client
from tests.support.waiting import polls, wait_for

LIGHT = [{"matchExpressions": [{"key": "lamp", "operator": "Exists"}]}]
LASTING = {"requiredDuringSchedulingRequiredDuringExecution": {"nodeSelectorTerms": LIGHT}}
AGENTS = {
    "topologyKey": "kubernetes.io/hostname",
    "labelSelector": {"matchLabels": {"app": "agent"}},
    "namespaces": ["agents"],
}


def pod(name: str, affinity: Json) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "image": "example/c:1"}], "affinity": affinity},
    }


def runs(api: Client, namespace: str, made: Json) -> None:
    """Make a pod and wait until it has its node."""
    at = f"/api/v1/namespaces/{namespace}/pods"
    api.post(at, made)
    name = made["metadata"]["name"]
    wait_for(lambda: "nodeName" in api.get(f"{at}/{name}").json["spec"], f"{name} has a node")


def audit(link: str) -> Any:
    """What the page says of running pods, once it has read the cluster."""
    with httpx.Client(base_url=link.partition("/?")[0], follow_redirects=True, timeout=60) as page:
        page.get(link).raise_for_status()
        for _ in polls(60):
            page.get("/api/v1/overview").raise_for_status()  # somebody looks
            answer = page.get("/api/v1/audit")
            if answer.status_code != 503:
                return answer.raise_for_status().json()
    raise AssertionError("the page did not read the cluster")


def test_the_page_has_the_gates_and_daemon_namespaces_of_the_scheduler(tmp_path: Path) -> None:
    """Pods that the scheduler placed under `--feature-gates` and `--daemon-namespaces` break no rule."""
    # The server keeps the field, so that it is the page's own gate that leaves the rule out.
    gates = ("--feature-gates=NodeAffinityEviction=false", "--server-feature-gates=NodeAffinityEviction=true")
    with up(tmp_path, "--nodes=1", *gates, "--daemon-namespaces=agents", web=True) as plane:
        with plane_client(plane) as api:
            space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "agents"}}
            api.post("/api/v1/namespaces", space)
            runs(api, "agents", pod("agent", {}))
            apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [AGENTS]}}
            runs(api, "default", pod("apart", apart))
            runs(api, "default", pod("lit", {"nodeAffinity": LASTING}))
        found = audit(plane.page)
    assert found["summary"]["running"] >= 3
    assert found["summary"]["broken"] == 0, found
