"""Quotas of exclusive domains on a real API server: webhook, controllers and kube-controller-manager."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

from tests.support.api.client import Client, Json
from tests.support.api.objects import exclusive_pod as exclusive
from tests.support.api.objects import pod
from tests.support.api.servers import assets_folder, find_binary, running_backend
from tests.support.builders import HOSTNAME
from tests.support.paths import ROOT
from tests.support.processes.process import stop_process
from tests.support.processes.webhook import webhook
from tests.support.waiting import wait_for

MANAGER = "kube-controller-manager"
ASSETS = assets_folder()
pytestmark = pytest.mark.skipif(
    ASSETS is None or not (ASSETS / MANAGER).exists(), reason=f"there is no {MANAGER}"
)

SPACE = "/api/v1/namespaces/default"
CPU, NODES = "berth.dev/exclusive.cpu", "berth.dev/exclusive.nodes"


@contextmanager
def process(log: Path, *command: str) -> Iterator[None]:
    with log.open("wb") as output:
        started = subprocess.Popen(command, stdout=output, stderr=output)  # noqa: S603
    try:
        yield
    finally:
        stop_process(started, 30.0)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A cluster with nodes of 4 and 8 cpus whose API server asks the webhook."""
    folder = tmp_path_factory.mktemp("quota")
    assert ASSETS is not None
    with ExitStack() as stack:
        backend = stack.enter_context(running_backend(real=True))
        kubeconfig = f"--kubeconfig={backend.kubeconfig}"
        common = (kubeconfig, "--leader-elect=false", "--secure-port=0")
        manager = find_binary(ASSETS, MANAGER)
        counting = (manager, *common, "--controllers=resourcequota-controller")
        stack.enter_context(process(folder / "manager.log", *counting))
        berth = (sys.executable, "-m", "berth", "controllers", *common, "--exclusive-quota")
        stack.enter_context(process(folder / "controllers.log", *berth))
        asked = stack.enter_context(webhook(folder, "--charge-exclusive", kubeconfig))
        made = backend.client()
        stack.callback(made.close)
        for name, cpu in (("a", "4"), ("b", "8")):
            made.made("/api/v1/nodes", {"metadata": {"name": name, "labels": {HOSTNAME: name}}})
            size = {"cpu": cpu, "memory": "8Gi"}
            made.patch(f"/api/v1/nodes/{name}/status", {"status": {"capacity": size, "allocatable": size}})
        path = ROOT / "deploy/kustomize/webhook/configuration.yaml"
        configuration = yaml.safe_load(path.read_text())
        hook = configuration["webhooks"][0]
        url = f"https://127.0.0.1:{asked.port}/validate"
        hook |= {"failurePolicy": "Fail", "sideEffects": "NoneOnDryRun"}
        hook["clientConfig"] = {"url": url, "caBundle": asked.ca_bundle}
        made.made("/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", configuration)
        yield made


def quota(client: Client) -> Json:
    answer: Json = client.get(f"{SPACE}/resourcequotas/q").json
    return answer


def test_exclusive_domains_are_charged(client: Client) -> None:
    """Concurrent creates stay within the quota, and nothing leads past it; a binding lowers the charge."""
    hard = {CPU: "30", NODES: "0", "pods": "20"}
    client.made(f"{SPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    wait_for(lambda: NODES in (quota(client).get("status", {}).get("used") or {}), "the quota has a status")
    # The API server takes a moment to know of a new webhook.
    wait_for(
        lambda: client.post(f"{SPACE}/pods", exclusive("probe"), dryRun="All").status == 403,
        "the webhook is asked",
    )
    client.patch(f"{SPACE}/resourcequotas/q", {"spec": {"hard": {NODES: "3"}}})
    wait_for(lambda: quota(client)["status"]["hard"][NODES] == "3", "the quota has its new limit")
    assert client.post_at_once(f"{SPACE}/pods", exclusive) == [201] * 3 + [403] * 9
    wait_for(
        lambda: quota(client)["status"]["used"] == {CPU: "24", NODES: "3", "pods": "3"},
        "all pods are charged",
    )
    names = [item["metadata"]["name"] for item in client.get(f"{SPACE}/pods").json["items"]]
    client.made(f"{SPACE}/pods", pod("plain"))
    rules = json.dumps(exclusive()["spec"]["affinity"])
    added = {"metadata": {"annotations": {"berth.dev/affinity": rules}}}
    for path in (f"{SPACE}/pods/plain", f"{SPACE}/pods/plain/status"):
        answer = client.patch(path, added)
        assert (answer.status, "exceeded quota: q" in answer.message) == (403, True)
    client.delete(f"{SPACE}/pods/plain", gracePeriodSeconds=0)
    target = {"apiVersion": "v1", "kind": "Node", "name": "a"}
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": names[0]}, "target": target}
    assert client.post(f"{SPACE}/pods/{names[0]}/binding", body).status == 201
    wait_for(
        lambda: quota(client)["status"]["used"] == {CPU: "20", NODES: "3", "pods": "3"},
        "the binding lowers the charge",
    )
    for name in names:
        client.delete(f"{SPACE}/pods/{name}", gracePeriodSeconds=0)
    wait_for(
        lambda: quota(client)["status"]["used"] == {CPU: "0", NODES: "0", "pods": "0"}, "nothing is charged"
    )
    wait_for(
        lambda: "berth.dev/exclusive-pending" not in (quota(client)["metadata"].get("annotations") or {}),
        "nothing is pending",
    )
