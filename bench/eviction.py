"""`berth controllers`: how soon broken rules are found, and what looking after them costs.

It runs as users start it, and without evicting once rules are broken, on a `berth up` whose own controllers
do not know the rule: it is in the annotation, and there the feature gate is off, as on anybody's cluster.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from bench.plane import cpu_seconds, plane
from bench.report import Figure
from bench.server import Endpoint
from bench.session import Session, open_session
from bench.workloads import HOSTNAME, ZONE, make_node, pod_manifest
from berth.eviction import AffinityEviction, EvictionDecision, EvictionSettings
from berth.eviction.reports import BROKEN, WOULD_EVICT
from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.api_resources import NODES, PODS, Resource
from berth.kube.objects import LivePod, Node
from berth.kube.well_known import ADDED, MODIFIED
from berth.machines.cache import Cache
from berth.machines.contract import Event

COUNT, RUNNING, RELABELLED = 1_000, 10_000, 100
FEW, MANY, ON_ONE = 1_000, 10_000, 10
LABEL, VALUE = "tenant", "b"
NAMESPACE = "default"
_EXPRESSION = {"key": LABEL, "operator": "In", "values": [VALUE]}
_TERMS = {"nodeSelectorTerms": [{"matchExpressions": [_EXPRESSION]}]}
RULE = json.dumps({"nodeAffinity": {"requiredDuringSchedulingRequiredDuringExecution": _TERMS}})
_IDLE_SECONDS, _SETTLE, _PATIENCE = 30, 10, 60.0
_BATCHES, _CHANGES = 5, 200


def measure() -> Iterable[Figure]:
    yield from asyncio.run(live())
    few, many = one_change_us(FEW), one_change_us(MANY)
    yield Figure("a node's label changes", COUNT, FEW, few, "µs")
    yield Figure("a node's label changes", COUNT, MANY, many, "µs")
    yield Figure("a node's label changes, 10x running", COUNT, MANY, many / few, "ratio", None, 1.2)


def pod(number: int, node: str) -> dict[str, Any]:
    manifest = pod_manifest(f"pod-{number:05d}", NAMESPACE, ({"app": "tenant"}, {"nodeName": node}))
    manifest["metadata"]["annotations"] = {AFFINITY_ANNOTATION: RULE}
    return manifest


# --- on a cluster ---------------------------------------------------------------------------------


class Controllers:
    """The process, and when it told what of which pod."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.told: dict[str, dict[str, float]] = {BROKEN: {}, WOULD_EVICT: {}}
        self.is_started = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stderr or ():
            now = time.perf_counter()
            entry = json.loads(line)
            if entry["msg"] in self.told:
                self.told[entry["msg"]].setdefault(entry["pod"], now)
            elif entry["msg"] == "Starting":
                self.is_started.set()

    def until(self, what: str, wanted: int) -> float:
        """Wait until so many pods were told of; when the last one was."""
        deadline = time.monotonic() + _PATIENCE
        while len(self.told[what]) < wanted:
            if time.monotonic() > deadline:
                raise SystemExit(f"{what}: {len(self.told[what])} of {wanted} within {_PATIENCE:.0f} s")
            time.sleep(0.01)
        return max(self.told[what].values())

    def share(self, seconds: float) -> float:
        """Percent of a core used meanwhile."""
        before = cpu_seconds([self.process.pid])
        time.sleep(seconds)
        return (cpu_seconds([self.process.pid]) - before) / seconds * 100


@contextmanager
def controllers(server: Endpoint, *flags: str) -> Iterator[Controllers]:
    command = [sys.executable, "-m", "berth", "controllers", "--secure-port=0", *flags]
    command += [f"--kubeconfig={server.folder / 'kubeconfig'}", "--logging-format=json"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)
    try:
        running = Controllers(process)
        if not running.is_started.wait(_PATIENCE):
            raise SystemExit("berth controllers did not start")
        yield running
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


