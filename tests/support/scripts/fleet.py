"""A world of clusters and bindings, and fleet schedulers in it."""

from __future__ import annotations

from typing import Any

import msgspec

from berth.fleet.scheduler import FleetScheduler, FleetSettings
from berth.fleet.scheduler.fleet_cache import VIEWS
from berth.kube.api_resources import CLUSTERS, EVENTS, RESOURCE_BINDINGS, Resource
from berth.kube.api_resources import VIEWS as OTHERS
from berth.kube.objects import PartialObjectMetadata
from tests.support.fleet.builders import BindingBuilder, ClusterBuilder, make_binding, make_cluster
from tests.support.scripts.script import Raw, Script

OURS = FleetSettings(scheduler_names=frozenset(("berth", "default-scheduler")))


class FleetScript(Script):
    """Schedulers with the given settings; clusters m1 to m3 unless others are put there."""

    def __init__(self, *settings: FleetSettings, clusters: int = 3) -> None:
        given = settings or (OURS,)
        super().__init__(
            *(
                lambda _cache, chosen=chosen, number=number: FleetScheduler(chosen, identity=f"s{number}")
                for number, chosen in enumerate(given)
            )
        )
        for number in range(1, clusters + 1):
            self.cluster(make_cluster(f"m{number}"))

    @property
    def scheduler(self) -> FleetScheduler:
        machine: FleetScheduler = self.machines[0]
        return machine

    def cluster(self, builder: ClusterBuilder) -> None:
        body = msgspec.to_builtins(builder.build())
        name = body["metadata"]["name"]
        if (CLUSTERS, "", name) in self.objects:
            self.change(CLUSTERS, name, {**body, "metadata": {"labels": body["metadata"].get("labels")}})
        else:
            self.create(CLUSTERS, body)

    def bind(self, *builders: BindingBuilder) -> None:
        for builder in builders:
            self.create(RESOURCE_BINDINGS, msgspec.to_builtins(builder.build()))

    def binding(self, name: str, namespace: str = "default") -> Raw:
        return self.get(RESOURCE_BINDINGS, f"{name}-deployment", namespace)

    def edit(self, name: str, change: Raw, namespace: str = "default") -> None:
        self.change(RESOURCE_BINDINGS, f"{name}-deployment", change, namespace)

    def evict(self, name: str, *clusters: str) -> None:
        """What Karmada does when a cluster fails: the target goes, a task comes."""
        spec = self.binding(name)["spec"]
        rest = [target for target in spec.get("clusters", ()) if target["name"] not in clusters]
        tasks = [
            {"fromCluster": c, "reason": "TaintUntolerated", "producer": "TaintManager"} for c in clusters
        ]
        self.edit(name, {"spec": {"clusters": rest, "gracefulEvictionTasks": tasks}})

    def places(self, name: str, namespace: str = "default") -> dict[str, int]:
        spec = self.binding(name, namespace)["spec"]
        return {target["name"]: target.get("replicas", 0) for target in spec.get("clusters") or ()}

    def condition(self, name: str) -> Raw:
        conditions = self.binding(name).get("status", {}).get("conditions") or [{}]
        return next(c for c in conditions if c.get("type", "Scheduled") == "Scheduled")

    def events(self, kind: str = "ResourceBinding") -> list[tuple[str, str]]:
        return [
            (event["reason"], event["message"])
            for event in self.all(EVENTS)
            if event["involvedObject"]["kind"] == kind
        ]

    @staticmethod
    def view(resource: Resource, item: Raw) -> Any:
        return msgspec.convert(item, VIEWS.get(resource) or OTHERS.get(resource, PartialObjectMetadata))


COMPATIBLE = FleetSettings.compatible()
GROUP = "ha.example.com/group=pipelines"
CLAIMED = {"propagationpolicy.karmada.io/permanent-id": "p"}


def single(name: str) -> BindingBuilder:
    """A workload that wants exactly one cluster."""
    return make_binding(name).labels(CLAIMED).spread("cluster", 1, 1)
