"""Which topology domain each node is in, and how many pods run in each: read from the engine's columns."""

from __future__ import annotations

from collections import Counter

import numpy as np

from berth.engine.state.cluster import Cluster
from berth.engine.state.pods import NOWHERE
from berth.kube.well_known import DELETED
from berth.machines.contract import Event


class DomainCounts:
    """The domains of one node label.

    A node that loses the label stays where it was: a mistake with labels may take that one, too.
    """

    def __init__(self, cluster: Cluster, key: str) -> None:
        self._cluster = cluster
        self._key = key
        self._was_in: dict[str, str] = {}  # nodes without the label -> their domain

    def handle(self, event: Event) -> None:
        """A node came, went or changed."""
        name, old = event.key[1], event.old
        if event.change == DELETED or self._key in (event.object.metadata.labels or {}):
            self._was_in.pop(name, None)
        elif domain := ((old.metadata.labels if old else None) or {}).get(self._key):
            self._was_in[name] = domain

    def domain_of(self, node: str) -> str:
        """The domain of a node, empty if it is in none."""
        slot = self._cluster.nodes.slot_of.get(node)
        labels = (self._cluster.nodes.labels[slot] if slot is not None else None) or {}
        return labels.get(self._key) or self._was_in.get(node, "")

    def running(self) -> Counter[str]:
        """How many pods run in each domain; those that terminate count no more."""
        pods, nodes = self._cluster.pods, self._cluster.nodes
        column = nodes.column(self._key)
        is_pod = pods.pod_class[: pods.count] != 0  # an empty slot has no class
        slots = pods.node[: pods.count][is_pod & ~pods.terminating[: pods.count]]
        placed = slots[slots != NOWHERE]
        found: Counter[str] = Counter({"": len(slots) - len(placed)})
        for value, count in enumerate(np.bincount(column.ids[placed]).tolist()):
            found[column.values[value] or ""] += count
        on_node = np.bincount(placed, minlength=nodes.count) if self._was_in else ()
        for name, domain in self._was_in.items():
            if (slot := nodes.slot_of.get(name)) is not None:
                found[""] -= int(on_node[slot])
                found[domain] += int(on_node[slot])
        return found
