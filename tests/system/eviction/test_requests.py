"""Evictions by EvictionRequests, on an API server that has them, and on one that has not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api.client import Json
from tests.support.api.servers import REAL, Backend, KubeApiServer, assets_folder, started
from tests.support.builders import make_node
from tests.support.processes.controllers import controllers
from tests.support.worlds.cluster import CORE, ClusterWorld
from tests.system.eviction.scenario import annotated, is_gone, tenant, unlabel

LIFECYCLE = "/apis/lifecycle.k8s.io/v1alpha1"


def test_a_server_without_requests_is_refused_at_the_start(backend: Backend) -> None:
    """The controllers end with one sentence that says what to do, and evict nobody otherwise."""
    command = [sys.executable, "-m", "berth", "controllers", "--kubeconfig", str(backend.kubeconfig)]
    command += ["--use-eviction-requests", "--leader-elect=false", "--secure-port=0"]
    ended = subprocess.run(command, capture_output=True, check=False, text=True, timeout=120)  # noqa: S603
    assert ended.returncode == 2
    words = "--use-eviction-requests: the server does not serve evictionrequests.lifecycle.k8s.io (v1alpha1)"
    assert words in ended.stderr
    assert "leave the flag out" in ended.stderr


@pytest.fixture
def asking(tmp_path: Path) -> Iterator[ClusterWorld]:
    """A real API server of its own, with the gate and the API switched on."""
    assets = assets_folder()
    if not REAL or assets is None:
        pytest.skip("takes a kube-apiserver")

    def make(folder: Path) -> KubeApiServer:
        return KubeApiServer(
            folder,
            assets,
            feature_gates="EvictionRequestAPI=true",
            runtime_config=LIFECYCLE.removeprefix("/apis/") + "=true",
        )

    if make(tmp_path / "unused").version.name == "1.36":
        pytest.skip("takes Kubernetes 1.37")
    with started(make) as backend:
        world = ClusterWorld(backend, "requests", "berth")
        yield world
        world.client.close()


def requests(world: ClusterWorld) -> list[Json]:
    path = f"{LIFECYCLE}/namespaces/{world.namespace}/evictionrequests"
    items: list[Json] = world.get(path)["items"]
    return items


def test_others_evict_the_pods_that_are_asked_for(asking: ClusterWorld, tmp_path: Path) -> None:
    """A request is made and nothing else; it goes when the rule holds again, and when the pod is gone."""
    asking.nodes(make_node("n1").labels(disk="ssd"))
    pod = asking.add_pod(annotated(tenant("db", disk="ssd")), nodeName="n1")
    with controllers(asking.backend.kubeconfig, tmp_path, "--use-eviction-requests") as process:
        unlabel(asking, "n1", "disk")
        (request,) = asking.until(lambda: requests(asking), "the eviction is asked for")
        assert request["spec"]["target"] == {"pod": {"name": "db", "uid": pod["metadata"]["uid"]}}
        asking.label_node("n1", disk="ssd")
        asking.until(lambda: not requests(asking), "the request is withdrawn")

        unlabel(asking, "n1", "disk")
        asking.until(lambda: requests(asking), "the eviction is asked for again")
        assert not is_gone(asking, pod)
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "db"}}
        path = f"{CORE}/namespaces/{asking.namespace}/pods/db/eviction"
        assert asking.client.post(path, eviction).status == 201
        asking.until(lambda: not requests(asking), "the request has done its work")
        assert process.alive, process.log[-3000:]
        asking.until(lambda: "Evicted" in process.log, "the log tells")
