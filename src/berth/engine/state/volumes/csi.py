"""What CSI drivers say: which volumes are attached where, how many a node can take, how much room there is.

A volume counts once on a node, however many pods mount it there, and for as long as it is attached.  A claim
without a volume counts as the one that its storage class would make.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from berth.engine.state.columns import BoolArray, IndexArray, Int64Array, grown, take_out
from berth.engine.state.tables import NodeTable
from berth.engine.state.volumes.objects import ClaimKey, VolumeRecord
from berth.kube import objects
from berth.kube.amounts import quantity
from berth.kube.objects import Key
from berth.kube.selectors import IN, NOTHING, Selector, parse_label_selector

NO_LIMIT = 2**31  # more volumes than a node ever has


class CsiVolume(NamedTuple):
    """A volume as its driver knows it."""

    driver: str
    handle: str


class _DriverRecord(NamedTuple):
    needed: bool = False
    tells_capacity: bool = False


_PLAIN = _DriverRecord()


class CsiIndex:
    """Drivers, what nodes say of them, and the volumes of the pods on nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._drivers: dict[str, _DriverRecord] = {}
        self._drivers_on: dict[str, dict[str, int]] = {}
        self._slots_of: dict[ClaimKey, dict[int, int]] = {}
        self._resolved: dict[ClaimKey, CsiVolume | None] = {}
        self._claims_on: dict[int, dict[ClaimKey, None]] = {}
        self._places: dict[CsiVolume, dict[int, int]] = {}
        self._counts: dict[str, Int64Array] = {}
        # Volumes that are attached, by node, whether pods mount them or not; and by driver those none mounts.
        self._attachments: dict[str, dict[CsiVolume, int]] = {}
        self._unmounted: dict[str, Int64Array] = {}
        self._columns: dict[str, tuple[BoolArray, Int64Array]] = {}
        self._version = -1

    # --- what drivers and nodes say -------------------------------------------------------

    def set_driver(self, driver: objects.CSIDriver) -> bool:
        """Take over a driver; True if placement can see a difference."""
        spec, name = driver.spec, driver.metadata.name or ""
        new = _DriverRecord(bool(spec.prevent_pod_scheduling_if_missing), bool(spec.storage_capacity))
        changed = self._drivers.get(name, _PLAIN) != new
        self._drivers[name] = new
        return changed

    def remove_driver(self, name: str) -> bool:
        return self._drivers.pop(name, _PLAIN) != _PLAIN

    def set_node(self, node: objects.CSINode) -> bool:
        limits = {driver.name or "": _limit(driver) for driver in node.spec.drivers or ()}
        name = node.metadata.name or ""
        if self._drivers_on.get(name) == limits:
            return False
        self._drivers_on[name] = limits
        self._version = -1
        return True

    def remove_node(self, name: str) -> bool:
        self._version = -1
        return self._drivers_on.pop(name, None) is not None

    def is_needed(self, driver: str) -> bool:
        """Whether pods with such volumes are to be kept off nodes without the driver."""
        return self._drivers.get(driver, _PLAIN).needed

    def tells_capacity(self, driver: str) -> bool:
        """Whether volumes are only made where a CSIStorageCapacity says that there is room."""
        return self._drivers.get(driver, _PLAIN).tells_capacity

    def limits(self, driver: str) -> tuple[BoolArray, Int64Array]:
        """By slot, whether the driver is installed, and how many of its volumes fit at most."""
        self._renew()
        found = self._columns.get(driver)
        if found is None:
            installed = np.zeros(self._nodes.capacity, dtype=np.bool_)
            limit = np.full(self._nodes.capacity, NO_LIMIT, dtype=np.int64)
            for name, drivers in self._drivers_on.items():
                slot = self._nodes.slot_of.get(name)
                if slot is not None and driver in drivers:
                    installed[slot] = True
                    limit[slot] = drivers[driver]
            found = self._columns[driver] = (installed, limit)
        return found

    def _renew(self) -> None:
        """Forget the columns of other nodes, or of what these said before."""
        if self._version != self._nodes.version:
            self._columns.clear()
            self._unmounted.clear()
            self._version = self._nodes.version

    # --- what is attached ------------------------------------------------------------------

    def attach(self, node: str, volume: CsiVolume, sign: int) -> None:
        """One attachment of a volume to a node more, or less."""
        held = self._attachments.setdefault(node, {})
        before = held.get(volume, 0)
        held[volume] = before + sign
        if not held[volume]:
            take_out(self._attachments, node, volume)
        slot = self._nodes.slot_of.get(node)
        if bool(before) != bool(before + sign) and slot is not None:
            self._count_unmounted(volume, slot, sign)

    def unmounted(self, driver: str) -> Int64Array:
        """By slot, how many volumes of a driver are attached that no pod there mounts."""
        self._renew()
        counts = self._unmounted.get(driver)
        if counts is None:
            counts = self._unmounted[driver] = np.zeros(self._nodes.capacity, dtype=np.int64)
            for node, held in self._attachments.items():
                slot = self._nodes.slot_of.get(node)
                if slot is not None:
                    counts[slot] = sum(
                        volume.driver == driver and slot not in self._places.get(volume, ())
                        for volume in held
                    )
        return counts

    def _count_unmounted(self, volume: CsiVolume, slot: int, sign: int) -> None:
        counts = self._unmounted.get(volume.driver)
        if counts is None or slot in self._places.get(volume, ()):
            return  # nobody asked yet, or a pod mounts it
        if slot < len(counts):
            counts[slot] += sign

    def attachments_at(self, slot: int) -> Iterable[CsiVolume]:
        """The volumes that are attached to a node, whether pods mount them or not."""
        return self._attachments.get(self._nodes.names[slot] or "", ())

    # --- what pods mount ------------------------------------------------------------------

    def attached(self, driver: str) -> Int64Array:
        """By slot, how many volumes of a driver the pods there mount."""
        counts = self._counts.get(driver)
        if counts is None:
            counts = self._counts[driver] = np.zeros(self._nodes.capacity, dtype=np.int64)
        elif len(counts) < self._nodes.capacity:
            counts = self._counts[driver] = grown(counts, self._nodes.capacity)
        return counts

    def places(self, volume: CsiVolume) -> IndexArray:
        """The slots of the nodes where some pod mounts the volume."""
        return np.fromiter(self._places.get(volume, ()), dtype=np.intp)

    def attached_at(self, slot: int, gone: Mapping[ClaimKey, int] | None = None) -> set[CsiVolume]:
        """The volumes on a node; `gone` are claims that some of its pods would use no longer."""
        left: Iterable[ClaimKey] = self._claims_on.get(slot, ())
        if gone:
            left = [key for key in left if self._slots_of[key][slot] > gone.get(key, 0)]
        return {volume for key in left if (volume := self._resolved[key]) is not None}

    def use(self, slot: int, claims: Iterable[tuple[ClaimKey, CsiVolume | None]], sign: int) -> None:
        """A pod with these claims, and their volumes, came to a node or left it."""
        for key, volume in claims:
            slots = self._slots_of.setdefault(key, {})
            before = slots.get(slot, 0)
            slots[slot] = before + sign
            if not before:
                self._claims_on.setdefault(slot, {})[key] = None
                if key not in self._resolved:
                    self._resolved[key] = volume
                self._place(self._resolved[key], slot, 1)
            elif not slots[slot]:
                self._leave(key, slot)

    def _leave(self, key: ClaimKey, slot: int) -> None:
        self._place(self._resolved[key], slot, -1)
        take_out(self._claims_on, slot, key)
        take_out(self._slots_of, key, slot)
        if key not in self._slots_of:
            del self._resolved[key]

    @property
    def used(self) -> list[ClaimKey]:
        return list(self._slots_of)

    def resolve(self, key: ClaimKey, volume: CsiVolume | None) -> None:
        """The claim has another volume now, which matters if pods on nodes mount it."""
        before = self._resolved.get(key, volume)
        if before == volume:
            return
        self._resolved[key] = volume
        for slot in self._slots_of[key]:
            self._place(before, slot, -1)
            self._place(volume, slot, 1)

    def _place(self, volume: CsiVolume | None, slot: int, sign: int) -> None:
        """One claim more, or less, stands for the volume on a node."""
        if volume is None:
            return
        is_attached = volume in self._attachments.get(self._nodes.names[slot] or "", ())
        slots = self._places.setdefault(volume, {})
        before = slots.get(slot, 0)
        if not before:
            if is_attached:
                self._count_unmounted(volume, slot, -1)
            self.attached(volume.driver)[slot] += 1
        slots[slot] = before + sign
        if not slots[slot]:
            self.attached(volume.driver)[slot] -= 1
            take_out(self._places, volume, slot)
            if is_attached:
                self._count_unmounted(volume, slot, 1)


