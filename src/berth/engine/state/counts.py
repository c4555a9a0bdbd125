"""Counts of pods per topology domain, kept up to date as pods come and go."""

from __future__ import annotations

import numpy as np

from berth.engine.state.arrays import BoolArray, IndexArray, Int32Array, Int64Array, grown
from berth.engine.state.columns import LabelColumn
from berth.engine.state.pod_class import PodClass

_MOST_CHANGES = 64  # remembered one by one


class Counter:
    """A weighted count of pods per domain of one topology.

    Every pod class that matters has a weight here; the class lists the counter among its
    `touches`, so that a pod's coming or going updates exactly the counters it belongs to.

    Attributes:
        column: The topology; None counts per node.
        counts: Domain id -> sum of weights. Domain 0 (no such label) stays 0 unless `unlabelled`.
        unlabelled: Pods on nodes without the label are counted, too.
        eligible: Nodes whose pods count; None for all.
        living_only: Terminating pods do not count.
        total: Sum of all counts.
        version: Grows with every change.
    """

    __slots__ = (
        "_changed",
        "_changed_since",
        "classes",
        "column",
        "counts",
        "eligible",
        "living_only",
        "total",
        "unlabelled",
        "version",
    )

    def __init__(
        self,
        column: LabelColumn | None,
        size: int,
        *,
        eligible: BoolArray | None = None,
        living_only: bool = False,
        unlabelled: bool = False,
    ) -> None:
        self.column = column
        self.counts: Int32Array = np.zeros(size, dtype=np.int32)
        self.eligible = eligible
        self.living_only = living_only
        self.unlabelled = unlabelled
        self.classes: dict[PodClass, None] = {}
        self.total = 0
        self.version = 0
        self._changed: list[int] = []  # the domain of every change since a version
        self._changed_since = 0
        if column is not None:
            column.dependents[self] = None

    def grow(self, size: int) -> None:
        self.counts = grown(self.counts, size)

    def changed_since(self, version: int) -> list[int] | None:
        """The domains that changed since a version; None if that is so long ago that any may have."""
        if version < self._changed_since:
            return None
        return self._changed[version - self._changed_since :]

    def release(self) -> None:
        """Stop counting: no class touches it any more."""
        for pod_class in self.classes:
            del pod_class.touches[self]
        self.classes.clear()
        if self.column is not None:
            self.column.dependents.pop(self, None)

    def weigh(self, pod_class: PodClass, weight: int) -> None:
        """Give a class a weight before any of its pods is counted."""
        pod_class.touches[self] = pod_class.touches.get(self, 0) + weight
        self.classes[pod_class] = None

    def add(self, slot: int, weight: int) -> None:
        if self.eligible is not None and not self.eligible[slot]:
            return
        domain = slot + 1 if self.column is None else self.column.ids[slot]
        if domain or self.unlabelled:
            self.counts[domain] += weight
            self.total += weight
            self.version += 1
            self._changed.append(int(domain))
            if len(self._changed) > _MOST_CHANGES:
                self._forget_changes()

    def _forget_changes(self) -> None:
        self._changed = []
        self._changed_since = self.version

    def recount(self, slots: IndexArray, weights: Int64Array) -> None:
        """Count afresh the given pods, one entry each: where it runs and what it weighs."""
        if self.eligible is not None:
            keep = self.eligible[slots]
            slots, weights = slots[keep], weights[keep]
        domains = slots + 1 if self.column is None else self.column.ids[slots]
        sums = np.bincount(domains, weights=weights, minlength=len(self.counts))
        self.counts[:] = sums.astype(np.int32)
        if not self.unlabelled:
            self.counts[0] = 0
        self.total = int(self.counts.sum(dtype=np.int64))
        self.version += 1
        self._forget_changes()
