"""Where the pods of an example may go: all nodes that are best for a pod when its turn comes.

A scheduler is free to choose among equals, and its choice changes what is best for the pods after it.
So its placements are followed one by one, in the order they were asked for.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.engine.offline.snapshot import Entry, Snapshot, read
from berth.engine.placement.evaluation import evaluate
from berth.engine.placement.plan import plan_for
from berth.kube.manifests.manifest import load
from tests.support.api.client import Json
from tests.support.cli.example_placements import EXAMPLES
from tests.support.worlds.cluster import manifest


@dataclass
class Example:
    """An example file as objects to create, in order."""

    snapshot: Snapshot

    @classmethod
    def of(cls, file: str) -> Example:
        return cls(read(load([EXAMPLES / file])))

    @property
    def nodes(self) -> list[Json]:
        return [manifest(node) for node in self.snapshot.nodes.values()]

    @property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Those the file uses, with their labels."""
        found = {entry.namespace: dict[str, str]() for entry in self.snapshot.pods}
        for one in self.snapshot.manifests:
            if one.kind == "Namespace":
                found[one.name] = dict(one.to_dict()["metadata"].get("labels") or {})
        return found

    @property
    def owners(self) -> list[tuple[str, Json]]:
        """Stateful sets, by which their pods are spread: where to create them, and what."""
        return [
            (f"/apis/apps/v1/namespaces/{one.namespace}/statefulsets", one.to_dict())
            for one in self.snapshot.manifests
            if one.kind == "StatefulSet"
        ]

    @property
    def running(self) -> list[Entry]:
        return self.snapshot.running

    @property
    def pending(self) -> list[Entry]:
        return self.snapshot.pending

    def best(self, entry: Entry) -> set[str]:
        """The nodes that are best for a pod now; none if it fits nowhere."""
        cluster = self.snapshot.cluster
        verdict = evaluate(plan_for(cluster, cluster.class_of(entry.pod)))
        return {cluster.nodes.names[slot] or "" for slot in verdict.best}

    def follow(self, entry: Entry, node: str) -> None:
        cluster = self.snapshot.cluster
        pod_class = cluster.class_of(entry.pod)
        cluster.assume(entry.key, pod_class, node, identity=cluster.identity_of(entry.pod))
