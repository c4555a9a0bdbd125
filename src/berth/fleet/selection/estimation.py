"""How many replicas of a workload each cluster has room for, from what the clusters report.

Follows Karmada's general estimator: what is allocatable and neither allocated nor being allocated,
or, where a cluster reports how many nodes it has of each grade of its resource models, what fits
onto that many nodes of the least size of the grade.

The reports are kept as integer columns; a cluster is read again only when it changed.
"""

from __future__ import annotations

from collections import defaultdict
from functools import lru_cache

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array, grown
from berth.engine.state.requests import is_scalar
from berth.fleet.state.clusters import ClusterColumns, Clusters
from berth.kube.amounts import quantity
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from berth.kube.karmada import AllocatableModeling, Binding, MemberCluster, ResourceModel, ResourceSummary
from berth.kube.objects import RawQuantity, ResourceList

UNLIMITED = 2**31 - 1
_PODS_PER_NODE = 110

_EMPTY: ResourceList = {}
_NONE = np.zeros(1, dtype=np.int64)


def estimate(clusters: Clusters, binding: Binding) -> Int64Array:
    """Slot -> the replicas that a cluster could take besides those it has.

    Without replicas there is nothing to ask for, and every cluster is `UNLIMITED`.
    """
    spec = binding.spec
    replicas = spec.replicas or 0
    if not replicas and not spec.components:
        return np.full(clusters.size, UNLIMITED, dtype=np.int64)
    room = clusters.beside(Room)
    room.refresh(clusters)
    requirements = spec.replica_requirements
    free = room.pods if requirements is None else room.available(requirements.resource_request or _EMPTY)
    return np.where(free >= UNLIMITED, replicas, free)


class Room(ClusterColumns):
    """What the clusters reported, in columns.

    Attributes:
        pods: Slot -> the pods it could still take; 0 if it reports nothing.
        modelled: Slot -> whether its nodes are known by grade.
    """

    def __init__(self) -> None:
        super().__init__()
        self.pods: Int64Array = np.zeros(0, dtype=np.int64)
        self.modelled: BoolArray = np.zeros(0, dtype=np.bool_)
        self._free: dict[str, Int64Array] = defaultdict(lambda: np.zeros_like(self.pods))
        # Slot x grade: how many nodes, and for each resource how much one of them has.
        self._nodes: Int64Array = np.zeros((0, 1), dtype=np.int64)
        self._sizes: dict[str, Int64Array] = defaultdict(lambda: np.zeros_like(self._nodes))

    def available(self, request: ResourceList) -> Int64Array:
        """Slot -> how many replicas fit of which each requests this."""
        wanted = [(name, amount) for name, raw in request.items() if (amount := _requested(name, raw)) > 0]
        found = self.pods
        for name, amount in wanted:
            found = np.minimum(found, self._free.get(name, _NONE) // amount)
        if self.modelled.any():
            found = np.where(self.modelled, np.minimum(self.pods, self._on_nodes(wanted)), found)
        return found

    def _on_nodes(self, wanted: list[tuple[str, int]]) -> Int64Array:
        per_node = np.minimum(self._nodes, 1) * _PODS_PER_NODE
        for name, amount in wanted:
            # The simulated nodes know no other resources, and of pods they have a fixed number.
            if name in (CPU, MEMORY, EPHEMERAL_STORAGE) or is_scalar(name):
                per_node = np.minimum(per_node, self._sizes.get(name, _NONE) // amount)
        total: Int64Array = (per_node * self._nodes).sum(axis=1)
        return total

    # --- reading one cluster ---

    def _read(self, slot: int, view: MemberCluster | None) -> None:
        self._forget(slot)
        try:
            if view is not None:
                self._take(slot, view)
        except quantity.QuantityError:
            self._forget(slot)  # not a valid quantity: counts as no report

    def _take(self, slot: int, view: MemberCluster) -> None:
        summary = view.status.resource_summary if view.status is not None else None
        if summary is None:
            return
        self.pods[slot] = _allowed_pods(summary)
        allocated, allocating = summary.allocated or _EMPTY, summary.allocating or _EMPTY
        for name, raw in (summary.allocatable or _EMPTY).items():
            self._free[name][slot] = _left(name, raw, allocated.get(name), allocating.get(name))
        if summary.allocatable_modelings:
            self._read_models(slot, view.spec.resource_models or [], summary.allocatable_modelings)

    def _read_models(
        self, slot: int, models: list[ResourceModel], modelings: list[AllocatableModeling]
    ) -> None:
        if not models or any((m.count or 0) < 0 for m in modelings):
            return  # not usable: fall back on the summary, as Karmada does
        self.modelled[slot] = True
        counts: dict[int, int] = {}
        for m in modelings:
            counts[m.grade or 0] = counts.get(m.grade or 0, 0) + (m.count or 0)
        by_grade = {m.grade or 0: m for m in models}
        self._widen(len(by_grade))
        for column, (grade, model) in enumerate(by_grade.items()):
            self._nodes[slot, column] = counts.get(grade, 0)
            for name, size in {r.name or "": r.min for r in model.ranges or ()}.items():
                self._sizes[name][slot, column] = _requested(name, size) if size is not None else 0

    def _forget(self, slot: int) -> None:
        self.pods[slot] = 0
        self.modelled[slot] = False
        self._nodes[slot] = 0
        for column in (*self._free.values(), *self._sizes.values()):
            column[slot] = 0

    def _grow(self, size: int) -> None:
        self.pods, self.modelled = grown(self.pods, size), grown(self.modelled, size)
        self._free.update({name: grown(column, size) for name, column in self._free.items()})
        self._nodes = grown(self._nodes.T, size).T
        self._sizes.update({name: grown(sizes.T, size).T for name, sizes in self._sizes.items()})

    def _widen(self, grades: int) -> None:
        if grades > self._nodes.shape[1]:
            self._nodes = grown(self._nodes, grades)
            self._sizes.update({name: grown(sizes, grades) for name, sizes in self._sizes.items()})


@lru_cache(maxsize=16384)
def _requested(name: str, raw: RawQuantity) -> int:
    return quantity.milli_value(raw) if name == CPU else quantity.value(raw)


@lru_cache(maxsize=16384)
def _left(
    name: str, allocatable: RawQuantity, allocated: RawQuantity | None, allocating: RawQuantity | None
) -> int:
    left = quantity.stored(allocatable)
    for used in (allocated, allocating):
        if used is not None:
            left = left.minus(quantity.stored(used))
    return max(left.milli_value if name == CPU else left.value, 0)


def _allowed_pods(summary: ResourceSummary) -> int:
    reported = (summary.allocatable, summary.allocated, summary.allocating)
    allocatable, allocated, allocating = (quantity.value((of or _EMPTY).get(PODS, 0)) for of in reported)
    return min(max(allocatable - allocated - allocating, 0), UNLIMITED)
