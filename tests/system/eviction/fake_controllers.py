"""What a cluster's own controllers and kubelets do, as far as the scenarios need it.

There is only an API server; so a test makes replacements, says that pods are ready and counts what a budget
allows, whenever it is told to.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.support.api.client import Json
from tests.support.worlds.cluster import ClusterWorld, done
from tests.system.eviction.scenario import POLICY, is_ready, of_app

APPS = "/apis/apps/v1"


@dataclass
class Workload:
    """A ReplicaSet or DaemonSet of the test's, with its pods and its budget.

    Attributes:
        made: How many pods it has got so far.
        ready: How many pods were ready, each time it was looked at.
    """

    world: ClusterWorld
    owner: Json
    template: Json
    replicas: int
    min_available: int | None = None
    made: int = 0
    ready: list[int] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        return str(self.owner["metadata"]["name"])

    @property
    def pods(self) -> list[Json]:
        return of_app(self.world, self.name)

    def tend(self) -> None:
        """Do what has to be done now; one turn of everybody who would do it."""
        for pod in self.pods:
            if pod["spec"].get("nodeName") and not is_ready(pod):
                say_ready(self.world, pod["metadata"]["name"])
        for _ in range(self.replicas - len(self.pods)):
            self._make()
        healthy = sum(is_ready(pod) for pod in self.pods)
        self.ready.append(healthy)
        if self.min_available is not None:
            allow(self.world, self.name, healthy - self.min_available, healthy=healthy)

    def until_ready(self) -> None:
        """Have all pods run."""

        def all_ready() -> bool:
            self.tend()
            return self.ready[-1] == self.replicas

        self.world.until(all_ready, f"{self.name} runs")
        self.ready.clear()

    def _make(self) -> None:
        kind = self.owner["kind"]
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": self.name, "controller": True}
        metadata = {
            **self.template["metadata"],
            "name": f"{self.name}-{next(self._numbers)}",
            "labels": {"app": self.name},
            "ownerReferences": [{**reference, "uid": self.owner["metadata"]["uid"]}],
        }
        self.world.add_pod({"metadata": metadata, "spec": self.template["spec"]})
        self.made += 1


def workload(
    world: ClusterWorld,
    kind: str,
    name: str,
    template: Json,
    replicas: int = 1,
    min_available: int | None = None,
) -> Workload:
    """Create the object and its budget; no pods yet."""
    labels = {"app": name}
    metadata = {"labels": labels, "annotations": template["metadata"].get("annotations")}
    spec: Json = {"selector": {"matchLabels": labels}}
    spec["template"] = {"metadata": metadata, "spec": template["spec"]}
    if kind == "ReplicaSet":
        spec["replicas"] = replicas
    body = {"kind": kind, "metadata": {"name": name}, "spec": spec}
    owner = world.make(world.path(f"{kind.lower()}s", prefix=APPS), body)
    if min_available is not None:
        given = {"selector": {"matchLabels": labels}, "minAvailable": min_available}
        path = world.path("poddisruptionbudgets", prefix=POLICY)
        world.make(path, {"metadata": {"name": name}, "spec": given})
    return Workload(world, {**owner, "kind": kind}, template, replicas, min_available)


def say_ready(world: ClusterWorld, name: str) -> None:
    """What a kubelet says of a pod that runs; it may have gone meanwhile."""
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    path = f"{world.path('pods', name)}/status"
    answer = world.client.patch(path, {"status": status}, "application/strategic-merge-patch+json")
    assert answer.status in (200, 404, 409), answer.body


def allow(world: ClusterWorld, name: str, disruptions: int, *, healthy: int = 1) -> None:
    """Say what a budget allows now."""
    path = world.path("poddisruptionbudgets", name, POLICY)
    found = world.get(path)
    found["status"] = {
        "observedGeneration": found["metadata"].get("generation", 1),
        "disruptionsAllowed": max(disruptions, 0),
        "currentHealthy": healthy,
        "desiredHealthy": healthy - disruptions,
        "expectedPods": healthy,
    }
    answer = world.client.put(f"{path}/status", found)
    if answer.status != 409:  # an eviction came first; the next turn counts again
        done(answer)