async def live() -> list[Figure]:
    with plane(COUNT, "--feature-gates=NodeAffinityEviction=false") as server:
        url, ca_file = f"https://127.0.0.1:{server.port}", server.folder / "pki" / "ca.crt"
        async with open_session(url, server.token, ca_file) as session:
            names = await fill(session)
            with controllers(server) as running:  # with its lease
                await asyncio.sleep(_SETTLE)
                idle = await asyncio.to_thread(running.share, _IDLE_SECONDS)
            with controllers(server, "--dry-run", "--v=4") as running:
                await asyncio.sleep(_SETTLE)
                start = time.perf_counter()
                await label(session, names[:: COUNT // RELABELLED], None)
                wanted = RELABELLED * RUNNING // COUNT
                found = await asyncio.to_thread(running.until, BROKEN, wanted)
                decided = await asyncio.to_thread(running.until, WOULD_EVICT, wanted)
                await asyncio.sleep(_SETTLE)
                waiting = await asyncio.to_thread(running.share, _IDLE_SECONDS)
    size = (COUNT, RUNNING)
    return [
        Figure("100 nodes relabelled, all broken rules found", *size, found - start, "s", None, 2),
        Figure("100 nodes relabelled, all decided", *size, decided - start, "s"),
        Figure("berth controllers, idle", *size, idle, "% of a core", None, 2),
        Figure("berth controllers, idle with 1,000 broken rules", *size, waiting, "% of a core", None, 2),
    ]


async def fill(session: Session) -> list[str]:
    """Label all nodes, and put the pods on them, ten on each; the nodes' names."""
    names = sorted(node["metadata"]["name"] for node in await session.items("/api/v1/nodes"))
    await label(session, names, VALUE)
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await session.post_all(
        (path, msgspec.json.encode(pod(number, names[number % COUNT]))) for number in range(RUNNING)
    )
    deadline = time.monotonic() + _PATIENCE * 5
    while any(each["status"].get("phase") != "Running" for each in await session.items("/api/v1/pods")):
        if time.monotonic() > deadline:
            raise SystemExit("the pods do not run")
        await asyncio.sleep(1)
    return names


async def label(session: Session, nodes: Iterable[str], value: str | None) -> None:
    body = json.dumps({"metadata": {"labels": {LABEL: value}}}).encode()
    await session.patch_all((f"/api/v1/nodes/{name}", body) for name in nodes)


# --- in process -----------------------------------------------------------------------------------


class Machine:
    """The controller by itself, and what reaches it."""

    def __init__(self) -> None:
        self.told = 0
        self.cache = Cache()
        self.controller = AffinityEviction(self.cache, EvictionSettings(dry_run=True), tell=self._tell)

    def _tell(self, decision: EvictionDecision) -> None:
        self.told += decision.what == BROKEN

    def hear(self, resource: Resource, change: str, item: object, old: object = None) -> None:
        event = Event(resource, change, item, old)
        self.cache.handle(event)
        self.controller.handle(event)


def one_change_us(running: int) -> float:
    """From a node that lost its label, or has it back, to the decision; the node has as many pods always."""
    machine = Machine()
    names = [make_node(number, 3).metadata.name or "" for number in range(COUNT)]
    for number, name in enumerate(names):
        machine.hear(NODES, ADDED, node_view(name, number % 3, {LABEL: VALUE}))
    elsewhere = [names[1 + number % (COUNT - 1)] for number in range(running - ON_ONE)]
    for number, name in enumerate([names[0]] * ON_ONE + elsewhere):
        raw = {**pod(number, name), "status": {"phase": "Running"}}
        raw["metadata"]["uid"] = f"uid-{number}"
        machine.hear(PODS, ADDED, msgspec.convert(raw, LivePod))
    machine.controller.reconcile(0.0)
    without, with_label = node_view(names[0], 0, {}), node_view(names[0], 0, {LABEL: VALUE})
    best = float("inf")
    now = 1.0
    for _ in range(_BATCHES):
        start = time.perf_counter()
        for _ in range(_CHANGES // 2):
            for old, new in ((with_label, without), (without, with_label)):
                machine.hear(NODES, MODIFIED, new, old)
                now += 1.0
                machine.controller.reconcile(now)
        best = min(best, time.perf_counter() - start)
    if machine.told != _BATCHES * _CHANGES // 2 * ON_ONE:
        raise SystemExit(f"{machine.told} broken rules were found")
    return best / _CHANGES * 1e6


def node_view(name: str, zone: int, labels: dict[str, str]) -> Node:
    resources = {"pods": "110", "cpu": "64", "memory": "256Gi"}
    raw = {
        "metadata": {"name": name, "uid": name, "labels": {HOSTNAME: name, ZONE: f"zone-{zone}", **labels}},
        "status": {"capacity": resources, "allocatable": resources},
    }
    return msgspec.convert(raw, Node)
