"""Registers hollow nodes, and says that they are ready whenever somebody claims otherwise.

A node that a user applied and no kubelet speaks for, by a lease or a heartbeat, becomes a hollow node: what
is bound to it would otherwise wait for ever.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Network, ip_network

from berth.controllers.hollow import LABEL, is_hollow
from berth.kube.amounts.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, is_extended
from berth.kube.api_resources import LEASES, NODES
from berth.kube.objects import Key, Lease, Node, RawObject
from berth.kube.taints import is_node_ready
from berth.kube.times import seconds, stamp
from berth.kube.versions import NEWEST
from berth.kube.well_known import DELETED, HOSTNAME, NODE_LEASE_NAMESPACE, REGION, ZONE
from berth.machines.cache import Cache
from berth.machines.contract import Action, Create, Event, Outcome
from berth.machines.controller import Controller
from berth.machines.requests import new_condition, new_object, patch, status_report

# --- what nodes look like -------------------------------------------------------------------------
# Names, labels by zone and rack, capacity, addresses.

RACK = "rack"
_CONDITIONS = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """How many nodes, over how many zones and racks in each zone, and how large they are."""

    nodes: int
    zones: int = 3
    racks: int = 1
    cpu: str = "8"
    memory: str = "32Gi"
    storage: str = "100Gi"
    pods: int = 110


def make_nodes(shape: Shape) -> list[RawObject]:
    """Nodes dealt out to the zones in turn, and to the racks of each zone in turn."""
    return [_node(shape, number) for number in range(shape.nodes)]


def _node(shape: Shape, number: int) -> RawObject:
    zone, place = number % shape.zones, number // shape.zones
    labels = {
        REGION: "local",
        ZONE: f"zone-{zone + 1}",
        RACK: f"zone-{zone + 1}-rack-{place % shape.racks + 1}",
    }
    metadata = {"name": f"node-{number + 1:04d}", "labels": labels}
    return new_object(NODES, metadata, status={"capacity": _capacity(shape)})


def _capacity(shape: Shape) -> dict[str, str]:
    return {CPU: shape.cpu, MEMORY: shape.memory, EPHEMERAL_STORAGE: shape.storage, PODS: str(shape.pods)}


def adopted(node: Node, index: int, release: str, now: float) -> tuple[RawObject, RawObject]:
    """Labels and status that a kubelet gives a node of somebody else's making; what it says stays."""
    name = node.metadata.name or ""
    labels = {**_own_labels(name), **(node.metadata.labels or {}), LABEL: "true"}
    status, given = _reported(name, index, release, now), node.status
    if not (given and (given.capacity or given.allocatable)):
        status |= dict.fromkeys(("capacity", "allocatable"), _capacity(Shape(nodes=1)))
    return labels, status


def _own_labels(name: str) -> dict[str, str]:
    return {HOSTNAME: name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}


def _reported(name: str, index: int, release: str, now: float) -> RawObject:
    """What a kubelet says of its node."""
    addresses = [
        {"type": "InternalIP", "address": node_address(index)},
        {"type": "Hostname", "address": name},
    ]
    return {"conditions": ready_conditions(now), "addresses": addresses, "nodeInfo": _info(index, release)}


