"""A halt of evictions on the page of a real `berth up`, in a real browser."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.api.client import MERGE, Client
from tests.support.processes.control_plane import Up
from tests.support.processes.plane_client import plane_client
from tests.support.waiting import polls
from tests.system.web.browser import Visit


@pytest.fixture
def api(plane: Up) -> Iterator[Client]:
    with plane_client(plane) as client:
        yield client


def light(api: Client, value: str) -> None:
    """Label the nodes that are not labelled so yet."""
    for node in api.get("/api/v1/nodes").json["items"]:
        if node["metadata"]["labels"].get("lamp") != value:
            changed = {"metadata": {"labels": {"lamp": value}}}
            api.send("PATCH", f"/api/v1/nodes/{node['metadata']['name']}", changed, content_type=MERGE)


def lamps(number: int) -> dict[str, Any]:
    """Many pods that may only run where there is light."""
    lit = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "lamp", "operator": "In", "values": ["on"]}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": lit}}
    labels = {"app": "lamps"}
    spec = {"affinity": affinity, "containers": [{"name": "c", "image": "example/c:1"}]}
    template = {"metadata": {"labels": labels}, "spec": spec}
    wanted = {"replicas": number, "selector": {"matchLabels": labels}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "lamps"}, "spec": wanted}


def test_a_halt_is_told_with_its_reason_and_how_to_release_it(visit: Visit, api: Client) -> None:
    """When a label would drive most pods away nobody goes: the page says where, how many, what ends it."""
    path = "/apis/apps/v1/namespaces/default/deployments"
    api.post(path, lamps(40))
    for _ in polls(240):
        light(api, "on")  # also nodes that come later
        if (status := api.get(f"{path}/lamps").json["status"]).get("readyReplicas") == 40:
            break
    else:
        pytest.fail(f"not all lamps are lit: {status}")
    visit.go("/now?about=evicting")
    visit.drawn()
    light(api, "off")
    visit.says("Evictions are halted in", within="#view .card.warn", timeout=90_000)
    visit.says("berth.dev/release-evictions=", within="#view .card.warn code")
    visit.says("EvictionsHalted", within="#view .feed", timeout=90_000)
    visit.page.get_by_role("link", name="Topology").click()
    visit.says("Evictions are halted in", within="aside .attention", timeout=90_000)
    visit.page.locator("aside .attention a", has_text="Evictions are halted").click()
    light(api, "on")
    visit.page.locator("#view .card.warn", has_text="halted").first.wait_for(state="detached", timeout=90_000)
    visit.says("EvictionsResumed", within="#view .feed", timeout=90_000)
    api.delete(f"{path}/lamps")