def _limit(driver: objects.CSINodeDriver) -> int:
    count = driver.allocatable.count if driver.allocatable else None
    return NO_LIMIT if count is None else count


# --- how much room drivers say there is -----------------------------------------------------------
# An object is about one storage class and the nodes of one topology.  Which nodes have room for a volume of
# some size is a column over all nodes, made once for the class and the size and again when nodes change.

_NO_ROOM = -1


@dataclass(frozen=True, slots=True)
class CapacityRecord:
    """A CSIStorageCapacity; amounts are in bytes.

    Attributes:
        nodes: Those that reach the storage, None for none.
        amount: How much is left.
        largest: The largest volume that can be made, None if nobody knows.
    """

    key: Key
    storage_class: str
    nodes: Selector | None
    amount: int
    largest: int | None

    def has_room(self, wanted: int) -> bool:
        return self.nodes is not None and self.largest is not None and self.largest >= wanted


class StorageRoom:
    """The nodes for which a volume of one class and size can be made."""

    def __init__(self, nodes: NodeTable, storage_class: str, enough: list[CapacityRecord]) -> None:
        self.storage_class = storage_class
        self._nodes = nodes
        self._enough = enough
        self._amounts: Int64Array = np.zeros(0, dtype=np.int64)
        self._version = -1

    def amounts(self) -> Int64Array:
        """By slot, how much is left in the storage that a node would use; negative if there is none."""
        if self._version != self._nodes.version or len(self._amounts) != self._nodes.capacity:
            self._amounts = self._filled()
            self._version = self._nodes.version
        return self._amounts

    def slots(self) -> IndexArray:
        return np.flatnonzero(self.amounts()[: self._nodes.count] >= 0)

    def matches(self, labels: Mapping[str, str], name: str) -> bool:
        """Whether a node has room; its labels are those it is known with."""
        del labels
        slot = self._nodes.slot_of.get(name)
        return slot is not None and bool(self.amounts()[slot] >= 0)

    def _filled(self) -> Int64Array:
        amounts = np.full(self._nodes.capacity, _NO_ROOM, dtype=np.int64)
        by_value: dict[str, Int64Array] = {}
        # Where several would do upstream takes any; here it is the first by name.
        for record in reversed(self._enough):
            selector = record.nodes or NOTHING
            only = next(iter(selector.requirements)) if len(selector.requirements) == 1 else None
            if only is None or only.operator != IN:
                amounts[self._nodes.matching(selector.requirements, slice(None))] = record.amount
                continue
            # One object a node is usual, so these are not each compared with all nodes.
            column = self._nodes.column(only.key)
            if only.key not in by_value:
                by_value[only.key] = np.full(len(column.values), _NO_ROOM, dtype=np.int64)
            for value in only.values:
                by_value[only.key][column.id_of(value)] = record.amount
        for key, found in by_value.items():
            found[0] = _NO_ROOM  # what no node has
            of_label = found[self._nodes.column(key).ids]
            amounts = np.where(of_label >= 0, of_label, amounts)
        amounts[~self._nodes.alive] = _NO_ROOM
        return amounts

    def __str__(self) -> str:
        return f"nodes with enough storage of class {self.storage_class}"


