"""Prefers nodes on which the pod evens out the shares of the resources in use."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from berth.engine.rules.base import MAX_SCORE, NodeRule
from berth.engine.rules.node_resources_fit.score import ScoredResource, counts
from berth.engine.rules.verdicts import PROCEED, SKIPPED
from berth.engine.state.cluster import Cluster
from berth.engine.state.columns import BoolArray, FloatArray, Int64Array, IntArray, Slots
from berth.engine.state.options import DEFAULT_ARGUMENTS
from berth.engine.state.pod_class import PodClass
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, NodeTable
from berth.kube.amounts.resource_names import CPU, MEMORY


class NodeResourcesBalancedAllocation(NodeRule):
    name = "NodeResourcesBalancedAllocation"
    audited = False
    static = False
    filters = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        plain, listed = pod_class.requests.plain, pod_class.options.args.balanced_resources
        wanted = (plain.get(CPU, 0), plain.get(MEMORY, 0))
        default = set(listed) == set(DEFAULT_ARGUMENTS.balanced_resources)
        self._score = None if default else BalanceScore(self.nodes, pod_class)
        self.scores = any(plain.get(name, 0) for name in listed)
        self.prescore = PROCEED if self.scores else SKIPPED
        # Without and with the pod, so that both balances come from one pass.
        self._load = np.array(((0, 0), wanted), dtype=np.int64)[:, :, None]
        self._loads = wanted

    def raw(self, slots: Slots) -> IntArray:
        if self._score is not None:
            return self._score.of(slots)
        capacity = self.nodes.allocatable[CPU_ROW : MEMORY_ROW + 1, slots]
        used = self.nodes.requested[CPU_ROW : MEMORY_ROW + 1, slots]
        without, with_pod = _balance(used + self._load, capacity)
        # Go divides toward zero; the dividend is never negative here, since each balance is 50 to 100.
        scores: Int64Array = MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2
        return scores

    def raw_at(self, slot: int) -> int:
        if self._score is not None:
            return self._score.at(slot)
        allocatable, requested = self.nodes.allocatable.item, self.nodes.requested.item
        cpus, memory = allocatable(CPU_ROW, slot), allocatable(MEMORY_ROW, slot)
        cpu_used, memory_used = requested(CPU_ROW, slot), requested(MEMORY_ROW, slot)
        cpu_load, memory_load = self._loads
        without = _balance_of(cpu_used, cpus, memory_used, memory)
        with_pod = _balance_of(cpu_used + cpu_load, cpus, memory_used + memory_load, memory)
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2


def _balance(used: Int64Array, capacity: Int64Array) -> Int64Array:
    """Alternative x node: 100 if cpu and memory are used in equal shares, 50 if one is full, one empty."""
    offered = bool(capacity.all())
    # A resource the node does not offer is left out, and one share alone is balanced.
    shares: FloatArray = used / (capacity if offered else np.maximum(capacity, 1))
    np.minimum(shares, 1.0, out=shares)
    deviation = shares[:, 0] - shares[:, 1]
    deviation /= 2
    np.abs(deviation, out=deviation)
    if not offered:
        deviation[:, (capacity == 0).any(axis=0)] = 0.0
    np.subtract(1.0, deviation, out=deviation)
    deviation *= MAX_SCORE
    return deviation.astype(np.int64)


def _balance_of(cpu_used: int, cpus: int, memory_used: int, memory: int) -> int:
    """`_balance` of one node."""
    if not cpus or not memory:
        return MAX_SCORE
    cpu_share = cpu_used / cpus if cpu_used < cpus else 1.0
    memory_share = memory_used / memory if memory_used < memory else 1.0
    return int((1 - abs((cpu_share - memory_share) / 2)) * MAX_SCORE)


class BalanceScore:
    """100 less the deviation of the shares in use, of any choice of resources, as a profile may ask for.

    Integers are upstream's (noderesources/balanced_allocation.go).
    """

    def __init__(self, nodes: NodeTable, pod_class: PodClass) -> None:
        plain = pod_class.requests.plain
        self._nodes = nodes
        self._resources = [
            ScoredResource(nodes.row(name), plain.get(name, 0))
            for name in pod_class.options.args.balanced_resources
            if counts(name, plain.get(name, 0))
        ]

    def of(self, slots: Slots) -> Int64Array:
        without, with_pod = (self._balance(slots, with_pod=with_pod) for with_pod in (False, True))
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + with_pod - without) // 2

    def _balance(self, slots: Slots, *, with_pod: bool) -> Int64Array:
        shares: list[tuple[BoolArray, FloatArray]] = []
        for resource in self._resources:
            capacity = self._nodes.allocatable[resource.row, slots]
            used = resource.used(self._nodes, slots) + (resource.wanted if with_pod else 0)
            shares.append((capacity > 0, np.minimum(used / np.maximum(capacity, 1), 1.0)))
        number: Int64Array = np.zeros(self._nodes.alive[slots].shape, dtype=np.int64)
        total = np.zeros(number.shape)
        difference = np.zeros(number.shape)  # of the first two shares
        for offered, share in shares:
            difference += np.where(offered & (number == 0), share, 0.0)
            difference -= np.where(offered & (number == 1), share, 0.0)
            total += np.where(offered, share, 0.0)
            number += offered
        # One at a time and in this order, so that rounding is upstream's.
        mean = total / np.maximum(number, 1)
        squares = np.zeros(number.shape)
        for offered, share in shares:
            squares += np.where(offered, (share - mean) * (share - mean), 0.0)
        deviation = np.sqrt(squares / np.maximum(number, 1))
        deviation = np.where(number == 2, np.abs(difference / 2), deviation)
        deviation[number < 2] = 0.0
        return ((1 - deviation) * MAX_SCORE).astype(np.int64)

    def at(self, slot: int) -> int:
        without: list[float] = []
        with_pod: list[float] = []
        for resource in self._resources:
            capacity = self._nodes.allocatable.item(resource.row, slot)
            if capacity:
                used = resource.used_at(self._nodes, slot)
                without.append(min(used / capacity, 1.0))
                with_pod.append(min((used + resource.wanted) / capacity, 1.0))
        return MAX_SCORE // 2 + (MAX_SCORE // 2 + balance_of(with_pod) - balance_of(without)) // 2


def balance_of(shares: Sequence[float]) -> int:
    """100 if all shares are equal, 50 if half of them are 1 and half are 0."""
    if len(shares) < 2:
        return MAX_SCORE
    if len(shares) == 2:
        return int((1 - abs((shares[0] - shares[1]) / 2)) * MAX_SCORE)
    # Plain loops: `sum` of newer Pythons rounds better than upstream does.
    total = squares = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    for share in shares:
        squares += (share - mean) * (share - mean)
    return int((1 - sqrt(squares / len(shares))) * MAX_SCORE)
