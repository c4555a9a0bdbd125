"""Resource requests: what must fit, and how load is weighed between nodes that fit."""

from __future__ import annotations

import numpy as np

from berth.engine.arrays import BoolArray, FloatArray, Int64Array, IntArray, Slots
from berth.engine.cluster import Cluster
from berth.engine.nodes import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.engine.podclass import PodClass
from berth.engine.requests import CPU, MEMORY
from berth.engine.rules.base import MAX_SCORE, PROCEED, SKIPPED, UNRESOLVABLE, UNSCHEDULABLE, NodeRule, Rejection

TOO_MANY_PODS = "Too many pods"
_LOAD_ROWS = [CPU_ROW, MEMORY_ROW]


def insufficient(resource: str) -> str:
    return f"Insufficient {resource}"


class NodeResourcesFit(NodeRule):
    """The pod's requests must fit beside those already on the node; emptier nodes score higher."""

    name = "NodeResourcesFit"
    static = False
    scores = True
    prefilter = PROCEED
    prescore = PROCEED

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        wanted = {name: amount for name, amount in pod_class.requests.plain.items() if amount > 0}
        self._names = ["pods", *wanted]
        self._rows = np.array([PODS_ROW, *map(self.nodes.row, wanted)], dtype=np.intp)
        self._amounts = np.array([1, *wanted.values()], dtype=np.int64)[:, None]
        self._load = np.array(pod_class.requests.scored, dtype=np.int64)[:, None]

    def feasible(self, slots: Slots) -> BoolArray:
        return ~self._short(slots).any(axis=0)

    def _short(self, slots: Slots) -> BoolArray:
        """Resource x node: is there too little left?"""
        nodes = self.nodes
        if isinstance(slots, slice):
            return self._amounts > nodes.allocatable[self._rows, slots] - nodes.requested[self._rows, slots]
        at = np.ix_(self._rows, slots)
        return self._amounts > nodes.allocatable[at] - nodes.requested[at]

    def raw(self, slots: Slots) -> IntArray:
        """The mean of the free shares of cpu and memory after the pod has come, in percent."""
        nodes = self.nodes
        capacity = nodes.allocatable[CPU_ROW : MEMORY_ROW + 1, slots]
        free = capacity - nodes.nonzero[:, slots]
        free -= self._load
        np.maximum(free, 0, out=free)
        free *= MAX_SCORE
        free //= np.maximum(capacity, 1)
        offered = (capacity > 0).sum(axis=0)
        return free.sum(axis=0) // np.maximum(offered, 1)

    def reject(self, slot: int) -> Rejection | None:
        short = np.flatnonzero(self._short(np.array([slot], dtype=np.intp))[:, 0])
        if not len(short):
            return None
        reasons, causes, code = [], [], UNSCHEDULABLE
        for i in short:
            name, row, amount = self._names[i], self._rows[i], int(self._amounts[i, 0])
            allocatable = int(self.nodes.allocatable[row, slot])
            used = int(self.nodes.requested[row, slot])
            reasons.append(TOO_MANY_PODS if row == PODS_ROW else insufficient(name))
            causes.append(f"{name}: {amount} wanted, {allocatable - used} of {allocatable} free{_unit(name)}")
            if row != PODS_ROW and amount > allocatable:
                code = UNRESOLVABLE
        return Rejection(self.name, code, tuple(reasons), tuple(causes))


def _unit(resource: str) -> str:
    return {"cpu": " (millicores)", "memory": " (bytes)", "ephemeral-storage": " (bytes)"}.get(resource, "")


class NodeResourcesBalancedAllocation(NodeRule):
    """Prefers nodes on which the pod evens out the shares of cpu and memory in use."""

    name = "NodeResourcesBalancedAllocation"
    static = False
    filters = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        plain = pod_class.requests.plain
        wanted = (plain.get(CPU, 0), plain.get(MEMORY, 0))
        self.scores = any(wanted)
        self.prescore = PROCEED if self.scores else SKIPPED
        self._load = np.array(wanted, dtype=np.int64)[:, None]

    def raw(self, slots: Slots) -> IntArray:
        nodes = self.nodes
        capacity = nodes.allocatable[CPU_ROW : MEMORY_ROW + 1, slots]
        used = nodes.requested[CPU_ROW : MEMORY_ROW + 1, slots]
        change = _balance(used + self._load, capacity) - _balance(used, capacity)
        # Go divides toward zero; the dividend is never negative here, since each balance is 50 to 100.
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + change) // 2

    def reject(self, slot: int) -> Rejection | None:
        del slot
        return None


def _balance(used: Int64Array, capacity: Int64Array) -> Int64Array:
    """100 when cpu and memory are used in equal shares, 50 when one is full and the other empty."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: FloatArray = used / capacity
    np.minimum(shares, 1.0, out=shares)
    deviation = np.abs((shares[0] - shares[1]) / 2)
    if not capacity.all():
        # A resource the node does not offer is left out, and one share alone is balanced.
        deviation[(capacity == 0).any(axis=0)] = 0.0
    return ((1 - deviation) * MAX_SCORE).astype(np.int64)
