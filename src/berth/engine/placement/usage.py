"""What the pods on each node leave for a pod with given requests.

The rules about resources and host ports depend on nothing but those requests, so all classes
that ask for the same amounts share one cached answer: when pods of fifty apps are placed in
turn, each placement asks about the one node the last one changed.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from berth.engine.rules.base import NodeRule
from berth.engine.state.arrays import BLOCKED, Int32Array, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.plans import ChangeLog
from berth.engine.state.pod_class import PodClass

# Past this share of changed nodes asking everyone is cheaper than asking a list.
_FULL_REFRESH_SHARE = 0.25


class Reader:
    """Follows a change log and says which nodes to ask again."""

    __slots__ = ("_log", "_nodes", "_seen")

    def __init__(self, cluster: Cluster, log: ChangeLog) -> None:
        self._nodes = cluster.nodes
        self._log = log
        self._seen = -1

    def changed(self) -> Slots | None:
        """The slots changed since the last call, None if there are none."""
        end = self._log.end
        if self._seen == end:
            return None
        slots = self._log.since(self._seen)
        self._seen = end
        if slots is None or len(slots) > self._nodes.count * _FULL_REFRESH_SHARE:
            return self._nodes.every_slot
        return np.array(slots, dtype=np.intp)


class Usage:
    """Feasibility and score of every node for given requests, as of the last `refresh`.

    Attributes:
        blocked: 0 where the requests fit, BLOCKED elsewhere.
        version: Grows when that changes.
        base: The weighted scores that need no normalization.
    """

    def __init__(self, cluster: Cluster, rules: Sequence[NodeRule], weights: Mapping[str, int]) -> None:
        self._filters = [rule for rule in rules if rule.filters]
        self._scores = [(rule, weights[rule.name]) for rule in rules if rule.scores and rule.name in weights]
        self._pods = Reader(cluster, cluster.usage)
        self._nodes = Reader(cluster, cluster.node_changes)
        capacity = cluster.nodes.capacity
        self.blocked: Int32Array = np.full(capacity, BLOCKED, dtype=np.int32)
        self.base: Int32Array = np.zeros(capacity, dtype=np.int32)
        self.version = 0

    def refresh(self) -> None:
        for reader in (self._nodes, self._pods):
            slots = reader.changed()
            if slots is None:
                continue
            if not isinstance(slots, slice) and len(slots) == 1:
                self._ask_one(slots.item())
            else:
                self._ask(slots)

    def _ask_one(self, slot: int) -> None:
        blocked = 0 if all(rule.feasible_at(slot) for rule in self._filters) else BLOCKED
        if self.blocked.item(slot) != blocked:
            self.blocked[slot] = blocked
            self.version += 1
        self.base[slot] = sum(weight * rule.raw_at(slot) for rule, weight in self._scores)

    def _ask(self, slots: Slots) -> None:
        self.version += 1
        feasible = None
        for rule in self._filters:
            passes = rule.feasible(slots)
            feasible = passes if feasible is None else feasible & passes
        self.blocked[slots] = 0 if feasible is None else np.multiply(~feasible, BLOCKED, dtype=np.int32)
        total = None
        for rule, weight in self._scores:
            scores = rule.raw(slots) if weight == 1 else weight * rule.raw(slots)
            total = scores if total is None else total + scores
        if total is not None:
            self.base[slots] = total


def usage_key(pod_class: PodClass) -> Hashable:
    """Equal for classes that can share a `Usage`."""
    requests = pod_class.requests
    return (
        pod_class.profile,
        frozenset(requests.plain.items()),
        requests.scored,
        frozenset(requests.scored_otherwise.items()),
        pod_class.host_ports,
    )
