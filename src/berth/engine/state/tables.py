"""The nodes and the running pods of a cluster in columns: one slot each, one array a property."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from msgspec.structs import replace

from berth.engine.state.columns import (
    BoolArray,
    IndexArray,
    Int32Array,
    Int64Array,
    InternedColumn,
    LabelColumn,
    Slots,
    column_from,
    grown,
    take_out,
)
from berth.engine.state.requests import Requests, units_of
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from berth.kube.objects import Node, Taint, Toleration
from berth.kube.selectors import NodeTerm, NodeTerms, Requirement
from berth.kube.taints import first_untolerated, taints_of

ANY_IP = "0.0.0.0"  # noqa: S104 - the address in a port's hostIP, not one Berth listens on

# Rows of the resource columns that every cluster has; scalar resources follow on first use.
PODS_ROW, CPU_ROW, MEMORY_ROW, EPHEMERAL_ROW = range(4)


@dataclass(frozen=True, slots=True)
class HostPort:
    protocol: str
    port: int
    ip: str

    def conflicts(self, other_ip: str) -> bool:
        return self.ip == other_ip or ANY_IP in (self.ip, other_ip)


class NodeTable:
    """All nodes. A slot keeps its number while its node lives and is reused afterwards.

    Attributes:
        count: Slots in use or once used; columns are valid up to here.
        names: Slot -> node name, None where the slot is empty.
        allocatable, requested: Resource row x slot.
        nonzero: cpu and memory x slot, with the floor that counts for empty requests.
        arrival: Slot -> when its node came; equal scores go to the earliest.
        in_order: Slot order is arrival order (no slot was ever reused).
        images: Image name -> slot -> size in bytes there. (Upstream takes the size that the first node it saw
            reported for all, so its scores depend on history.)
    """

    def __init__(self, capacity: int = 16) -> None:
        self.capacity = capacity
        self.count = 0
        self.live = 0
        self.names: list[str | None] = []
        self.labels: list[dict[str, str] | None] = []
        self.slot_of: dict[str, int] = {}
        self.alive: BoolArray = np.zeros(capacity, dtype=np.bool_)
        self.unschedulable: BoolArray = np.zeros(capacity, dtype=np.bool_)
        self.taints: InternedColumn[tuple[Taint, ...]] = InternedColumn(capacity, ())
        self.features: InternedColumn[frozenset[str]] = InternedColumn(capacity, frozenset())
        self.arrival: Int64Array = np.zeros(capacity, dtype=np.int64)
        self.in_order = True
        self.resource_rows = {
            PODS: PODS_ROW,
            CPU: CPU_ROW,
            MEMORY: MEMORY_ROW,
            EPHEMERAL_STORAGE: EPHEMERAL_ROW,
        }
        self.allocatable: Int64Array = np.zeros((4, capacity), dtype=np.int64)
        self.requested: Int64Array = np.zeros((4, capacity), dtype=np.int64)
        self.nonzero: Int64Array = np.zeros((2, capacity), dtype=np.int64)
        self.ports: dict[tuple[str, int], dict[str, Int32Array]] = {}
        self.images: dict[str, dict[int, int]] = {}
        self._images_on: dict[int, dict[str, int]] = {}
        self._columns: dict[str, LabelColumn] = {}
        self._free: list[int] = []
        self._arrivals = 0
        self.version = 0

    @property
    def every_slot(self) -> slice:
        return slice(0, self.count)

    def by_arrival(self, slots: IndexArray) -> IndexArray:
        """Nodes, given by rising slots, with the one that came first in front."""
        return slots if self.in_order else slots[np.argsort(self.arrival[slots], kind="stable")]

    def column(self, key: str) -> LabelColumn:
        found = self._columns.get(key)
        if found is None:
            found = self._columns[key] = column_from(self.labels, key, self.capacity)
        return found

    def matching(self, requirements: Iterable[Requirement], slots: Slots) -> BoolArray:
        """Which of these nodes have labels that satisfy all of the requirements."""
        matches = self.alive[slots].copy()
        for requirement in requirements:
            column = self.column(requirement.key)
            matches &= column.table(requirement)[column.ids[slots]]
        return matches

    def matching_term(self, term: NodeTerm, slots: Slots) -> BoolArray:
        """Which of these nodes a term of a node selector takes."""
        if term.errors:
            return np.zeros_like(self.alive[slots])
        matches = self.matching(term.labels, slots)
        for requirement in term.fields:
            named = np.zeros(self.capacity, dtype=np.bool_)
            named[[self.slot_of[name] for name in requirement.values if name in self.slot_of]] = True
            matches &= named[slots] if requirement.operator == "In" else ~named[slots]
        return matches

    def matching_terms(self, selector: NodeTerms, slots: Slots) -> BoolArray:
        """Which of these nodes a node selector takes."""
        matches = np.zeros_like(self.alive[slots])
        for term in selector.terms:
            matches |= self.matching_term(term, slots)
        return matches

    def tolerated(self, tolerations: Iterable[Toleration] | None, slots: Slots) -> BoolArray:
        """Which of these nodes have no taint that keeps pods with these tolerations away."""
        passes = [first_untolerated(tolerations, taints) is None for taints in self.taints.values]
        return np.array(passes, dtype=np.bool_)[self.taints.ids[slots]]

    def row(self, resource: str) -> int:
        found = self.resource_rows.get(resource)
        if found is None:
            found = self.resource_rows[resource] = len(self.resource_rows)
            empty = np.zeros((1, self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate((self.allocatable, empty))
            self.requested = np.concatenate((self.requested, empty))
        return found

    # --- nodes come, change and go ---------------------------------------------

    def add(self, node: Node) -> int:
        name = node.metadata.name or ""
        slot = self._take_slot()
        self.slot_of[name] = slot
        self.names[slot] = name
        self.labels[slot] = {}
        for column in self._columns.values():
            column.occupy()
        self.alive[slot] = True
        self.live += 1
        self.arrival[slot] = self._arrivals
        self._arrivals += 1
        self.update(slot, node)
        return slot

    def moves(self, slot: int, node: Node) -> bool:
        """Whether an update changes to which domains, or to whose counts, the node's pods belong."""
        taints = self.taints.values[self.taints.ids[slot]]
        return self.labels[slot] != (node.metadata.labels or {}) or taints != untimed_taints(node)

    def update(self, slot: int, node: Node) -> bool:
        """Take over a node's properties. True if any is different from before."""
        changed = self.moves(slot, node)
        if changed:
            labels = self.labels[slot] = node.metadata.labels or {}
            for key, column in self._columns.items():
                column.set(slot, labels.get(key))
            self.taints.set(slot, untimed_taints(node))
        unschedulable = bool(node.spec and node.spec.unschedulable)
        if unschedulable != self.unschedulable[slot]:
            self.unschedulable[slot] = unschedulable
            changed = True
        features = frozenset((node.status and node.status.declared_features) or ())
        if features != self.features.at(slot):
            self.features.set(slot, features)
            changed = True
        return self._set_allocatable(slot, node) | self._set_images(slot, node) | changed

    def remove(self, slot: int) -> None:
        name = self.names[slot]
        if name is None:
            raise KeyError(slot)
        del self.slot_of[name]
        self.names[slot] = None
        self.labels[slot] = None
        self.alive[slot] = False
        self.live -= 1
        for column in self._columns.values():
            column.clear(slot)
        self.taints.set(slot, ())
        self.features.set(slot, frozenset())
        self.unschedulable[slot] = False
        self.allocatable[:, slot] = 0
        self._drop_images(slot)
        self._free.append(slot)

    # --- pods use nodes ----------------------------------------------------------

    def use(self, slot: int, requests: Requests, ports: Iterable[HostPort], sign: int) -> None:
        """Book (sign 1) or free (sign -1) what a pod takes of its node."""
        requested = self.requested
        requested[PODS_ROW, slot] += sign
        for name, amount in requests.plain.items():
            row = self.resource_rows.get(name)
            if row is None:
                row = self.row(name)
                requested = self.requested
            requested[row, slot] += sign * amount
        cpu, memory = requests.nonzero
        self.nonzero[0, slot] += sign * cpu
        self.nonzero[1, slot] += sign * memory
        for port in ports:
            by_ip = self.ports.setdefault((port.protocol, port.port), {})
            if port.ip not in by_ip:
                by_ip[port.ip] = np.zeros(self.capacity, dtype=np.int32)
            by_ip[port.ip][slot] += sign

    # --- internals -----------------------------------------------------------------

    def _set_allocatable(self, slot: int, node: Node) -> bool:
        units = units_of(node.status.allocatable if node.status else None)
        rows = {self.row(name): amount for name, amount in units.items()}  # before the array is taken
        wanted = [rows.get(row, 0) for row in range(len(self.allocatable))]
        if self.allocatable[:, slot].tolist() == wanted:
            return False
        self.allocatable[:, slot] = wanted
        return True

    def _set_images(self, slot: int, node: Node) -> bool:
        images = (node.status and node.status.images) or ()
        sizes = {name: image.size_bytes or 0 for image in images for name in image.names or ()}
        if sizes == self._images_on.get(slot, {}):
            return False
        self._drop_images(slot)
        if sizes:
            self._images_on[slot] = sizes
        for name, size in sizes.items():
            self.images.setdefault(name, {})[slot] = size
        return True

    def _drop_images(self, slot: int) -> None:
        for name in self._images_on.pop(slot, {}):
            take_out(self.images, name, slot)

    def _take_slot(self) -> int:
        if self._free:
            self.in_order = False
            return self._free.pop()
        slot = self.count
        if slot >= self.capacity:
            self._grow(2 * self.capacity)
        self.count += 1
        self.names.append(None)
        self.labels.append(None)
        return slot

    def _grow(self, capacity: int) -> None:
        self.capacity = capacity
        self.alive = grown(self.alive, capacity)
        self.unschedulable = grown(self.unschedulable, capacity)
        self.arrival = grown(self.arrival, capacity)
        self.allocatable = grown(self.allocatable, capacity)
        self.requested = grown(self.requested, capacity)
        self.nonzero = grown(self.nonzero, capacity)
        for by_ip in self.ports.values():
            for ip, taken in by_ip.items():
                by_ip[ip] = grown(taken, capacity)
        self.taints.grow_slots(capacity)
        self.features.grow_slots(capacity)
        for column in self._columns.values():
            column.grow_slots(capacity)


