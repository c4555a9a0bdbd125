"""The pod classes of a cluster: their numbers, the counters that their pods count in, and their plans."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int32Array, Int64Array, LabelColumn, grown
from berth.engine.state.matching import MatchIndex
from berth.engine.state.options import Options
from berth.engine.state.pod_class import CompiledPlan, PodClass
from berth.kube.objects import Pod

_Shared = TypeVar("_Shared")

# Classes are few; past this many, those that nothing uses any more are looked for.
_SWEEP_FLOOR = 4096
_MOST_CHANGES = 64  # of a counter, remembered one by one


class ClassUser(Protocol):
    """An index over pod classes, which is told when a class is made or forgotten."""

    def class_joins(self, pod_class: PodClass) -> None: ...
    def class_leaves(self, pod_class: PodClass) -> None: ...


class ClassTable:
    """All pod classes; one that nothing runs or plans may be forgotten and its number given to another.

    Attributes:
        by_number: Class number -> class, None where the number is free. Number 0 is never given out.
        by_key: Class key -> class.
        with_execution_rules: The classes with a rule that must hold while their pods run.
    """

    def __init__(self, index: MatchIndex, users: Sequence[ClassUser]) -> None:
        self.by_number: list[PodClass | None] = [None]
        self.by_key: dict[bytes, PodClass] = {}
        self.with_execution_rules: dict[PodClass, None] = {}
        self._index = index
        self._users = users
        self._free_numbers: list[int] = []
        self._sweep_at = _SWEEP_FLOOR

    def add(self, key: bytes, pod: Pod, *, node_name: str | None, options: Options, profile: str) -> PodClass:
        if len(self.by_key) >= self._sweep_at:
            self._sweep()
        number = self._free_numbers.pop() if self._free_numbers else len(self.by_number)
        pod_class = PodClass(
            pod,
            number=number,
            key=key,
            node_name=node_name,
            index=self._index,
            options=options,
            profile=profile,
        )
        if number == len(self.by_number):
            self.by_number.append(pod_class)
        else:
            self.by_number[number] = pod_class
        self.by_key[key] = pod_class
        if pod_class.has_execution_rules:
            self.with_execution_rules[pod_class] = None
        for user in self._users:
            user.class_joins(pod_class)
        return pod_class

    def _sweep(self) -> None:
        """Forget classes that nothing runs or plans, and what only they used."""
        for pod_class in list(self.by_key.values()):
            if not pod_class.running and pod_class.plan is None:
                self._forget(pod_class)
        kept = self.by_key.values()
        self._index.keep_only({c.label_set for c in kept}, {o.term for c in kept for o in c.owned_terms})
        self._sweep_at = max(_SWEEP_FLOOR, 2 * len(self.by_key))

    def _forget(self, pod_class: PodClass) -> None:
        del self.by_key[pod_class.key]
        self.with_execution_rules.pop(pod_class, None)
        for user in self._users:
            user.class_leaves(pod_class)
        self.by_number[pod_class.number] = None
        self._free_numbers.append(pod_class.number)
        for counter in pod_class.touches:
            counter.classes.pop(pod_class, None)
        pod_class.label_set.classes.pop(pod_class, None)
        for owned in pod_class.owned_terms:
            owned.term.owners.pop(pod_class, None)


# --- counts of pods per topology domain, kept up to date as pods come and go ----------------------


@dataclass(slots=True, eq=False)
class Counter:
    """A weighted count of pods per domain of one topology; a class lists those it counts in as `touches`.

    Attributes:
        column: The topology; None counts per node.
        size: How many domains there may be.
        eligible: Nodes whose pods count; None for all.
        living_only: Terminating pods do not count.
        unlabelled: Pods on nodes without the label are counted, too.
        total: Sum of all counts.
        version: Grows with every change.
    """

    column: LabelColumn | None
    size: int
    eligible: BoolArray | None = None
    living_only: bool = False
    unlabelled: bool = False
    classes: dict[PodClass, None] = field(default_factory=dict, init=False)
    total: int = field(default=0, init=False)
    version: int = field(default=0, init=False)
    _counts: Int32Array | None = field(default=None, init=False)
    # By domain, while nobody asked for counts.
    _sums: dict[int, int] = field(default_factory=dict, init=False)
    # The domain of every change since a version.
    _changed: list[int] = field(default_factory=list, init=False)
    _changed_since: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if self.column is not None:
            self.column.dependents[self] = None

    @property
    def counts(self) -> Int32Array:
        """Domain id -> sum of weights. Domain 0 (no such label) stays 0 unless `unlabelled`.

        Where every pod is another, most counters are never asked: they get no table over all nodes.
        """
        if self._counts is None:
            self._counts = np.zeros(self.size, dtype=np.int32)
            for domain, total in self._sums.items():
                self._counts[domain] = total
            self._sums.clear()
        return self._counts

    def grow(self, size: int) -> None:
        self.size = size
        if self._counts is not None:
            self._counts = grown(self._counts, size)

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
        if self.eligible is not None and not self.eligible.item(slot):
            return
        domain = slot + 1 if self.column is None else self.column.ids.item(slot)
        if domain or self.unlabelled:
            if self._counts is None:
                self._sums[domain] = self._sums.get(domain, 0) + weight
            else:
                self._counts[domain] += weight
            self.total += weight
            self.version += 1
            self._changed.append(domain)
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
        sums = np.bincount(domains, weights=weights, minlength=self.size)
        counts = self._counts = sums.astype(np.int32)
        if not self.unlabelled:
            counts[0] = 0
        self.total = int(counts.sum(dtype=np.int64))
        self.version += 1
        self._forget_changes()


# --- the compiled rules that are kept for placing more pods of a class ----------------------------


@dataclass(slots=True, eq=False)
class ChangeLog:
    """The node slots that changed, in order, `end` so far; readers remember how far they have read."""

    end: int = 0
    _entries: list[int] = field(default_factory=list)
    _start: int = 0

    def append(self, slot: int, keep: int) -> None:
        """Note a change; at least so many are kept."""
        entries = self._entries
        entries.append(slot)
        self.end += 1
        if len(entries) > 2 * keep:
            self._start = self.end - keep
            del entries[:-keep]

    def since(self, position: int) -> list[int] | None:
        """The slots changed since `position`, None if that is too long ago."""
        return None if position < self._start else self._entries[position - self._start :]


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

    def share(self, key: Hashable, kind: type[_Shared], make: Callable[[], _Shared]) -> _Shared:
        """What is shared by a key, made if nobody has it yet."""
        found = self.shared.get(key)
        if not isinstance(found, kind):
            found = self.shared[key] = make()
        return found

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
