"""The member clusters in columns: one slot for each, also for those that only bindings name."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar, cast

import numpy as np

from berth.engine.state.columns import BoolArray, Int64Array, grown
from berth.kube.karmada import MemberCluster

_FIRST_SIZE = 16
_MEMORIES = 4096
_T = TypeVar("_T")
_A = TypeVar("_A", BoolArray, Int64Array)


class Clusters:
    """Every cluster by slot.

    A name keeps its slot for good.  Bindings may name clusters that do not exist (any more):
    those have a slot, too, so that what is placed there still counts, but no view.

    Attributes:
        names: Slot -> name.
        slot_of: Name -> slot.
        views: Slot -> the object, None where no such cluster exists.
        exists: Which slots have an object. Longer than `names`: slots not given out are False.
        deleting: Which of them are being deleted.
        version: Grows with every change of an object.
        shape: Grows with every change that can matter to a rule, which a report of used resources cannot.
        changed_at: Slot -> the version of the last change there.
    """

    def __init__(self, clusters: Iterable[MemberCluster] = ()) -> None:
        self.names: list[str] = []
        self.slot_of: dict[str, int] = {}
        self.views: list[MemberCluster | None] = []
        self.exists: BoolArray = np.zeros(_FIRST_SIZE, dtype=np.bool_)
        self.deleting: BoolArray = np.zeros(_FIRST_SIZE, dtype=np.bool_)
        self.version = 0
        self.shape = 0
        self.changed_at: Int64Array = np.zeros(_FIRST_SIZE, dtype=np.int64)
        self._beside: dict[object, object] = {}
        self._memory: dict[Hashable, BoolArray | Int64Array] = {}
        self._memory_of = (0, 0)
        for cluster in clusters:
            self.set(cluster)

    @property
    def size(self) -> int:
        """The length of every column."""
        return len(self.exists)

    @property
    def number(self) -> int:
        """How many exist."""
        return int(self.exists.sum())

    @property
    def schedulable(self) -> BoolArray:
        return self.exists & ~self.deleting

    def remembered(self, key: Hashable, make: Callable[[], _A]) -> _A:
        """The result of `make`, cached until a cluster changes."""
        if self._memory_of != (self.shape, self.size) or len(self._memory) >= _MEMORIES:
            self._memory.clear()
            self._memory_of = (self.shape, self.size)
        found = self._memory.get(key)
        if found is None:
            found = self._memory[key] = make()
        return cast("_A", found)

    def slot(self, name: str) -> int:
        """The slot of a name, given out on first sight."""
        slot = self.slot_of.get(name)
        if slot is None:
            slot = self.slot_of[name] = len(self.names)
            self.names.append(name)
            self.views.append(None)
            if slot >= self.size:
                self.exists = grown(self.exists, 2 * self.size)
                self.deleting = grown(self.deleting, 2 * self.deleting.size)
                self.changed_at = grown(self.changed_at, 2 * self.changed_at.size)
        return slot

    def set(self, cluster: MemberCluster) -> None:
        slot = self.slot(cluster.metadata.name or "")
        before = self.views[slot]
        self.shape += before is None or _shape(before) != _shape(cluster)
        self.views[slot] = cluster
        self.exists[slot] = True
        self.deleting[slot] = cluster.metadata.deletion_timestamp is not None
        self._changed(slot)

    def remove(self, name: str) -> None:
        slot = self.slot_of.get(name)
        if slot is None or self.views[slot] is None:
            return
        self.views[slot] = None
        self.exists[slot] = self.deleting[slot] = False
        self.shape += 1
        self._changed(slot)

    def mask(self, slots: Iterable[int]) -> BoolArray:
        """True in these slots, and in no other."""
        mask = np.zeros(self.size, dtype=np.bool_)
        mask[list(slots)] = True
        return mask

    def beside(self, make: Callable[..., _T], *args: Hashable) -> _T:
        """An object that `make` builds once for these clusters and arguments, such as derived columns."""
        found = self._beside.get((make, *args))
        if found is None:
            found = self._beside[make, *args] = make(*args)
        return cast("_T", found)

    def _changed(self, slot: int) -> None:
        self.version += 1
        self.changed_at[slot] = self.version


class ClusterColumns:
    """Columns that are derived from the clusters; only those that changed are read again."""

    def __init__(self) -> None:
        self._read_at = (0, 0)  # version and size of the clusters

    def refresh(self, clusters: Clusters) -> None:
        now = (clusters.version, clusters.size)
        if self._read_at == now:
            return
        version, size = self._read_at
        if size != clusters.size:
            self._grow(clusters.size)
        for slot in np.flatnonzero(clusters.changed_at > version).tolist():
            self._read(slot, clusters.views[slot])
        self._read_at = now

    def _grow(self, size: int) -> None:
        """Lengthen the columns to this size."""
        raise NotImplementedError

    def _read(self, slot: int, view: MemberCluster | None) -> None:
        """The cluster of a slot changed, or, if it is None, is gone."""
        raise NotImplementedError


def _shape(cluster: MemberCluster) -> tuple[object, ...]:
    status = cluster.status
    return (
        cluster.metadata.labels,
        cluster.metadata.deletion_timestamp,
        cluster.spec,
        status.api_enablements if status is not None else None,
    )
