"""The kinds the scenarios are about, on API servers that do not have them from the start."""

from __future__ import annotations

import json

import yaml

from berth.kube.well_known import AUTOUPDATE
from berth.server.registry.kinds.custom.karmada import definitions
from tests.support.api.client import Client, Json
from tests.support.api.servers import Backend
from tests.support.paths import ROOT
from tests.support.waiting import polls
from tests.support.worlds.cluster import CUSTOM_RESOURCES, WAIT
from tests.support.worlds.fleet import CLUSTERS, POLICY, WORK

EXAMPLES = ROOT / "examples" / "fleet"
_PLACES = (
    CLUSTERS,
    f"{POLICY}/propagationpolicies",
    f"{POLICY}/clusterpropagationpolicies",
    f"{WORK}/resourcebindings",
    f"{WORK}/clusterresourcebindings",
    "/apis/flink.apache.org/v1beta1/flinkdeployments",
)


def native() -> list[Json]:
    """Berth's definitions, which have the proposal's fields, and the kind of the proposal's example."""
    flink: Json = yaml.safe_load((EXAMPLES / "flink-crd.yaml").read_text(encoding="utf-8"))
    return [*definitions(), flink]


def stock() -> list[Json]:
    """Definitions like Karmada's own, which prune what they do not know."""
    found: list[Json] = json.loads(json.dumps(definitions()))  # so that none share a part any more
    for definition in found:
        definition["metadata"]["annotations"] = {AUTOUPDATE: "false"}
        spec = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        placement = spec["properties"].get("placement")
        if placement is not None:
            del placement["properties"]["workloadAntiAffinity"]
            groups = placement["properties"]["workloadAffinity"]["properties"]
            for field in set(groups) - {"affinity", "antiAffinity"}:
                del groups[field]
    return found


def define(client: Client, wanted: list[Json]) -> None:
    """Have the server take these definitions, instead of others that it has."""
    for definition in wanted:
        path = f"{CUSTOM_RESOURCES}/{definition['metadata']['name']}"
        answer = client.post(CUSTOM_RESOURCES, definition)
        if answer.status == 409:
            version = client.get(path).json["metadata"]["resourceVersion"]
            metadata = {**definition["metadata"], "resourceVersion": version}
            answer = client.put(path, {**definition, "metadata": metadata})
        assert answer.status < 300, answer.body


def prepare(backend: Backend) -> None:
    client = backend.client()
    define(client, native())
    for _ in polls(WAIT):
        if all(client.get(path).status == 200 for path in _PLACES):
            client.close()
            return
    raise AssertionError("Karmada's kinds are not served in time")
