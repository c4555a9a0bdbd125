"""The compiled rules that are kept for placing more pods of a class, and how they keep up with nodes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from weakref import WeakValueDictionary

import numpy as np

from berth.engine.state.arrays import Int32Array
from berth.engine.state.pod_class import CompiledPlan, PodClass


class ChangeLog:
    """The node slots that changed, in order; readers remember how far they have read."""

    __slots__ = ("_entries", "_start")

    def __init__(self) -> None:
        self._entries: list[int] = []
        self._start = 0

    @property
    def end(self) -> int:
        return self._start + len(self._entries)

    def append(self, slot: int) -> None:
        self._entries.append(slot)

    def since(self, position: int) -> list[int] | None:
        """The slots changed since `position`, None if that is too long ago."""
        return None if position < self._start else self._entries[position - self._start :]

    def trim(self, keep: int) -> None:
        if len(self._entries) > 2 * keep:
            drop = len(self._entries) - keep
            del self._entries[:drop]
            self._start += drop


class PlanCache:
    """The plans of a cluster: told of nodes that come and go, dropped where a change goes too deep.

    Attributes:
        by_class: The classes whose rules are compiled, the one placed longest ago first.
        shared: What plans with equal requests share, while one of them lives.
    """

    def __init__(self) -> None:
        self.by_class: OrderedDict[PodClass, CompiledPlan] = OrderedDict()
        self.shared: WeakValueDictionary[Hashable, object] = WeakValueDictionary()
        self._scratch: Int32Array = np.zeros(0, dtype=np.int32)

    def scratch(self, count: int) -> Int32Array:
        """Room for one number a node until the next call; new memory would cost more than the sums."""
        if len(self._scratch) < count:
            self._scratch = np.zeros(2 * count, dtype=np.int32)
        return self._scratch[:count]

    def keep(self, pod_class: PodClass, plan: CompiledPlan, most: int) -> None:
        """Keep a new plan; beyond `most` the one used longest ago is dropped."""
        pod_class.plan = self.by_class[pod_class] = plan
        if len(self.by_class) > most:
            self.drop(next(iter(self.by_class)))

    def used(self, pod_class: PodClass) -> None:
        self.by_class.move_to_end(pod_class)

    def node_joins(self, slot: int) -> None:
        for plan in self.by_class.values():
            plan.node_joins(slot)

    def node_leaves(self, slot: int) -> None:
        for plan in self.by_class.values():
            plan.node_leaves(slot)

    def drop(self, pod_class: PodClass) -> None:
        self.by_class.pop(pod_class).release()
        pod_class.plan = None

    def drop_all(self) -> None:
        for pod_class in list(self.by_class):
            self.drop(pod_class)
        self.shared.clear()
