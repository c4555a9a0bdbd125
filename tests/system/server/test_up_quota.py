"""Quotas in `berth up` as a whole: what workloads make is charged, and for what their pods really block."""

from __future__ import annotations

from pathlib import Path

from berth.server.credentials import prepare
from berth.server.settings import ServerSettings
from tests.support.api.client import Client, Json
from tests.support.builders import HOSTNAME
from tests.support.processes.control_plane import up
from tests.support.processes.process import free_port

SPACE = "/api/v1/namespaces/default"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


def used(client: Client) -> dict[str, str]:
    status = client.get(f"{SPACE}/resourcequotas/q").json["status"]
    return {name.removeprefix("berth.dev/"): amount for name, amount in status["used"].items()}


def exclusive(replicas: int) -> Json:
    term = {"topologyKey": HOSTNAME, "labelSelector": {}, "namespaceSelector": {}}
    rules = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    template = {
        "metadata": {"labels": {"app": "solo"}},
        "spec": {"affinity": rules, "containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "solo"}}, "template": template}
    return {"metadata": {"name": "solo"}, "spec": spec}


def test_workloads_are_charged_for_what_they_block(tmp_path: Path) -> None:
    """As many replicas as there is quota for, the others are told why, and scaled down it is given back."""
    port = free_port()
    prepared = prepare(ServerSettings(data_dir=tmp_path, port=port))
    with up(tmp_path, "--nodes", "4", port=port) as plane:
        client = Client(prepared)
        hard = {"berth.dev/exclusive.nodes": "2", "pods": "10"}
        client.made(f"{SPACE}/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        client.made(DEPLOYMENTS, exclusive(3))
        plane.until(
            lambda: client.get(f"{DEPLOYMENTS}/solo").json.get("status", {}).get("readyReplicas") == 2
        )
        assert used(client) == {"exclusive.nodes": "2", "pods": "2"}
        events = client.get(f"{SPACE}/events").json["items"]
        assert any("exceeded quota: q" in event.get("message", "") for event in events)
        client.patch(f"{DEPLOYMENTS}/solo", {"spec": {"replicas": 1}})
        plane.until(lambda: used(client) == {"exclusive.nodes": "1", "pods": "1"})
        client.close()
