"""On a real kube-apiserver kube-controller-manager picks the pods: it must pick those that keep it even."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.api.client import STRATEGIC, Json
from tests.support.api.servers import REAL, KubeApiServer, assets_folder, find_binary, started
from tests.support.builders import ZONE, make_pod
from tests.support.processes.controllers import controllers
from tests.support.processes.process import free_port
from tests.support.processes.scheduler import scheduler
from tests.support.waiting import polls
from tests.support.worlds.cluster import ClusterWorld, manifest, zoned
from tests.support.worlds.control_plane import APPS

MANAGER = "kube-controller-manager"
ASSETS = assets_folder()
pytestmark = pytest.mark.skipif(
    not REAL or ASSETS is None or not (ASSETS / MANAGER).exists(),
    reason=f"it takes {MANAGER} in the folder of the binaries",
)
ZONES = ("a", "b", "c")
WAIT = 240.0


class KubeControlPlane(KubeApiServer):
    """With the controllers that make and delete pods."""

    def restart(self) -> None:
        super().restart()
        flags = {
            "kubeconfig": self.kubeconfig,
            "controllers": "deployment-controller,replicaset-controller,disruption-controller",
            "leader-elect": "false",
            "secure-port": free_port(),
            "cert-dir": self.folder / "manager",
            "kube-api-qps": 500,
            "kube-api-burst": 500,
        }
        assert ASSETS is not None
        command = [find_binary(ASSETS, MANAGER), *(f"--{flag}={value}" for flag, value in flags.items())]
        self._spawn(MANAGER, command)


class StockWorld(ClusterWorld):
    """A cluster without kubelets: their part, that pods run and go, is played here."""

    def tend(self) -> list[Json]:
        """Let pods on nodes run, and those that terminate go; the pods that stay."""
        staying = []
        for pod in self.all_pods():
            name = pod["metadata"]["name"]
            if "deletionTimestamp" in pod["metadata"]:
                self.client.delete(self.path("pods", name), None, gracePeriodSeconds=0)
                continue
            staying.append(pod)
            if pod["spec"].get("nodeName") and not _is_ready(pod):
                ready = [{"type": "Ready", "status": "True"}]
                status = {"status": {"phase": "Running", "conditions": ready}}
                self.client.patch(f"{self.path('pods', name)}/status", status, STRATEGIC)
        return staying

    def reach(self, holds: Callable[[list[Json]], bool], what: str) -> list[Json]:
        for _ in polls(WAIT):
            pods = self.tend()
            if holds(pods):
                return pods
        raise AssertionError(f"not so: {what}; {_zones(self.tend())}")

    def deploy(self, name: str, replicas: int, annotations: dict[str, str] | None = None) -> None:
        labels = {"app": name}
        spec = manifest(make_pod(name).spread(ZONE, max_skew=1, app=name).build())["spec"]
        template = {"metadata": {"labels": labels}, "spec": {**spec, "schedulerName": self.scheduler_name}}
        body = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
        metadata = {"name": name, "annotations": annotations or {}}
        self.make(self.path("deployments", prefix=APPS), {"metadata": metadata, "spec": body})

    def scale(self, name: str, replicas: int) -> None:
        self.patch(self.path("deployments", name, prefix=APPS), {"spec": {"replicas": replicas}})


def _is_ready(pod: Json) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _zones(pods: list[Json]) -> Counter[str]:
    counts = Counter(dict.fromkeys(ZONES, 0))
    counts.update(pod["spec"].get("nodeName", "?")[0] for pod in pods)
    return counts


def _settled(number: int) -> Callable[[list[Json]], bool]:
    """So many pods are Ready, each with a cost of its own."""

    def holds(pods: list[Json]) -> bool:
        costs = {(pod["metadata"].get("annotations") or {}).get("berth.dev/deletion-cost") for pod in pods}
        return len(pods) == len(costs) == number and None not in costs and all(map(_is_ready, pods))

    return holds


@pytest.fixture
def world(tmp_path: Path) -> Iterator[StockWorld]:
    assert ASSETS is not None
    assets = ASSETS
    with ExitStack() as stack:
        plane = stack.enter_context(started(lambda folder: KubeControlPlane(folder, assets)))
        made = StockWorld(plane, "spread")
        made.nodes(*(zoned(f"{zone}{i}", zone) for zone in ZONES for i in range(2)))
        stack.enter_context(scheduler(plane.kubeconfig, tmp_path))
        flags = ("--feature-gates=KeepSpread=true", "--rebalance-delay=1s")
        stack.enter_context(controllers(plane.kubeconfig, tmp_path, *flags))
        yield made
        made.client.close()


def test_kubernetes_own_controllers_keep_it_even(world: StockWorld) -> None:
    """30 pods go down to 7 in random steps, a zone is lost and comes back: no zone has two more for long."""
    world.deploy("web", 30, {"berth.dev/rebalance": "hard"})
    pods = world.reach(_settled(30), "web has 30 pods with costs")
    rng, number = random.Random(11), 30  # noqa: S311 - steps, not secrets
    while number > 7:
        number = max(7, number - rng.randint(3, 9))
        world.scale("web", number)
        counts = _zones(world.reach(_settled(number), f"web has {number} pods with costs"))
        assert max(counts.values()) - min(counts.values()) <= 1, (number, counts)
    world.scale("web", 9)
    world.reach(_settled(9), "web has 9 pods")
    for node in ("c0", "c1"):
        world.delete_node(node)
    for pod in world.tend():
        if pod["spec"].get("nodeName", "")[0] == "c":
            world.delete_pod(pod["metadata"]["name"])
    pods = world.reach(lambda found: _settled(9)(found) and not _zones(found)["c"], "the others have 9")
    before = {pod["metadata"]["name"] for pod in pods}
    world.nodes(*(zoned(f"c{i}", "c") for i in range(2)))
    pods = world.reach(lambda found: set(_zones(found).values()) == {3}, "three in each zone")
    assert len({pod["metadata"]["name"] for pod in pods} - before) == 3
