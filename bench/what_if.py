"""`berth what-if --every node`: each node of a large cluster lost in turn, on one engine cluster."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from bench.report import Figure

NODES, PODS, APPS, ZONES = 5_000, 50_000, 50, 10
# With so much each, ten pods fill a node: every one that loses its node has to preempt others.
FULL = "1600m"
_LIMIT = 120.0  # seconds


def measure() -> Iterable[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        for cpu, full, keys in (("1", "", ("node", "zone")), (FULL, ", full cluster", ("node",))):
            file = Path(folder, f"cluster-{cpu}.json")
            file.write_bytes(
                msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": [*_objects(cpu)]})
            )
            for key in keys:
                seconds = _timed(file, key, fits=not full)
                yield Figure(f"what-if --every {key}{full}", NODES, PODS, seconds, "s", None, _LIMIT)


def _timed(file: Path, key: str, *, fits: bool) -> float:
    command = [sys.executable, "-m", "berth", "what-if", "-f", str(file), "--every", key, "-o", "json"]
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=False)
    seconds = time.perf_counter() - start
    if done.returncode not in (0, 1) or msgspec.json.decode(done.stdout)["ok"] != fits:
        raise SystemExit(
            f"berth what-if --every {key} {'left pods without a node' if fits else 'went wrong'}"
        )
    return seconds


def _objects(cpu: str) -> Iterator[dict[str, Any]]:
    size = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    for i in range(NODES):
        labels = {
            "kubernetes.io/hostname": f"node-{i}",
            "topology.kubernetes.io/zone": f"zone-{i % ZONES}",
        }
        metadata = {"name": f"node-{i}", "uid": f"node-{i}", "labels": labels}
        status = {"capacity": size, "allocatable": size}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "status": status}
    for i in range(PODS):
        yield _pod(i, f"app-{i % APPS}", cpu)


def _pod(number: int, app: str, cpu: str) -> dict[str, Any]:
    selector = {"matchLabels": {"app": app}}
    spread = {
        "maxSkew": 5,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": selector,
    }
    apart = [{"labelSelector": selector, "topologyKey": "kubernetes.io/hostname"}]
    spec: dict[str, Any] = {
        "nodeName": f"node-{number % NODES}",
        "priority": number % APPS % 3 * 100,
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu, "memory": "2Gi"}}}],
    }
    if number % 2 == 0:
        spec["topologySpreadConstraints"] = [spread]
    if number % 5 == 0:
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart}}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    metadata = {
        "name": f"{app}-{number}",
        "namespace": "default",
        "uid": f"pod-{number}",
        "labels": {"app": app},
        "ownerReferences": [owner],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
