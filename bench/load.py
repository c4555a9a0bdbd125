"""Loading a very large cluster from JSON, in a process of its own so that its memory can be told."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator

import msgspec

from bench.report import Figure
from bench.workloads import make_node, mixed, pod_manifest
from berth.engine.state.cluster import Cluster
from berth.kube.defaults import taken_in
from berth.kube.objects import Pod

NODES, PODS = 100_000, 1_000_000
_CHUNK = 20_000


def chunks() -> Iterator[list[bytes]]:
    """Pods as they come over the wire: fifty apps on all nodes."""
    for start in range(0, PODS, _CHUNK):
        manifests = []
        for i in range(start, start + _CHUNK):
            manifest = pod_manifest(f"pod-{i}", "new", mixed(i))
            manifest["metadata"]["uid"] = f"uid-{i}"
            manifest["spec"]["nodeName"] = f"node-{i % NODES:06d}"
            manifest["status"] = {"phase": "Running"}
            manifests.append(msgspec.json.encode(manifest))
        yield manifests


def load() -> dict[str, float]:
    decoder = msgspec.json.Decoder(Pod)
    nodes = [msgspec.json.encode(make_node(i, 10)) for i in range(NODES)]
    start = time.perf_counter()
    cluster = Cluster(expected_nodes=NODES)
    node_decoder = msgspec.json.Decoder(type(make_node(0, 1)))
    for raw in nodes:
        cluster.add_node(node_decoder.decode(raw))
    seconds = time.perf_counter() - start
    del nodes
    for chunk in chunks():
        start = time.perf_counter()
        for raw in chunk:
            cluster.add_pod(taken_in(decoder.decode(raw)))
        seconds += time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"seconds": seconds, "gib": peak / 2**30, "pods": cluster.pods.count}


def measure() -> Iterable[Figure]:
    done = subprocess.run([sys.executable, "-m", "bench.load"], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    if found["pods"] != PODS:
        raise SystemExit(f"only {found['pods']} of {PODS} pods were loaded")
    yield Figure("load from JSON", NODES, PODS, found["seconds"], "s", None, 60)
    yield Figure("memory after loading", NODES, PODS, found["gib"], "GiB", None, 4)


if __name__ == "__main__":
    print(json.dumps(load()))
