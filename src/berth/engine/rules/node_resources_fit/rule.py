"""Resource requests: what must fit, and how load is weighed between nodes that fit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from berth.engine.rules.base import MAX_SCORE, NodeRule
from berth.engine.rules.changes import Change, Question
from berth.engine.rules.node_resources_fit import relax
from berth.engine.rules.node_resources_fit.score import FitScore, is_ignored
from berth.engine.rules.node_resources_fit.shortages import (
    INSUFFICIENT,
    NODE_FULL,
    TOO_MANY_PODS,
    TOO_SMALL,
    insufficient,
)
from berth.engine.rules.verdicts import PROCEED, UNRESOLVABLE, Cause, SharedVerdict
from berth.engine.state.cluster import Cluster
from berth.engine.state.cluster_events import ClusterEvent, NodeUpdated, PodDeleted
from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, IntArray, Slots
from berth.engine.state.hypothetical_removal import HypotheticalRemoval
from berth.engine.state.options import DEFAULT_ARGUMENTS
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import spelled, units_of
from berth.engine.state.tables import CPU_ROW, MEMORY_ROW, PODS_ROW
from berth.kube.well_known import UNSCHEDULABLE

_REQUESTS = "spec.containers[*].resources.requests"


class NodeResourcesFit(NodeRule):
    """The pod's requests must fit beside those already on the node; emptier nodes score higher."""

    name = "NodeResourcesFit"
    reasons = (INSUFFICIENT, TOO_SMALL, NODE_FULL)
    relax_rank = 2
    static = False
    scores = True
    prefilter = PROCEED
    prescore = PROCEED
    clues = staticmethod(relax.clues)

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
        strategy, resources = options.args.scoring_strategy, options.args.scoring_resources
        default = strategy == DEFAULT_ARGUMENTS.scoring_strategy
        default &= set(resources) == set(DEFAULT_ARGUMENTS.scoring_resources)
        self._score = None if default else FitScore(self.nodes, pod_class)

    @classmethod
    def relaxations(cls, question: Question) -> Iterable[Change]:
        return relax.relaxations(question, cls.name)

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
        allocatable, used = self.nodes.allocatable.item, self.nodes.nonzero.item
        cpus, memory = allocatable(CPU_ROW, slot), allocatable(MEMORY_ROW, slot)
        cpu_load, memory_load = self._loads
        cpu_free, memory_free = cpus - used(0, slot) - cpu_load, memory - used(1, slot) - memory_load
        total = cpu_free * MAX_SCORE // cpus if cpus and cpu_free > 0 else 0
        if memory and memory_free > 0:
            total += memory_free * MAX_SCORE // memory
        return total // 2 if cpus and memory else total

    def causes(self, slot: int) -> Iterator[Cause]:
        for row in np.flatnonzero(~self._enough(np.array([slot], dtype=np.intp))[:, 0]).tolist():
            name, amount = self._names[row], int(self._least[row, 0])
            allocatable = int(self.nodes.allocatable[row, slot])
            used = int(self.nodes.requested[row, slot])
            values = {
                "resource": name,
                "wanted": spelled(name, amount),
                "free": spelled(name, allocatable - used),
                "size": spelled(name, allocatable),
            }
            if row == PODS_ROW:
                yield Cause(NODE_FULL, values)
                continue
            reason = TOO_SMALL if amount > allocatable else INSUFFICIENT
            yield Cause(reason, values, f"{_REQUESTS}[{name}]", said=insufficient(name))

    def verdicts(self, slots: IndexArray, gone: HypotheticalRemoval) -> Iterable[SharedVerdict]:
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
            yield SharedVerdict(slots[short == bits], code, tuple(reasons))
