"""Pods imagined to be gone, each from the node it runs on.

Preemption asks it of all nodes at once: every node is judged as if only its own pods had left.  Nothing is
taken out of the cluster; a rule subtracts from a node's count what the pods that are gone weigh there.
"""

from __future__ import annotations

from collections import Counter as Counted
from collections.abc import Callable, Hashable

import numpy as np

from berth.engine.state.classes import Counter
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import HostPort
from berth.engine.state.volumes.objects import ClaimKey
from berth.kube.amounts.resource_names import PODS


class RemovablePods:
    """Pods that may leave their nodes, and what each would take with it.

    Attributes:
        pods: Where they stand in the cluster's pod table.
        node: The slots of their nodes.
    """

    def __init__(self, cluster: Cluster, pods: IndexArray) -> None:
        self.cluster = cluster
        self.pods = pods
        self.node: IndexArray = cluster.pods.node[pods].astype(np.intp)
        self._columns: dict[Hashable, Int64Array] = {}

    @property
    def priority(self) -> Int64Array:
        return self.column("priority", lambda c: c.priority)

    def column(self, name: Hashable, value: Callable[[PodClass], int]) -> Int64Array:
        found = self._columns.get(name)
        if found is None:
            found = self._columns[name] = self.cluster.by_class(self.pods, value)
        return found

    def weight(self, counter: Counter) -> Int64Array:
        """What each pod counts in a counter by domain: nothing if it is not counted there at all."""
        found = self._columns.get(counter)
        if found is None:
            found = self.cluster.by_class(self.pods, lambda c: c.touches.get(counter, 0))
            if counter.living_only:
                found[self.cluster.pods.terminating[self.pods]] = 0
            if counter.eligible is not None:
                found[~counter.eligible[self.node]] = 0
            if counter.column is not None and not counter.unlabelled:
                found[counter.column.ids[self.node] == 0] = 0
            self._columns[counter] = found
        return found


class HypotheticalRemoval:
    """Some of these pods are gone: what that frees on each node, by slot."""

    def __init__(self, removable: RemovablePods, gone: BoolArray) -> None:
        self._removable = removable
        self._gone = gone
        self._node = removable.node[gone]

    def amounts(self, resource: str) -> Int64Array:
        if resource == PODS:
            return self._by_node(resource, lambda _: 1)
        return self._by_node(resource, lambda c: c.requests.plain.get(resource, 0))

    def ports(self, port: HostPort) -> Int64Array:
        return self._by_node(port, lambda c: c.host_ports.count(port))

    def among(self, classes: frozenset[PodClass]) -> Int64Array:
        """How many of them are of these classes."""
        return self._by_node(classes, lambda c: int(c in classes))

    def counted(self, counter: Counter) -> Int64Array:
        return self._summed(self._removable.weight(counter))

    def claims(self) -> dict[int, Counted[ClaimKey]]:
        """By slot, the claims they use, and how many of them each."""
        uses = self._removable.column("claims", lambda c: len(c.volume_keys)) > 0
        found: dict[int, Counted[ClaimKey]] = {}
        cluster = self._removable.cluster
        for pod in self._removable.pods[uses & self._gone].tolist():
            slot, keys = cluster.pods.node.item(pod), cluster.class_at(pod).volume_keys
            found.setdefault(slot, Counted()).update(keys)
        return found

    def _by_node(self, name: Hashable, value: Callable[[PodClass], int]) -> Int64Array:
        return self._summed(self._removable.column(name, value))

    def _summed(self, column: Int64Array) -> Int64Array:
        total = np.zeros(self._removable.cluster.nodes.capacity, dtype=np.int64)
        np.add.at(total, self._node, column[self._gone])
        return total


def nobody(cluster: Cluster) -> HypotheticalRemoval:
    removable = RemovablePods(cluster, np.zeros(0, dtype=np.intp))
    return HypotheticalRemoval(removable, np.zeros(0, dtype=np.bool_))
