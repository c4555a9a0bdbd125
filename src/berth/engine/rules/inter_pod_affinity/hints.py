"""Which cluster events may help a pod that affinity or anti-affinity keeps from every node."""

from __future__ import annotations

from collections.abc import Mapping

from berth.engine.rules.inter_pod_affinity.counts import AffinityCounts
from berth.engine.state.cluster_events import (
    OF_NODES,
    OF_PODS,
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    NodeUpdated,
    PodAdded,
    PodDeleted,
)
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import PODS_ROW, NodeTable


class AffinityHints:
    """What the counts say of a node, and of an event."""

    __slots__ = ("_counts", "_nodes")

    def __init__(self, counts: AffinityCounts, nodes: NodeTable) -> None:
        self._counts, self._nodes = counts, nodes

    def bars(self, slot: int) -> bool:
        for key in self._counts.anti.keys() | self._counts.existing.keys():
            domain = self._nodes.column(key).ids.item(slot)
            if domain and not self._unopposed(key, domain):
                return True
        return bool(self._counts.required) and not self._counts.is_first and not self._has_peers(slot)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, OF_PODS):
            return not change.pod_class.is_known or self._helped_by_pod(change)
        if isinstance(change, OF_NODES):
            return self._helped_by_node(change)
        return isinstance(change, NamespaceUpdated)

    def _helped_by_pod(self, change: PodDeleted | PodAdded) -> bool:
        if isinstance(change, PodDeleted):
            return self._loses(change.pod_class, change.slot)
        touches = change.pod_class.touches
        return bool(touches) and any(counter in touches for counter in self._counts.affinity.values())

    def _helped_by_node(self, change: NodeAdded | NodeUpdated | NodeDeleted) -> bool:
        if isinstance(change, NodeAdded):  # it may have come back with pods that are wanted
            return self._nodes.requested.item(PODS_ROW, change.slot) > 0 and self._has_peers(change.slot)
        if isinstance(change, NodeUpdated):
            return change.labels and self._moved(change)
        return change.old is None or self._without(change.old.metadata.labels or {})

    def _loses(self, pod_class: PodClass, slot: int) -> bool:
        """Whether a pod that left took the last conflict of its domain along, or was the last peer."""
        touches = pod_class.touches
        if not touches:
            return False
        for group in (self._counts.anti, self._counts.existing):
            for key, counter in group.items():
                if counter in touches and self._unopposed(key, self._nodes.column(key).ids.item(slot)):
                    return True
        return any(counter in touches for counter in self._counts.affinity.values()) and self._counts.is_first

    def _has_peers(self, slot: int) -> bool:
        """Whether there is a wanted pod in some domain of the node."""
        for key, counter in self._counts.affinity.items():
            if counter.counts[self._nodes.column(key).ids[slot]] > 0:
                return True
        return False

    def _without(self, labels: Mapping[str, str]) -> bool:
        """The same for all pods of a node that left."""
        for key in self._counts.anti.keys() | self._counts.existing.keys():
            if key in labels and self._unopposed(key, self._nodes.column(key).id_of(labels[key])):
                return True
        return bool(self._counts.required) and self._counts.is_first

    def _unopposed(self, key: str, domain: int) -> bool:
        """Whether there is such a domain, and no pod in it that keeps this one away."""
        groups = (self._counts.anti, self._counts.existing)
        return domain > 0 and not any(key in g and g[key].counts.item(domain) > 0 for g in groups)

    def _moved(self, change: NodeUpdated) -> bool:
        """Whether the node, and so the pods on it, stands in other domains now."""
        before, after = change.old.metadata.labels or {}, self._nodes.labels[change.slot] or {}
        groups = (self._counts.affinity, self._counts.anti, self._counts.existing)
        return any(before.get(key) != after.get(key) for group in groups for key in group)
