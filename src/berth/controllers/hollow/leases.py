"""Keeps the leases of hollow nodes: a wheel of time slots, each node in one of them.

Nothing is polled: in every slot the leases that are due are renewed, spread evenly over the interval.
No more than a hundred are renewed a second; beyond a thousand nodes the interval and the
lease's duration grow together.
"""

from __future__ import annotations

from berth.controllers.actions import new_object
from berth.controllers.hollow import is_hollow
from berth.kube.api_resources import LEASES, NODES, Resource
from berth.kube.objects import Node, PartialObjectMetadata, RawObject
from berth.kube.times import micro_stamp
from berth.kube.well_known import DELETED, NODE_LEASE_NAMESPACE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Event, Get, Outcome, Update

INTERVAL, DURATION = 12.0, 40
SLOT = 0.5  # seconds
_A_SECOND = 100  # renewals, at most


class Leases:
    """Renews the lease of every hollow node, as its kubelet would.

    Attributes:
        versions: Node -> resource version of its lease, "" if that is not known yet.
    """

    name = "hollow-leases"
    watches: tuple[Resource, ...] = (NODES,)

    def __init__(self, cache: Cache) -> None:
        self._cache = cache
        self._uids: dict[str, str] = {}
        self.versions: dict[str, str] = {}
        self._known: set[str] = set()  # there is a lease
        self._busy: set[str] = set()
        self._wheel: list[dict[str, None]] = [{}]
        self._slot_of: dict[str, int] = {}
        self._tick: int | None = None

    @property
    def interval(self) -> float:
        return max(INTERVAL, len(self._uids) / _A_SECOND)

    def handle(self, event: Event) -> None:
        node: Node = event.object
        name = event.key[1]
        if event.change != DELETED and is_hollow(node):
            if self._uids.get(name) != node.metadata.uid:
                self._uids[name] = node.metadata.uid or ""
                self.versions.setdefault(name, "")
                self._place(name)
        elif name in self._uids:
            del self._uids[name]
            self.versions.pop(name, None)
            self._known.discard(name)
            self._wheel[self._slot_of.pop(name)].pop(name, None)

    def _place(self, name: str) -> None:
        slots = int(self.interval / SLOT)
        if slots > len(self._wheel):
            self._wheel += [{} for _ in range(slots - len(self._wheel))]
            for number, other in enumerate(self._slot_of):
                self._move(other, number % len(self._wheel))
        if name not in self._slot_of:
            # Neighbours in the list are far apart on the wheel, and the first ones come at once.
            self._move(name, len(self._slot_of) % len(self._wheel))

    def _move(self, name: str, slot: int) -> None:
        if name in self._slot_of:
            self._wheel[self._slot_of[name]].pop(name, None)
        self._slot_of[name] = slot
        self._wheel[slot][name] = None

    def due(self) -> float | None:
        if not self._uids:
            return None
        return 0.0 if self._tick is None else (self._tick + 1) * SLOT

    def reconcile(self, now: float) -> list[Action]:
        tick = int(now / SLOT)
        first = tick if self._tick is None else max(self._tick + 1, tick - len(self._wheel) + 1)
        self._tick = tick
        slots = (self._wheel[passed % len(self._wheel)] for passed in range(first, tick + 1))
        names = [name for slot in slots for name in slot if name not in self._busy]
        self._busy.update(names)
        return [self._renewal(name, now) for name in names]

    def _renewal(self, name: str, now: float) -> Action:
        version, key, at = self.versions.get(name, ""), ("", name), (NODE_LEASE_NAMESPACE, name)
        if version:
            return Update(resource=LEASES, key=key, at=at, body=self._lease(name, now, version))
        if name in self._known:
            return Get(resource=LEASES, key=key, at=at)
        return Create(resource=LEASES, key=key, at=(at[0], ""), body=self._lease(name, now, ""))

    def _lease(self, name: str, now: float, version: str) -> RawObject:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self._uids.get(name, "")}
        metadata = {"name": name, "namespace": NODE_LEASE_NAMESPACE, "ownerReferences": [owner]}
        if version:
            metadata["resourceVersion"] = version
        duration = max(DURATION, int(4 * self.interval))
        spec = {"holderIdentity": name, "leaseDurationSeconds": duration, "renewTime": micro_stamp(now)}
        return new_object(LEASES, metadata, spec=spec)

    def done(self, action: Action, outcome: Outcome) -> None:
        name = action.key[1]
        self._busy.discard(name)
        if name not in self._uids:
            return
        if outcome.ok:
            self._known.add(name)
            self.versions[name] = outcome.decode(PartialObjectMetadata).metadata.resource_version or ""
        elif outcome.missing:
            self._known.discard(name)
            self.versions[name] = ""
        elif outcome.code == 409:
            self._known.add(name)
            self.versions[name] = ""
