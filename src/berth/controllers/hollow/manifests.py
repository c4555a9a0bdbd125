"""What hollow nodes look like: names, labels by zone and rack, capacity, addresses."""

from __future__ import annotations

from dataclasses import dataclass

from berth.controllers.hollow import LABEL
from berth.kube.objects import Node, RawObject
from berth.kube.times import stamp
from berth.kube.well_known import REGION, ZONE

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
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number + 1:04d}", "labels": labels},
        "status": {"capacity": _capacity(shape)},
    }


def _capacity(shape: Shape) -> dict[str, str]:
    return {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "ephemeral-storage": shape.storage,
        "pods": str(shape.pods),
    }


def adopted(node: Node, index: int, release: str, now: float) -> RawObject:
    """What a kubelet adds to a node that somebody else created: what it says already stays."""
    name = node.metadata.name or ""
    labels = {**_own_labels(name), **(node.metadata.labels or {}), LABEL: "true"}
    status: RawObject = {
        "conditions": ready_conditions(now),
        "addresses": _node_addresses(name, index),
        "nodeInfo": _info(index, release),
    }
    given = node.status
    if not (given and (given.capacity or given.allocatable)):
        status |= dict.fromkeys(("capacity", "allocatable"), _capacity(Shape(nodes=1)))
    return {"metadata": {"labels": labels}, "status": status}


def _own_labels(name: str) -> dict[str, str]:
    return {"kubernetes.io/hostname": name, "kubernetes.io/arch": "amd64", "kubernetes.io/os": "linux"}


def _node_addresses(name: str, index: int) -> list[RawObject]:
    return [
        {"type": "InternalIP", "address": node_address(index)},
        {"type": "Hostname", "address": name},
    ]


def registered(manifest: RawObject, index: int, release: str, now: float) -> RawObject:
    """A manifest as its kubelet would register it; what the manifest says already stays."""
    metadata, status = manifest.get("metadata") or {}, manifest.get("status") or {}
    name = metadata.get("name", "")
    labels = {**_own_labels(name), **(metadata.get("labels") or {}), LABEL: "true"}
    capacity = status.get("capacity") or status.get("allocatable") or {}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**_kept(metadata), "labels": labels},
        "spec": {"podCIDR": pod_range(index), "podCIDRs": [pod_range(index)], **(manifest.get("spec") or {})},
        "status": {
            "capacity": capacity,
            "allocatable": status.get("allocatable") or capacity,
            "conditions": ready_conditions(now),
            "addresses": _node_addresses(name, index),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _info(index, release),
            **{field: status[field] for field in ("images",) if field in status},
        },
    }


def ready_conditions(now: float) -> list[RawObject]:
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": stamp(now),
            "lastTransitionTime": stamp(now),
        }
        for kind, status, reason, message in _CONDITIONS
    ]


def pod_range(index: int) -> str:
    return f"10.{index >> 8 & 255}.{index & 255}.0/24"


def node_address(index: int) -> str:
    return f"172.{16 + (index >> 16 & 15)}.{index >> 8 & 255}.{index & 255}"


def _kept(metadata: RawObject) -> RawObject:
    """A manifest may come from another cluster: what that one gave it is left behind."""
    return {field: metadata[field] for field in ("name", "annotations") if field in metadata}


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
