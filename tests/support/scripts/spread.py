"""Workloads that are kept spread over zones, in the scripted world."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

from berth.cli.up.control_plane import ComponentGates
from berth.engine.execution.rebalancing import Rebalance, RebalancePolicy
from berth.kube.api_resources import DEPLOYMENTS, NODES, PODS
from berth.kube.gates import DEFAULT_GATES
from berth.kube.well_known import HOSTNAME, ZONE
from berth.machines.contract import Evict
from berth.spreading import SpreadController, SpreadingSettings
from tests.support.scripts.plane import PlaneScript
from tests.support.scripts.script import Raw, workload

HARD = Rebalance(policy=RebalancePolicy.HARD)
SOFT = Rebalance(policy=RebalancePolicy.SOFT)
KEEP = replace(DEFAULT_GATES, keep_spread=True)


class SpreadWorld(PlaneScript):
    """Three zones with a node each."""

    def __init__(self, how: Rebalance | None = None, zones: str = "abc", **settings: Any) -> None:
        gates = ComponentGates(server=KEEP, scheduler=KEEP, controllers=KEEP, kubelet=KEEP)
        given = SpreadingSettings(rebalance=how or Rebalance(), **settings)
        super().__init__(gates, spreading=given)
        for zone in zones:
            self.node(zone, labels={ZONE: zone, HOSTNAME: zone})
            self.change(NODES, zone, {"status": {"allocatable": {"pods": "110"}}})

    @property
    def machine(self) -> SpreadController:
        found = next(each for each in self.machines if isinstance(each, SpreadController))
        assert isinstance(found, SpreadController)
        return found

    def deploy(
        self, name: str, replicas: int, *constraints: Raw, annotations: dict[str, str] | None = None
    ) -> None:
        pod = {"topologySpreadConstraints": list(constraints or (spread(name),))}
        body = workload(name, replicas, pod=pod)
        body["metadata"]["annotations"] = annotations or {}
        body["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
        self.create(DEPLOYMENTS, body)
        self.run(120)

    def run(self, seconds: float) -> None:
        """Let time pass; pods that have a node become Ready, and those that terminate go."""
        for _ in range(int(seconds)):
            self.advance(1)
            for pod in self.all(PODS):
                name = pod["metadata"]["name"]
                if pod["metadata"].get("deletionTimestamp"):
                    self.delete(PODS, name, grace=0)

    def counts(self, app: str = "web") -> dict[str, int]:
        found = Counter(
            pod["spec"].get("nodeName", "?")
            for pod in self.all(PODS)
            if pod["metadata"]["labels"]["app"] == app and not pod["metadata"].get("deletionTimestamp")
        )
        return dict(sorted(found.items()))

    def evicted(self) -> list[str]:
        return [action.name for action in self.done if isinstance(action, Evict)]

    def lose(self, node: str) -> None:
        """A zone goes, and its pods are made anew elsewhere."""
        item = self.get(NODES, node)
        self.lost = item
        self.delete(NODES, node)
        for pod in self.all(PODS):
            if pod["spec"].get("nodeName") == node:
                self.delete(PODS, pod["metadata"]["name"], grace=0)
        self.run(60)

    def come_back(self) -> None:
        body = {each: self.lost[each] for each in ("spec", "status")}
        metadata = {"name": self.lost["metadata"]["name"], "labels": self.lost["metadata"]["labels"]}
        self.create(NODES, {"metadata": metadata, **body})


def spread(app: str, key: str = ZONE, when: str = "DoNotSchedule", skew: int = 1) -> Raw:
    return {
        "topologyKey": key,
        "maxSkew": skew,
        "whenUnsatisfiable": when,
        "labelSelector": {"matchLabels": {"app": app}},
    }