def registered(manifest: RawObject, index: int, release: str, now: float) -> RawObject:
    """A manifest as its kubelet would register it; what the manifest says already stays."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    name = metadata.get("name", "")
    # It may come from another cluster: what that one gave it is left behind.
    kept = {field: metadata[field] for field in ("name", "annotations") if field in metadata}
    labels = {**_own_labels(name), **(metadata.get("labels") or {}), LABEL: "true"}
    capacity = status.get("capacity") or status.get("allocatable") or {}
    spec = {"podCIDR": pod_range(index), "podCIDRs": [pod_range(index)], **(manifest.get("spec") or {})}
    reported = {
        "capacity": capacity,
        "allocatable": status.get("allocatable") or capacity,
        **_reported(name, index, release, now),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
        **{field: status[field] for field in ("images",) if field in status},
    }
    return new_object(NODES, {**kept, "labels": labels}, spec=spec, status=reported)


def ready_conditions(now: float) -> list[RawObject]:
    return [
        {**new_condition(kind, status, reason, message, now), "lastHeartbeatTime": stamp(now)}
        for kind, status, reason, message in _CONDITIONS
    ]


def pod_range(index: int) -> str:
    return f"10.{index >> 8 & 255}.{index & 255}.0/24"


def node_address(index: int) -> str:
    return f"172.{16 + (index >> 16 & 15)}.{index >> 8 & 255}.{index & 255}"


def _info(index: int, release: str) -> RawObject:
    return {
        "machineID": f"{index:032x}",
        "systemUUID": f"{index:08x}-0000-4000-8000-000000000000",
        "bootID": f"{index:08x}-0000-4000-8000-000000000001",
        "kernelVersion": "hollow",
        "osImage": "Berth hollow node",
        "containerRuntimeVersion": "hollow://1",
        "kubeletVersion": release,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


# --- registering ----------------------------------------------------------------------------------

SILENCE = 40.0  # seconds without a heartbeat after which nobody speaks for a node, as for the node controller


class Registration(Controller):
    """Creates the nodes it was told of, once; one that is deleted later stays deleted.

    Their kubelets are of the version `release`, also on nodes that were registered before with another.
    """

    name = "hollow-registration"
    watches = (NODES,)

    def __init__(self, cache: Cache, wanted: Iterable[RawObject] = (), release: str = NEWEST.release) -> None:
        super().__init__(cache)
        self._release = release
        self._manifests = {manifest["metadata"]["name"]: manifest for manifest in wanted}
        self.waiting = dict.fromkeys(self._manifests)  # names still to be registered
        self._next_index = 1
        self._numbers: dict[str, int] = {}
        for name in self.waiting:
            self.queue.add(("", name))

    def handle(self, event: Event) -> None:
        self._next_index = max(self._next_index, index_of(event.object) + 1)
        if event.change == DELETED:
            self._numbers.pop(event.key[1], None)
        else:
            self.waiting.pop(event.key[1], None)
            self.queue.add(event.key)

    def sync(self, key: Key, now: float) -> Iterator[Action]:
        node = self.cache.get(NODES, key, Node)
        if node is None:
            if key[1] in self.waiting:
                body = registered(self._manifests[key[1]], self._number(key[1]), self._release, now)
                yield Create(resource=NODES, key=key, at=("", ""), body=body, why="registered")
        elif LABEL not in (node.metadata.labels or {}):
            yield from self._adopt(key, node, now)
        elif is_hollow(node) and not is_node_ready(node):
            yield status_report(NODES, node, {"conditions": ready_conditions(now)}, "the node is up")
        elif is_hollow(node) and _kubelet_version(node) not in (None, self._release):
            info = {"kubeletVersion": self._release}
            yield status_report(NODES, node, {"nodeInfo": info}, "the kubelet was upgraded")
        elif is_hollow(node) and not (node.spec and node.spec.pod_cidr):
            given = pod_range(self._number(key[1]))
            yield patch(NODES, node, {"spec": {"podCIDR": given, "podCIDRs": [given]}}, "for its pods")
        elif is_hollow(node):
            yield from self._mirror(node)

    def _mirror(self, node: Node) -> Iterator[Action]:
        """What a node has of extended resources can be allocated, as it comes and goes."""
        capacity = (node.status.capacity if node.status else None) or {}
        known = (node.status.allocatable if node.status else None) or {}
        changed: RawObject = {
            name: amount
            for name, amount in capacity.items()
            if is_extended(name) and known.get(name) != amount
        }
        if capacity:
            changed |= {name: None for name in known if is_extended(name) and name not in capacity}
        if changed:
            yield status_report(NODES, node, {"allocatable": changed}, "extended resources")

    def _adopt(self, key: Key, node: Node, now: float) -> Iterator[Action]:
        """Run a node of somebody else's making, unless it has a kubelet."""
        if self.cache.get(LEASES, (NODE_LEASE_NAMESPACE, key[1]), Lease) is not None:
            return
        if self.queue.put_off(key, _heard(node) + SILENCE, now):
            return
        labels, status = adopted(node, self._number(key[1]), self._release, now)
        yield status_report(NODES, node, status, "nobody else runs this node", metadata={"labels": labels})

    def _number(self, name: str) -> int:
        """What the addresses of a node are made from."""
        if name not in self._numbers:
            self._numbers[name] = self._next_index
            self._next_index += 1
        return self._numbers[name]

    def failed(self, action: Action, outcome: Outcome) -> None:
        if isinstance(action, Create) and outcome.exists:
            self.waiting.pop(action.key[1], None)


def _heard(node: Node) -> float:
    """When a kubelet last reported about the node, if ever."""
    conditions = (node.status.conditions if node.status else None) or ()
    return max((seconds(c.last_heartbeat_time) for c in conditions if c.last_heartbeat_time), default=0.0)


def network_of(node: Node) -> IPv4Network | IPv6Network | None:
    """The range of its pods' addresses, if it has one; nobody checks what people write there."""
    with contextlib.suppress(ValueError):
        return ip_network((node.spec.pod_cidr if node.spec else None) or "", strict=False)
    return None


def index_of(node: Node) -> int:
    """The number its addresses were made from, -1 if they were not."""
    first = int(network[0]) if isinstance(network := network_of(node), IPv4Network) else 0
    return first >> 8 & 0xFFFF if first >> 24 == 10 else -1


def _kubelet_version(node: Node) -> str | None:
    info = node.status.node_info if node.status is not None else None
    return info.kubelet_version if info is not None else None
