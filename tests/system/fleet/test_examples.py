"""The user stories on `berth up`, with `berth fleet` beside it and kubectl to apply them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.api.servers import REAL
from tests.support.cli.command import berth
from tests.support.paths import ROOT
from tests.support.processes.control_plane import KUBECTL, Up, up
from tests.support.processes.fleet import fleet

EXAMPLES = ROOT / "examples" / "fleet"
US = {"us-1", "us-2"}

pytestmark = pytest.mark.skipif(REAL or KUBECTL is None, reason="it brings its own API server; needs kubectl")


def places(plane: Up) -> dict[str, set[str]]:
    """Workload -> its clusters, for every binding that the scheduler has said something about."""
    return {
        item["spec"]["resource"]["name"]: {target["name"] for target in item["spec"].get("clusters", ())}
        for item in plane.get("resourcebindings", "-A")["items"]
        if item.get("status", {}).get("conditions")
    }


def apply(plane: Up, *names: str) -> None:
    for name in names:
        plane.kubectl("apply", "-f", str(EXAMPLES / f"{name}.yaml"))


def test_the_stories(tmp_path: Path) -> None:
    """Each lands as its comment says; what was blocked goes on when its peer leaves."""
    with (
        up(tmp_path / "data", "--nodes", "0") as plane,
        fleet(Path(plane.kubeconfig), tmp_path) as process,
    ):
        apply(plane, "clusters", "flink-crd")
        plane.until(lambda: "flinkdeployments" in plane.kubectl("api-resources"))
        apply(
            plane, "duplicate-pipelines", "training-shards", "co-located", "ha-flink-deployment", "annotation"
        )
        plane.until(lambda: len(places(plane)) == 19)
        plane.until(lambda: [name for name, clusters in places(plane).items() if not clusters] == ["report"])
        found = places(plane)
        assert found["payments-a"].isdisjoint(found["payments-b"])
        assert found["vision-0"] == found["vision-1"] == found["vision-2"]
        assert found["speech-0"] == found["speech-1"]
        assert found["consumer"] == found["cache"] == found["orders"] < US
        assert found["indexer-a"].isdisjoint(found["indexer-b"])
        assert found["aggregator-a"].isdisjoint(found["aggregator-b"])
        assert found["gateway-blue"] | found["gateway-green"] > found["gateway-blue"]

        explained = berth("fleet", "explain", "deployment/report", "--kubeconfig", plane.kubeconfig)
        assert explained.code == 1
        assert "no workload that matches app=returns,role=pipeline is on the cluster" in explained.out
        plane.kubectl("label", "-n", "shop", "flinkdeployment", "orders", "app=returns", "--overwrite")
        plane.until(lambda: places(plane)["report"] == places(plane)["orders"])
        assert process.alive, process.log
