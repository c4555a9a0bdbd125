"""What if: a pod, some nodes and some running pods changed, and which nodes the pod then fits.

The change is really made to the cluster, asked about, and taken back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from berth.engine.placement.plan import plan_for
from berth.engine.rules.relaxing import Peers, Variant
from berth.engine.state.arrays import IndexArray
from berth.engine.state.cluster import Cluster
from berth.engine.state.pod_class import PodClass
from berth.kube.objects import Node


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
            identity, terminating = self.cluster.identity_at(key), key in peers.terminating
            self.cluster.assume(key, pod_class, node_name, terminating=terminating, identity=identity)
