"""Resource requests: what must fit, and how load is weighed between nodes that fit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from berth.engine.rules.allocation import BalanceScore, FitScore, is_ignored
from berth.engine.rules.base import (
    MAX_SCORE,
    PROCEED,
    SKIPPED,
    UNRESOLVABLE,
    UNSCHEDULABLE,
    Finding,
    NodeRule,
    Refusal,
    Rejection,
)
from berth.engine.state.amounts import spelled
from berth.engine.state.arrays import BoolArray, FloatArray, IndexArray, Int64Array, IntArray, Slots
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated, PodDeleted
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.nodes import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import CPU, MEMORY, units_of

TOO_MANY_PODS = "Too many pods"
_REQUESTS = "spec.containers[*].resources.requests"
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
        options = pod_class.options
        wanted = {
            name: amount
            for name, amount in pod_class.requests.plain.items()
            if amount > 0 and not is_ignored(name, options)
        }
        self._names = {PODS_ROW: "pods"} | {self.nodes.row(name): name for name in wanted}
        # What must be free in each row; rows the pod does not ask for may be overdrawn.
        self._least: Int64Array = np.full((len(self.nodes.resource_rows), 1), np.iinfo(np.int64).min)
        self._least[PODS_ROW] = 1
        for name, amount in wanted.items():
            self._least[self.nodes.row(name)] = amount
        self._wanted = [(row, int(self._least[row, 0])) for row in self._names]
        self._loads = pod_class.requests.scored
        self._load = np.array(self._loads, dtype=np.int64)[:, None]
        # The default has a way of its own below, which is several times faster.
        self._score = None if options.scores_fit_by_default else FitScore(self.nodes, pod_class)

    def feasible(self, slots: Slots) -> BoolArray:
        enough: BoolArray = np.logical_and.reduce(self._enough(slots))
        return enough

    def _enough(self, slots: Slots) -> BoolArray:
        """Resource x node: is there enough left?"""
        rows = len(self._least)
        free = self.nodes.allocatable[:rows, slots] - self.nodes.requested[:rows, slots]
        return free >= self._least

    def raw(self, slots: Slots) -> IntArray:
        """The mean of the free shares of cpu and memory after the pod has come, in percent."""
        if self._score is not None:
            return self._score.of(slots)
        capacity = self.nodes.allocatable[CPU_ROW : MEMORY_ROW + 1, slots]
        free = capacity - self.nodes.nonzero[:, slots]
        free -= self._load
        np.maximum(free, 0, out=free)
        free *= MAX_SCORE
        offered: Int64Array | int = 2
        if not capacity.all():
            offered = np.maximum((capacity > 0).sum(axis=0), 1)
            capacity = np.maximum(capacity, 1)
        free //= capacity
        mean: Int64Array = (free[0] + free[1]) // offered
        return mean

    def feasible_at(self, slot: int) -> bool:
        allocatable, requested = self.nodes.allocatable.item, self.nodes.requested.item
        for row, least in self._wanted:  # noqa: SIM110 - half the time of a generator, and this is asked often
            if allocatable(row, slot) - requested(row, slot) < least:
                return False
        return True

    def admits(self, slot: int) -> bool:
        allocatable = self.nodes.allocatable.item
        return all(allocatable(row, slot) >= least for row, least in self._wanted)

    def helped_by(self, change: ClusterEvent) -> bool:
        if isinstance(change, PodDeleted):
            return self.feasible_at(change.slot)
        if not (isinstance(change, NodeUpdated) and change.allocatable):
            return False
        status = change.old.status
        before = units_of(status.allocatable if status else None)
        allocatable = self.nodes.allocatable.item
        return any(allocatable(row, change.slot) > before.get(name, 0) for row, name in self._names.items())

    def raw_at(self, slot: int) -> int:
        if self._score is not None:
            return self._score.at(slot)
        total = offered = 0
        for row, (capacity_row, load) in enumerate(zip((CPU_ROW, MEMORY_ROW), self._loads, strict=True)):
            capacity = self.nodes.allocatable.item(capacity_row, slot)
            if capacity:
                free = capacity - self.nodes.nonzero.item(row, slot) - load
                total += max(free, 0) * MAX_SCORE // capacity
                offered += 1
        return total // (offered or 1)

    def reject(self, slot: int) -> Rejection | None:
        short = np.flatnonzero(~self._enough(np.array([slot], dtype=np.intp))[:, 0])
        if not len(short):
            return None
        reasons, causes, code = [], [], UNSCHEDULABLE
        for row in short.tolist():
            name, amount = self._names[row], int(self._least[row, 0])
            allocatable = int(self.nodes.allocatable[row, slot])
            used = int(self.nodes.requested[row, slot])
            reasons.append(TOO_MANY_PODS if row == PODS_ROW else insufficient(name))
            left, size = spelled(name, allocatable - used), spelled(name, allocatable)
            causes.append(f"{name}: {spelled(name, amount)} wanted, {left} of {size} free")
            if row != PODS_ROW and amount > allocatable:
                code = UNRESOLVABLE
        return Rejection(self.name, code, tuple(reasons), tuple(causes))

    def findings(self, slot: int) -> Iterable[Finding]:
        rejection = self.reject(slot)
        if rejection is not None:
            for reason, cause in zip(rejection.reasons, rejection.causes, strict=True):
                resource = cause.partition(":")[0]
                path = None if reason == TOO_MANY_PODS else f"{_REQUESTS}[{resource}]"
                yield Finding(self.name, reason, cause, path)

    def refusals(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[Refusal]:
        # One bit for each resource that is short, and one for a pod larger than the node.
        short = np.zeros(len(slots), dtype=np.int64)
        for bit, (row, least) in enumerate(self._wanted, start=1):
            allocatable = self.nodes.allocatable[row, slots]
            used = self.nodes.requested[row, slots] - gone.amounts(self._names[row])[slots]
            short |= (allocatable - used < least).astype(np.int64) << bit
            if row != PODS_ROW:
                short |= allocatable < least
        for bits in np.unique(short[short > 0]).tolist():
            rows = [row for bit, (row, _) in enumerate(self._wanted, start=1) if bits >> bit & 1]
            reasons = [TOO_MANY_PODS if row == PODS_ROW else insufficient(self._names[row]) for row in rows]
            code = UNRESOLVABLE if bits & 1 else UNSCHEDULABLE
            yield Refusal(slots[short == bits], code, tuple(reasons))


class NodeResourcesBalancedAllocation(NodeRule):
    """Prefers nodes on which the pod evens out the shares of cpu and memory in use."""

    name = "NodeResourcesBalancedAllocation"
    static = False
    filters = False

    def __init__(self, cluster: Cluster, pod_class: PodClass) -> None:
        super().__init__(cluster, pod_class)
        plain, options = pod_class.requests.plain, pod_class.options
        wanted = (plain.get(CPU, 0), plain.get(MEMORY, 0))
        self._score = None if options.balances_by_default else BalanceScore(self.nodes, pod_class)
        self.scores = any(plain.get(name, 0) for name in options.balanced_resources)
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

    def reject(self, slot: int) -> Rejection | None:
        del slot
        return None


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
    deviation = abs((min(cpu_used / cpus, 1.0) - min(memory_used / memory, 1.0)) / 2)
    return int((1 - deviation) * MAX_SCORE)
