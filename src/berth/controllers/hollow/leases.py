"""Keeps the leases of hollow nodes: a wheel of time slots, each node in one of them.

Nothing is polled: in every slot the leases that are due are renewed, spread evenly over the interval.
No more than a hundred are renewed a second; beyond a thousand nodes the interval and the
lease's duration grow together.
"""

from __future__ import annotations

from dataclasses import dataclass

from berth.controllers.hollow import is_hollow
from berth.kube.api_resources import LEASES, NODES, Resource
from berth.kube.objects import Node, PartialObjectMetadata, RawObject
from berth.kube.times import micro_stamp
from berth.kube.well_known import DELETED, NODE_LEASE_NAMESPACE
from berth.machines.contract import Action, Create, Event, Get, Outcome, Update, expect
from berth.machines.requests import new_object

INTERVAL, DURATION = 12.0, 40
SLOT = 0.5  # seconds
_A_SECOND = 100  # renewals, at most


@dataclass(slots=True)
class _HollowNode:
    """A node, where on the wheel it is, and what is known of its lease."""

    uid: str
    slot: int
    version: str = ""  # resource version of the lease, "" if that is not known
    has_lease: bool = False  # whether there is one


class Leases:
    """Renews the lease of every hollow node, as its kubelet would."""

    name = "hollow-leases"
    watches: tuple[Resource, ...] = (NODES,)

    def __init__(self) -> None:
        self._nodes: dict[str, _HollowNode] = {}
        self._busy: set[str] = set()
        self._wheel: list[dict[str, None]] = [{}]
        self._tick: int | None = None

    @property
    def interval(self) -> float:
        return max(INTERVAL, len(self._nodes) / _A_SECOND)

    def handle(self, event: Event) -> None:
        node: Node = event.object
        name = event.key[1]
        if event.change != DELETED and is_hollow(node):
            if name in self._nodes:
                self._nodes[name].uid = node.metadata.uid or ""
            else:
                self._add(name, node.metadata.uid or "")
        elif (known := self._nodes.pop(name, None)) is not None:
            del self._wheel[known.slot][name]

    def _add(self, name: str, uid: str) -> None:
        # Neighbours in the list are far apart on the wheel, and the first ones come at once.
        self._nodes[name] = _HollowNode(uid, len(self._nodes))
        slots = max(int(self.interval / SLOT), len(self._wheel))
        if slots > len(self._wheel):
            self._wheel = [{} for _ in range(slots)]
            for number, (other, node) in enumerate(self._nodes.items()):
                node.slot = number % slots
                self._wheel[node.slot][other] = None
        self._nodes[name].slot %= slots
        self._wheel[self._nodes[name].slot][name] = None

    def due(self) -> float | None:
        if not self._nodes:
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
        node, key, at = self._nodes[name], ("", name), (NODE_LEASE_NAMESPACE, name)
        if node.version:
            return Update(resource=LEASES, key=key, at=at, body=self._lease(name, node, now))
        if node.has_lease:
            return Get(resource=LEASES, key=key, at=at)
        return Create(resource=LEASES, key=key, at=(at[0], ""), body=self._lease(name, node, now))

    def _lease(self, name: str, node: _HollowNode, now: float) -> RawObject:
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.uid}
        metadata = {"name": name, "namespace": NODE_LEASE_NAMESPACE, "ownerReferences": [owner]}
        if node.version:
            metadata["resourceVersion"] = node.version
        duration = max(DURATION, int(4 * self.interval))
        spec = {"holderIdentity": name, "leaseDurationSeconds": duration, "renewTime": micro_stamp(now)}
        return new_object(LEASES, metadata, spec=spec)

    def done(self, action: Action, outcome: Outcome) -> None:
        name = action.key[1]
        self._busy.discard(name)
        node = self._nodes.get(name)
        if node is None:
            return
        if outcome.ok:
            node.has_lease = True
            node.version = outcome.decode(PartialObjectMetadata).metadata.resource_version or ""
        elif outcome.missing or outcome.code == 409:
            node.has_lease, node.version = not outcome.missing, ""

    def validate(self) -> None:
        """Check that as many nodes are on the wheel as are known; for tests."""
        expect(sum(map(len, self._wheel)) == len(self._nodes), "the wheel has other nodes", self._wheel)
