"""Claims to devices in a cluster, and what is done to them."""

from __future__ import annotations

from typing import Any

from tests.support.api.client import Json
from tests.support.builders import make_pod
from tests.support.worlds.cluster import ClusterWorld

API = "/apis/resource.k8s.io/v1"


def claims(world: ClusterWorld, name: str = "") -> str:
    path = f"{API}/namespaces/{world.namespace}/resourceclaims"
    return f"{path}/{name}" if name else path


def claim(world: ClusterWorld, name: str = "gpu") -> Json:
    request = {"name": "one", "exactly": {"deviceClassName": "gpu.example.com"}}
    return world.make(
        claims(world), {"metadata": {"name": name}, "spec": {"devices": {"requests": [request]}}}
    )


def allocate(world: ClusterWorld, node: str, name: str = "gpu") -> None:
    """What kube-scheduler does for a claim."""
    result = {"request": "one", "driver": "d.example.com", "pool": node, "device": "x"}
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    allocation = {
        "devices": {"results": [result]},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
    }
    world.patch(f"{claims(world, name)}/status", {"status": {"allocation": allocation}})


def with_claim(world: ClusterWorld, pod: str, name: str = "gpu", **spec: Any) -> str:
    used = [{"name": "device", "resourceClaimName": name}]
    return world.pod(make_pod(pod), resourceClaims=used, **spec)


def consumers(world: ClusterWorld, name: str = "gpu") -> list[tuple[str, str]]:
    found = world.get(claims(world, name))["status"].get("reservedFor") or []
    return sorted((entry["resource"], entry["name"]) for entry in found)
