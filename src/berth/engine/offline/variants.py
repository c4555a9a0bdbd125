"""What if: a pod, some nodes and some running pods changed, and which nodes the pod then fits.

The change is really made to the cluster, asked about, and taken back.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from berth.engine.placement.plan import plan_for
from berth.kube.annotations import AFFINITY_ANNOTATION, effective_affinity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from berth.engine.state.arrays import IndexArray
    from berth.engine.state.cluster import Cluster
    from berth.engine.state.pod_class import PodClass
    from berth.kube.gates import FeatureGates
    from berth.kube.objects import Node, Pod


@dataclass(frozen=True, slots=True)
class Peers:
    """Running pods of one class, by key with their nodes, and what they should ask for instead."""

    pod_class: PodClass
    nodes: Mapping[str, str]
    terminating: frozenset[str]
    instead: Pod


@dataclass(frozen=True, slots=True)
class Variant:
    """The pod and the parts of the cluster that are different."""

    pod: Pod
    nodes: Mapping[str, Node] = field(default_factory=dict)
    peers: tuple[Peers, ...] = ()


class WhatIf:
    """Asks about variants of one cluster."""

    def __init__(self, cluster: Cluster, nodes: Mapping[str, Node]) -> None:
        self.cluster = cluster
        self.nodes = nodes

    def fitting(self, variant: Variant) -> IndexArray:
        """The slots of the nodes that pass every rule."""
        with self._applied(variant):
            pod_class = self.cluster.class_of(variant.pod)
            known = pod_class.plan is not None
            blocked = plan_for(self.cluster, pod_class).blocked()
            if not known:
                self.cluster.plans.drop(pod_class)
            return np.flatnonzero(blocked == 0)

    def names(self, slots: IndexArray) -> list[str]:
        return [self.cluster.nodes.names[slot] or "" for slot in slots.tolist()]

    @contextmanager
    def _applied(self, variant: Variant) -> Iterator[None]:
        for node in variant.nodes.values():
            self.cluster.add_node(node)
        for peers in variant.peers:
            self._move(peers, self.cluster.class_of(peers.instead))
        try:
            yield
        finally:
            for peers in variant.peers:
                self._move(peers, peers.pod_class)
            for name in variant.nodes:
                self.cluster.add_node(self.nodes[name])

    def _move(self, peers: Peers, pod_class: PodClass) -> None:
        for key, node_name in peers.nodes.items():
            self.cluster.assume(key, pod_class, node_name, terminating=key in peers.terminating)


def with_effective_affinity(pod: Pod, gates: FeatureGates) -> Pod:
    """The pod with the rules of its annotation moved to where all others stand."""
    annotations = pod.metadata.annotations or {}
    if AFFINITY_ANNOTATION not in annotations:
        return pod
    others = {key: value for key, value in annotations.items() if key != AFFINITY_ANNOTATION}
    metadata = replace(pod.metadata, annotations=others or None)
    spec = replace(pod.spec, affinity=effective_affinity(pod, gates))
    return replace(pod, metadata=metadata, spec=spec)
