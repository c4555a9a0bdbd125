"""`berth what-if` on a live cluster: files are laid over it, and nothing is ever written there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from berth.kube.versions import NEWEST
from berth.live.http.exchange import Request
from berth.live.http.http1 import Http1Connection
from tests.support.api.client import Client
from tests.support.api.objects import deployment, pod
from tests.support.api.servers import running_server
from tests.support.cli.command import berth
from tests.support.manifests.what_if import budget, node, workload

PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """Three nodes, a Deployment with two pods, and a budget."""
    with running_server(tmp_path_factory.mktemp("data")) as client:
        for name, zone in (("n1", "a"), ("n2", "b"), ("n3", "c")):
            client.made("/api/v1/nodes", node(name, zone))
        client.made("/apis/apps/v1/namespaces/default/deployments", deployment("web", replicas=2))
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "web-5d",
            "uid": "u",
            "controller": True,
        }
        for name, on in (("web-5d-a", "n1"), ("web-5d-b", "n2")):
            made = pod(name, nodeName=on)
            made["metadata"] |= {
                "ownerReferences": [owner],
                "labels": {"app": "web", "pod-template-hash": "5d"},
            }
            client.made(PODS, made)
        client.made(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets", budget("web", maxUnavailable=1)
        )
        yield client


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Every request that anybody sends, as method and path."""
    found: list[tuple[str, str]] = []
    original = Http1Connection.send

    def recorded(self: Http1Connection, request: Request, *args: Any, **more: Any) -> None:
        found.append((request.method, request.target))
        original(self, request, *args, **more)

    monkeypatch.setattr(Http1Connection, "send", recorded)
    return found


def what_if(server: Client, *args: str | Path) -> dict[str, Any]:
    outcome = berth("what-if", *args, "--kubeconfig", server.prepared.kubeconfig, "-o", "json")
    assert outcome.code in (0, 1), outcome.err
    found: dict[str, Any] = json.loads(outcome.out)
    return found


def test_a_drain_of_a_live_node(server: Client) -> None:
    """Pods, budgets and workloads come from the API server."""
    found = what_if(server, "--drain", "n1")
    assert [(move["pod"], move["from"], move["to"]) for move in found["moves"]] == [("web-5d-a", "n1", "n3")]
    assert [each["name"] for each in found["budgets"]] == ["web"]


def test_files_are_laid_over_the_cluster(server: Client, tmp_path: Path) -> None:
    """An object of a file takes the place of the cluster's, and a new one comes."""
    new = workload("Deployment", "web", 4)
    (tmp_path / "new.yaml").write_text(yaml.safe_dump_all([new, node("n4", "d"), node("n1", "a", cpu="1")]))
    found = what_if(server, "--apply", tmp_path / "new.yaml")
    assert found["measures"]["placed"] == 4
    assert any(each["name"] == "n4" and each["before"] is None for each in found["nodes"])
    assert [each["after"]["cpuAllocatable"] for each in found["nodes"] if each["name"] == "n1"] == [1000]


def test_only_reading_requests_are_sent(server: Client, sent: list[tuple[str, str]], tmp_path: Path) -> None:
    """GET, and nothing but GET (LIST and WATCH are GETs): whatever is changed is changed in memory."""
    (tmp_path / "new.yaml").write_text(
        yaml.safe_dump_all([workload("Deployment", "web", 3), node("n5", "e")])
    )
    (tmp_path / "s.yaml").write_text("steps: [{drain: n1, expect: {placed: all}}, {lose: zone=b}]")
    before = server.get("/api/v1/pods").json["metadata"]["resourceVersion"]
    everything = "--cordon n3 --label n1:x=y --taint n1:k=v:NoExecute --evict web-5d-b --add 1=n1 "
    everything += (
        "--scale deploy/web=5 --rollout deploy/web --drain n2 --lose zone=c --replace-all --delete pdb/web"
    )
    for args in (
        everything.split(),
        ["--apply", str(tmp_path / "new.yaml"), "--delete", "deploy/web"],
        ["--every", "node"],
        ["--fit", "deploy/web"],
        ["--scenario", str(tmp_path / "s.yaml")],
        ["--vs", str(tmp_path / "s.yaml")],
    ):
        outcome = berth("what-if", *args, "--kubeconfig", server.prepared.kubeconfig)
        assert outcome.code in (0, 1), (args, outcome.err)
    assert {method for method, _ in sent} == {"GET"}
    assert len(sent) > 20
    assert server.get("/api/v1/pods").json["metadata"]["resourceVersion"] == before


def test_a_name_that_the_cluster_does_not_have(server: Client) -> None:
    """The sentence says that it is the cluster that has not."""
    outcome = berth("what-if", "--drain", "n11", "--kubeconfig", server.prepared.kubeconfig)
    assert (outcome.code, outcome.err) == (2, "error: node n11 is not in the cluster; did you mean n1?\n")


def test_groups_of_running_pods_are_known(tmp_path: Path) -> None:
    """A group whose pods all have a node is listed, too: drained, they are placed together."""
    with running_server(tmp_path) as client:
        for name in ("n1", "n2"):
            client.made("/api/v1/nodes", node(name, "a"))
        gang = {"metadata": {"name": "train"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
        path = f"/apis/scheduling.k8s.io/{NEWEST.pod_group_api}/namespaces/default/podgroups"
        client.made(path, gang)
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
        for name in ("m0", "m1"):
            made = pod(name, nodeName="n1", schedulingGroup={"podGroupName": "train"})
            made["metadata"] |= {"ownerReferences": [owner]}
            client.made(PODS, made)
        found = what_if(client, "--drain", "n1")
    assert {(move["pod"], move["to"]) for move in found["moves"]} == {("m0", "n2"), ("m1", "n2")}
    assert found["ok"]
