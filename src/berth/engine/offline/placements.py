"""A pod of a snapshot put on a node, and taken off again."""

from __future__ import annotations

from dataclasses import dataclass

from berth.engine.offline.snapshot import Entry
from berth.engine.rules.volume_binding import binds_volumes
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass


@dataclass(frozen=True, slots=True)
class PodPlacement:
    """A pod that found a node; `score` is the weighted total of that node."""

    entry: Entry
    node: str
    score: int


def count_on(cluster: Cluster, entry: Entry, node: str, pod_class: PodClass | None = None) -> None:
    """Let a pod be on a node from now on."""
    pod_class = pod_class or cluster.class_of(entry.pod)
    if binds_volumes(pod_class):
        cluster.volumes.assume(entry.key, cluster.volumes.decisions(pod_class, node), node)
    cluster.assume(entry.key, pod_class, node, identity=cluster.identity_of(entry.pod))


def take_off(cluster: Cluster, entry: Entry) -> None:
    cluster.remove_pod(entry.key)
    cluster.volumes.forget(entry.key)