class StorageCapacities:
    """All CSIStorageCapacity objects."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._records: dict[Key, CapacityRecord] = {}
        self._by_class: dict[str, dict[Key, CapacityRecord]] = {}
        self._rooms: dict[str, dict[int, StorageRoom]] = {}

    def put(self, capacity: objects.CSIStorageCapacity) -> set[str]:
        """Take over an object; the storage classes for which something is different now."""
        new = _record_of(capacity)
        if self._records.get(new.key) == new:
            return set()
        changed = self.drop(new.key)
        self._records[new.key] = self._by_class.setdefault(new.storage_class, {})[new.key] = new
        self._rooms.pop(new.storage_class, None)
        return {*changed, new.storage_class}

    def drop(self, key: Key) -> set[str]:
        old = self._records.pop(key, None)
        if old is None:
            return set()
        take_out(self._by_class, old.storage_class, key)
        self._rooms.pop(old.storage_class, None)
        return {old.storage_class}

    def room(self, storage_class: str, wanted: int) -> StorageRoom:
        """Where there is room for so many bytes; the same object until something changes."""
        rooms = self._rooms.setdefault(storage_class, {})
        if wanted not in rooms:
            records = sorted(self._by_class.get(storage_class, {}).items())
            enough = [record for _, record in records if record.has_room(wanted)]
            rooms[wanted] = StorageRoom(self._nodes, storage_class, enough)
        return rooms[wanted]


def _record_of(view: objects.CSIStorageCapacity) -> CapacityRecord:
    meta = view.metadata
    amount = None if view.capacity is None else quantity.value(view.capacity)
    largest = None if view.maximum_volume_size is None else quantity.value(view.maximum_volume_size)
    return CapacityRecord(
        key=(meta.namespace or "default", meta.name or ""),
        storage_class=view.storage_class_name or "",
        nodes=None if view.node_topology is None else parse_label_selector(view.node_topology),
        amount=amount or 0,
        largest=amount if largest is None else largest,
    )


# --- VolumeAttachments, each as the volume that its driver counts on a node -----------------------
# A volume stays attached for a while after its last pod has left, and takes its place for as long.


class _Attachment(NamedTuple):
    driver: str
    node: str
    volume: str  # the name of the PersistentVolume


class VolumeAttachments:
    """Keeps an index of drivers in step with the attachments, and with the volumes that they name."""

    def __init__(self, csi: CsiIndex, volumes: Mapping[str, VolumeRecord]) -> None:
        self._csi = csi
        self._volumes = volumes
        self._known: dict[str, _Attachment] = {}
        self._counted: dict[str, CsiVolume] = {}
        self._of: dict[str, dict[str, None]] = {}  # by the volume's name

    def set(self, attachment: objects.VolumeAttachment) -> bool:
        """Take over an attachment; True if placement can see a difference."""
        name, spec = attachment.metadata.name or "", attachment.spec
        source = spec.source.persistent_volume_name if spec.source else None
        new = _Attachment(spec.attacher or "", spec.node_name or "", source or "")
        if self._known.get(name) == new:
            return False
        changed = self.remove(name) is not None
        self._known[name] = new
        self._of.setdefault(new.volume, {})[name] = None
        self._count(name)
        return changed or name in self._counted

    def remove(self, name: str) -> str | None:
        """Forget an attachment; the name of the node that has a place more by it, if one has."""
        old = self._known.pop(name, None)
        if old is None:
            return None
        take_out(self._of, old.volume, name)
        volume = self._counted.pop(name, None)
        if volume is None:
            return None
        self._csi.attach(old.node, volume, -1)
        return old.node

    def volume_changed(self, name: str) -> None:
        """The volume of this name may have another handle, or be gone."""
        for attachment in self._of.get(name, ()):
            volume = self._counted.pop(attachment, None)
            if volume is not None:
                self._csi.attach(self._known[attachment].node, volume, -1)
            self._count(attachment)

    def _count(self, name: str) -> None:
        driver, node, volume = self._known[name]
        found = self._volumes.get(volume)
        if driver and found is not None and found.csi is not None and not found.in_tree:
            self._counted[name] = CsiVolume(driver, found.csi[1])
            self._csi.attach(node, self._counted[name], 1)
