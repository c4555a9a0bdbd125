"""The stories on `berth up` alone, with kubectl: policies without a scheduler's name just work."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.api.servers import REAL
from tests.support.fleet.definitions import EXAMPLES
from tests.support.processes.control_plane import KUBECTL, Up, up
from tests.support.processes.controllers import metrics
from tests.support.processes.fleet import fleet
from tests.support.processes.process import free_port

pytestmark = pytest.mark.skipif(REAL or KUBECTL is None, reason="it brings its own API server; needs kubectl")

METRICS = free_port()
NAMED = re.compile(r"^  schedulerName: berth\n", re.MULTILINE)


@pytest.fixture(scope="module")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    folder = tmp_path_factory.mktemp("up")
    with up(folder, "--nodes", "0", "--metrics-port", str(METRICS)) as running:
        apply(running, "clusters", "flink-crd")
        running.until(lambda: "flinkdeployments" in running.kubectl("api-resources"))
        yield running


def apply(plane: Up, *names: str, named: bool = False) -> None:
    """Apply examples, for whoever is the default unless a scheduler is named."""
    for name in names:
        text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
        plane.kubectl("apply", "-f", "-", stdin=text if named else NAMED.sub("", text))


def places(plane: Up, namespace: str) -> dict[str, set[str]]:
    """Workload -> its clusters, for every binding that was decided about."""
    return {
        item["spec"]["resource"]["name"]: {target["name"] for target in item["spec"].get("clusters", ())}
        for item in plane.get("resourcebindings", "-n", namespace)["items"]
        if item.get("status", {}).get("conditions")
    }


def targets(plane: Up, namespace: str, count: int) -> dict[str, set[str]]:
    plane.until(lambda: len(places(plane, namespace)) == count)
    return places(plane, namespace)


def taint(plane: Up, cluster: str, *taints: dict[str, str]) -> None:
    plane.kubectl("patch", "cluster", cluster, "--type=merge", "-p", json.dumps({"spec": {"taints": taints}}))


def test_duplicate_pipelines_survive_a_cluster(plane: Up) -> None:
    """Story 1: they are apart, also after one had to leave its cluster for a NoExecute taint."""
    apply(plane, "duplicate-pipelines")
    found = targets(plane, "streams", 3)
    assert found["payments-a"].isdisjoint(found["payments-b"])
    (left,) = found["payments-a"]
    taint(plane, left, {"key": "failed", "effect": "NoExecute"})
    try:
        plane.until(lambda: bool(places(plane, "streams").get("payments-a", {left}) - {left}))
        moved = places(plane, "streams")
        assert moved["payments-b"] == found["payments-b"]
        assert moved["payments-a"].isdisjoint(found["payments-b"])
        binding = plane.get("resourcebinding", "-n", "streams", "payments-a-flinkdeployment")
        assert binding["spec"]["gracefulEvictionTasks"][0]["fromCluster"] == left
    finally:
        taint(plane, left)


def test_the_proposals_flink_example(plane: Up) -> None:
    """The native fields keep replicas of a job, chosen by selector and matchLabelKeys, apart."""
    apply(plane, "ha-flink-deployment")
    found = targets(plane, "user-namespace", 5)
    for job in ("indexer", "aggregator"):
        assert found[f"{job}-a"].isdisjoint(found[f"{job}-b"])
    assert found["indexer-trial"].isdisjoint(found["indexer-a"] | found["indexer-b"])
    assert all(found.values())


def test_training_shards_move_together(plane: Up) -> None:
    """Story 2: the shards of a set share a cluster, and leave it together."""
    apply(plane, "training-shards")
    found = targets(plane, "training", 5)
    vision = [name for name in found if name.startswith("vision")]
    assert [found[name] for name in vision] == [found["vision-0"]] * 3
    assert found["speech-0"] == found["speech-1"]
    (left,) = found["vision-0"]
    taint(plane, left, {"key": "failed", "effect": "NoExecute"})
    try:
        plane.until(lambda: all(places(plane, "training").get(name, {left}) - {left} for name in vision))
        moved = places(plane, "training")
        assert [moved[name] for name in vision] == [moved["vision-0"]] * 3
    finally:
        taint(plane, left)


def test_consumers_are_where_their_pipeline_is(plane: Up) -> None:
    """Story 3; the one whose pipeline is not there says so, and is placed when it comes."""
    apply(plane, "co-located")
    plane.until(lambda: len([1 for clusters in places(plane, "shop").values() if clusters]) == 3)
    found = targets(plane, "shop", 4)
    assert found["consumer"] == found["cache"] == found["orders"]
    assert found["report"] == set()
    events = plane.kubectl("describe", "resourcebinding", "-n", "shop", "report-deployment")
    assert "no workload that matches app=returns,role=pipeline is on the cluster" in events
    plane.kubectl("label", "-n", "shop", "flinkdeployment", "orders", "app=returns", "--overwrite")
    plane.until(lambda: places(plane, "shop")["report"] == found["orders"])


def test_the_annotation(plane: Up) -> None:
    """Its rule is about regions."""
    apply(plane, "annotation")
    found = targets(plane, "edge", 2)
    regions = {name.partition("-")[0] for clusters in found.values() for name in clusters}
    assert regions == {"eu", "us"}


def test_decisions_are_counted(plane: Up) -> None:
    """`berth up` serves the fleet's metrics beside all others."""
    apply(plane, "annotation")
    targets(plane, "edge", 2)
    counted = metrics(METRICS)
    assert 'karmada_scheduler_schedule_attempts_total{result="scheduled"' in counted
    assert "scheduler_pending_pods" in counted


def pipeline(name: str) -> str:
    labels = "{karmada.io/group: g}"
    metadata = f"{{name: {name}, namespace: two, labels: {labels}}}"
    return f"apiVersion: flink.apache.org/v1beta1\nkind: FlinkDeployment\nmetadata: {metadata}\n"


def test_a_scheduler_beside_it_has_its_own_bindings(plane: Up, tmp_path: Path) -> None:
    """Those that name it wait for it; it counts what the other has placed."""
    text = (EXAMPLES / "duplicate-pipelines.yaml").read_text(encoding="utf-8")
    policy = text.split("\n---\n")[1].replace("namespace: streams", "namespace: two")
    plane.kubectl("create", "namespace", "two")
    plane.kubectl("apply", "-f", "-", stdin=NAMED.sub("", policy))
    plane.kubectl("apply", "-f", "-", stdin=pipeline("ours"))
    ours = targets(plane, "two", 1)["ours"]
    plane.kubectl("delete", "-n", "two", "propagationpolicy", "pipelines")
    plane.kubectl("apply", "-f", "-", stdin=policy)
    plane.kubectl("apply", "-f", "-", stdin=pipeline("theirs"))
    plane.until(lambda: len(plane.get("resourcebindings", "-n", "two")["items"]) == 2)
    assert set(places(plane, "two")) == {"ours"}
    with fleet(Path(plane.kubeconfig), tmp_path, leader_elect=True):
        theirs = targets(plane, "two", 2)["theirs"]
    assert theirs
    assert theirs.isdisjoint(ours)


def test_it_can_be_switched_off(tmp_path: Path) -> None:
    """Bindings are made then, but wait for a scheduler beside it."""
    with up(tmp_path / "data", "--nodes", "0", "--no-fleet") as running:
        apply(running, "clusters", "training-shards")
        running.until(lambda: len(running.get("resourcebindings", "-n", "training")["items"]) == 5)
        with fleet(Path(running.kubeconfig), tmp_path, name="default-scheduler"):
            found = targets(running, "training", 5)
    assert found["speech-0"] == found["speech-1"] != set()
