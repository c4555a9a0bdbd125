"""Scores of a node's allocation for any choice of resources, as a profile may ask for.

`rule.py` computes the default, cpu and memory by LeastAllocated, by itself.
Integers are upstream's (noderesources/resource_allocation.go and the scorers beside it).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from berth.engine.rules.base import MAX_SCORE
from berth.engine.state.columns import Int64Array, Slots
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.engine.state.requests import is_scalar
from berth.engine.state.tables import NodeTable
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended

_POINT_SCALE = MAX_SCORE // 10  # points of a shape score from 0 to 10
_FULL = 100


def is_ignored(resource: str, options: Options) -> bool:
    """Whether the profile lets pods with this request onto nodes that do not have it."""
    resources, groups = options.args.ignored_resources, options.args.ignored_resource_groups
    if not resources and not groups:
        return False
    ignored = resource in resources or resource.partition("/")[0] in groups
    return ignored and is_extended(resource)


@dataclass(frozen=True, slots=True)
class ScoredResource:
    """A resource that counts.

    Attributes:
        wanted: What the incoming pod adds.
        nonzero_row: Its row among the loads that have a floor, None if it is not among them.
    """

    row: int
    wanted: int
    weight: int = 1
    nonzero_row: int | None = None

    def used(self, nodes: NodeTable, slots: Slots) -> Int64Array:
        if self.nonzero_row is None:
            return nodes.requested[self.row, slots]
        return nodes.nonzero[self.nonzero_row, slots]

    def used_at(self, nodes: NodeTable, slot: int) -> int:
        if self.nonzero_row is None:
            return nodes.requested.item(self.row, slot)
        return nodes.nonzero.item(self.nonzero_row, slot)


def counts(name: str, wanted: int) -> bool:
    """A scalar resource counts if the pod asks for it, and names the scheduler does not track never do."""
    return wanted > 0 if is_scalar(name) else name in (CPU, MEMORY, EPHEMERAL_STORAGE)


class FitScore:
    """The score of NodeResourcesFit: the weighted mean over the resources that the node has."""

    def __init__(self, nodes: NodeTable, pod_class: PodClass) -> None:
        args, requests = pod_class.options.args, pod_class.requests
        cpu, memory = requests.scored
        wanted = {**requests.plain, **requests.scored_otherwise, CPU: cpu, MEMORY: memory}
        self._nodes = nodes
        self._resources = [
            ScoredResource(nodes.row(name), wanted.get(name, 0), weight, {CPU: 0, MEMORY: 1}.get(name))
            for name, weight in args.scoring_resources
            if counts(name, wanted.get(name, 0))
        ]
        self._most = args.scoring_strategy == "MostAllocated"
        ratio = args.scoring_strategy == "RequestedToCapacityRatio"
        self._table = shape_table(args.scoring_shape) if ratio else None
        self._scores = None if self._table is None else np.array(self._table, dtype=np.int64)

    def of(self, slots: Slots) -> Int64Array:
        total = weights = np.zeros(1, dtype=np.int64)
        for resource in self._resources:
            capacity = self._nodes.allocatable[resource.row, slots]
            used = resource.used(self._nodes, slots) + resource.wanted
            score = self._share(used, np.maximum(capacity, 1))
            counts = capacity > 0
            if self._scores is not None:
                counts &= score > 0
            total = total + np.where(counts, score * resource.weight, 0)
            weights = weights + np.where(counts, resource.weight, 0)
        weights = np.maximum(weights, 1)
        # By a shape, to the nearest integer, halves up.
        mean = total // weights if self._scores is None else (2 * total + weights) // (2 * weights)
        return np.broadcast_to(mean, self._nodes.alive[slots].shape)

    def _share(self, used: Int64Array, capacity: Int64Array) -> Int64Array:
        if self._scores is not None:
            percent: Int64Array = np.minimum(used, capacity) * _FULL // capacity
            return self._scores[percent]
        counted = np.minimum(used, capacity) if self._most else np.maximum(capacity - used, 0)
        return counted * MAX_SCORE // capacity

    def at(self, slot: int) -> int:
        total = weights = 0
        for resource in self._resources:
            capacity = self._nodes.allocatable.item(resource.row, slot)
            if not capacity:
                continue
            score = self._share_at(resource.used_at(self._nodes, slot) + resource.wanted, capacity)
            if self._table is None or score:
                total += score * resource.weight
                weights += resource.weight
        if not weights:
            return 0
        return total // weights if self._table is None else (2 * total + weights) // (2 * weights)

    def _share_at(self, used: int, capacity: int) -> int:
        if self._table is not None:
            return self._table[min(used, capacity) * _FULL // capacity]
        return (min(used, capacity) if self._most else max(capacity - used, 0)) * MAX_SCORE // capacity


def shape_table(shape: Sequence[tuple[int, int]]) -> list[int]:
    """Percentage in use -> score, linear between the points of `shape` and level beyond them."""
    first, last = shape[0], shape[-1]
    table = [first[1] * _POINT_SCALE] * (first[0] + 1)
    for (start, low), (end, high) in pairwise(shape):
        rise = (high - low) * _POINT_SCALE
        for percent in range(start + 1, end + 1):
            # Go divides toward zero.
            step = abs(rise) * (percent - start) // (end - start)
            table.append(low * _POINT_SCALE + (step if rise > 0 else -step))
    return table + [last[1] * _POINT_SCALE] * (_FULL - last[0])
