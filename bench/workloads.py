"""The workloads, named and shaped like those kube-scheduler is measured with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
IGNORED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
APPS = 50

Shape = tuple[dict[str, str], dict[str, Any]]


def plain(_number: int) -> Shape:
    return {}, {}


@dataclass(frozen=True, slots=True)
class Workload:
    """Labels and spec of the pods to place and of those that run, by number.

    Attributes:
        stride: Running pods use every so many-th node; 3 puts them all into one of three zones.
        full: There is no room but by preempting running pods, four of which fill a node.
    """

    name: str
    pending: Callable[[int], Shape]
    running: Callable[[int], Shape] = plain
    zones: int = 3
    stride: int = 1
    full: bool = False


def term(topology_key: str, labels: dict[str, str]) -> dict[str, Any]:
    return {
        "labelSelector": {"matchLabels": labels},
        "topologyKey": topology_key,
        "namespaces": ["run", "new"],
    }


def node_affinity(*zones: str) -> dict[str, Any]:
    expression = {"key": ZONE, "operator": "In", "values": list(zones)}
    return {
        "affinity": {"nodeAffinity": {IGNORED: {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}}
    }


def required(kind: str, topology_key: str, labels: dict[str, str]) -> dict[str, Any]:
    return {kind: {IGNORED: [term(topology_key, labels)]}}


def preferred(kind: str, topology_key: str, labels: dict[str, str], weight: int = 1) -> dict[str, Any]:
    return {kind: {PREFERRED: [{"weight": weight, "podAffinityTerm": term(topology_key, labels)}]}}


def spread(action: str, labels: dict[str, str], max_skew: int = 5) -> dict[str, Any]:
    constraint = {
        "maxSkew": max_skew,
        "topologyKey": ZONE,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": labels},
    }
    return {"topologySpreadConstraints": [constraint]}


def same(name: str, labels: dict[str, str], spec: dict[str, Any], stride: int = 1) -> Workload:
    """A workload whose running pods carry the same rules as the pending ones."""
    return Workload(name, lambda _: (labels, spec), lambda _: (labels, spec), stride=stride)


def mixed(number: int) -> Shape:
    """Fifty apps in turn, of five kinds: spread, anti-affinity, preferences, nothing, both."""
    app = {"app": f"app-{number % APPS}"}
    neighbour = {"app": f"app-{(number + 1) % APPS}"}
    even = spread("DoNotSchedule", app, max_skew=2)
    apart = required("podAntiAffinity", HOSTNAME, app)
    wishes = preferred("podAntiAffinity", HOSTNAME, app, 50) | preferred("podAffinity", ZONE, neighbour, 10)
    return app, _kinds(even, apart, wishes)[number % _KINDS]


def different(number: int) -> Shape:
    """Every pod an app of its own, with rules about itself and its neighbour: of the five kinds in turn."""
    app, neighbour = {"app": f"own-{number}"}, {"app": f"own-{number + 1}"}
    even = spread("DoNotSchedule", app, max_skew=2)
    apart = required("podAntiAffinity", HOSTNAME, app)
    wishes = preferred("podAntiAffinity", HOSTNAME, app, 50) | preferred("podAffinity", ZONE, neighbour, 10)
    return app, _kinds(even, apart, wishes)[number % _KINDS]


def _kinds(even: dict[str, Any], apart: dict[str, Any], wishes: dict[str, Any]) -> list[dict[str, Any]]:
    return [even, {"affinity": apart}, {"affinity": wishes}, {}, {**even, "affinity": apart}]


def container(cpu: str) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "500Mi"}
    return {"containers": [{"name": "c", "image": "pause", "resources": {"requests": requests}}]}


def filling(number: int) -> Shape:
    """Four of them fill a node; those on every third node are under a budget."""
    return GUARDED if number % 3 == 0 else {"app": "free"}, container("900m")


def preempting(_number: int) -> Shape:
    """Needs the room of three that fill a node."""
    return {}, {**container("3"), "priorityClassName": URGENT}


_KINDS = 5
GUARDED, URGENT = {"app": "guarded"}, "urgent"
GREEN, BLUE, RED = {"color": "green"}, {"color": "blue"}, {"color": "red"}

BASIC = Workload("basic", plain)
MIXED = Workload("mixed", mixed, mixed, zones=10)
DIFFERENT = Workload("every-pod-different", different, mixed, zones=10)
PREEMPTION = Workload("preemption", preempting, filling, full=True)
WORKLOADS = (
    BASIC,
    Workload("node-affinity", lambda _: ({}, node_affinity("zone-0", "zone-1"))),
    same("pod-affinity", BLUE, {"affinity": required("podAffinity", ZONE, BLUE)}),
    same("pod-anti-affinity", GREEN, {"affinity": required("podAntiAffinity", HOSTNAME, GREEN)}, stride=2),
    same("preferred-pod-affinity", RED, {"affinity": preferred("podAffinity", HOSTNAME, RED)}),
    same("preferred-pod-anti-affinity", RED, {"affinity": preferred("podAntiAffinity", HOSTNAME, RED)}),
    same(
        "preferred-pod-affinity-zone", RED, {"affinity": preferred("podAffinity", ZONE, RED, 100)}, stride=3
    ),
    Workload("spread", lambda _: (BLUE, spread("DoNotSchedule", BLUE))),
    Workload("preferred-spread", lambda _: (BLUE, spread("ScheduleAnyway", BLUE))),
    MIXED,
)


def make_node(number: int, zones: int) -> Node:
    name = f"node-{number:06d}"
    resources = {"pods": "110", "cpu": "4", "memory": "32Gi"}
    raw = {
        "metadata": {"name": name, "labels": {HOSTNAME: name, ZONE: f"zone-{number % zones}"}},
        "status": {"capacity": resources, "allocatable": resources},
    }
    return default_node(msgspec.convert(raw, Node))


def pod_manifest(name: str, namespace: str, shape: Shape) -> dict[str, Any]:
    labels, spec = shape
    return {
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {**container("100m"), **spec},
    }


def make_pod(name: str, namespace: str, shape: Shape) -> Pod:
    return created(msgspec.convert(pod_manifest(name, namespace, shape), Pod))