def untimed_taints(node: Node) -> tuple[Taint, ...]:
    """The node's taints without their times, which would tell apart what is the same to every pod."""
    given = taints_of(node)
    return tuple(replace(taint, time_added=None) if taint.time_added else taint for taint in given)


# --- pods -----------------------------------------------------------------------------------------

NOWHERE = -1


class PodTable:
    """The pods that run or are assumed to, one slot a pod."""

    def __init__(self) -> None:
        self.keys: list[str | None] = []
        self.index: dict[str, int] = {}
        self.node: Int32Array = np.zeros(64, dtype=np.int32)
        self.pod_class: Int32Array = np.zeros(64, dtype=np.int32)
        self.terminating: BoolArray = np.zeros(64, dtype=np.bool_)
        self._free: list[int] = []

    @property
    def count(self) -> int:
        return len(self.keys)

    def add(self, key: str, node: int, pod_class: int, *, terminating: bool) -> int:
        if self._free:
            pod = self._free.pop()
            self.keys[pod] = key
        else:
            pod = len(self.keys)
            self.keys.append(key)
            if pod >= len(self.node):
                self._grow(2 * pod)
        self.index[key] = pod
        self.node[pod] = node
        self.pod_class[pod] = pod_class
        self.terminating[pod] = terminating
        return pod

    def remove(self, pod: int) -> None:
        key = self.keys[pod]
        if key is None:
            raise KeyError(pod)
        del self.index[key]
        self.keys[pod] = None
        self.node[pod] = NOWHERE
        self.pod_class[pod] = 0
        self._free.append(pod)

    def _grow(self, size: int) -> None:
        self.node = grown(self.node, size)
        self.pod_class = grown(self.pod_class, size)
        self.terminating = grown(self.terminating, size)
