"""What the page's overview shows: every node and pod in a row, and which rows changed since when."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from berth.engine.state.requests import pod_requests, units_of
from berth.kube.objects import Document, Key, Node, Pod
from berth.kube.pods import is_terminating, phase, pod_condition
from berth.kube.taints import described, taints_of, unready
from berth.kube.well_known import READY, RUNNING, TRUE, UNKNOWN

NOT_READY = "NotReady"
NO_CHANGES: Document = {"nodes": [], "pods": [], "goneNodes": [], "gonePods": []}


class NodeRow(msgspec.Struct, rename="camel", frozen=True):
    """The fields of a node that are drawn; cpu in millicores, memory in bytes."""

    name: str
    labels: Mapping[str, str]
    state: str
    unschedulable: bool
    taints: list[str]
    cpu: int
    memory: int
    pods: int


class PodRow(msgspec.Struct, rename="camel", frozen=True):
    """The fields of a pod that are drawn.

    Attributes:
        workload: The workload it belongs to in people's eyes, such as ``Deployment/web``; itself if none.
        node: Empty while it has none.
        phase: The pod's; Terminating while it ends, NotReady while it runs and says that it is not ready.
    """

    namespace: str
    name: str
    workload: str
    node: str
    phase: str
    cpu: int
    memory: int
    labels: Mapping[str, str] = {}


def node_row(node: Node) -> NodeRow:
    allocatable = units_of(node.status.allocatable if node.status else None)
    spec = node.spec
    failing = unready(node)
    state = READY if failing is None else UNKNOWN if failing.status == UNKNOWN else NOT_READY
    return NodeRow(
        node.metadata.name or "",
        node.metadata.labels or {},
        state,
        bool(spec and spec.unschedulable),
        [described(taint) for taint in taints_of(node)],
        allocatable.get("cpu", 0),
        allocatable.get("memory", 0),
        allocatable.get("pods", 0),
    )


def pod_row(pod: Pod, owner: str | None) -> PodRow:
    requests = pod_requests(pod.spec).plain
    return PodRow(
        pod.metadata.namespace or "default",
        pod.metadata.name or "",
        owner or f"Pod/{pod.metadata.name}",
        pod.spec.node_name or "",
        _state(pod),
        requests.get("cpu", 0),
        requests.get("memory", 0),
        pod.metadata.labels or {},
    )


def _state(pod: Pod) -> str:
    if is_terminating(pod):
        return "Terminating"
    ready = pod_condition(pod, READY)
    return NOT_READY if phase(pod) == RUNNING and ready is not None and ready.status != TRUE else phase(pod)


class Board:
    """The rows, and what has changed since they were last collected."""

    def __init__(self) -> None:
        self.nodes: dict[str, NodeRow] = {}
        self.pods: dict[Key, PodRow] = {}
        self._changed_nodes: set[str] = set()
        self._changed_pods: set[Key] = set()

    def put_node(self, row: NodeRow) -> None:
        if self.nodes.get(row.name) != row:
            self.nodes[row.name] = row
            self._changed_nodes.add(row.name)

    def drop_node(self, name: str) -> None:
        if self.nodes.pop(name, None) is not None:
            self._changed_nodes.add(name)

    def put_pod(self, row: PodRow) -> None:
        key = (row.namespace, row.name)
        if self.pods.get(key) != row:
            self.pods[key] = row
            self._changed_pods.add(key)

    def drop_pod(self, key: Key) -> None:
        if self.pods.pop(key, None) is not None:
            self._changed_pods.add(key)

    def changes(self) -> Document | None:
        """What changed since the last call: new rows, and the names of those that are gone."""
        if not self._changed_nodes and not self._changed_pods:
            return None
        nodes, pods = sorted(self._changed_nodes), sorted(self._changed_pods)
        self._changed_nodes.clear()
        self._changed_pods.clear()
        return {
            "nodes": [self.nodes[name] for name in nodes if name in self.nodes],
            "pods": [self.pods[key] for key in pods if key in self.pods],
            "goneNodes": [name for name in nodes if name not in self.nodes],
            "gonePods": ["/".join(key) for key in pods if key not in self.pods],
        }

    def columns(self) -> Document:
        """All rows as columns, with repeated values once, so that a large cluster is a small document."""
        nodes, pods = list(self.nodes.values()), list(self.pods.values())
        place = {row.name: i for i, row in enumerate(nodes)}
        keys = sorted({key for row in nodes for key in row.labels})
        return {
            "nodes": {
                "name": [row.name for row in nodes],
                "state": _dictionary(row.state for row in nodes),
                "unschedulable": [i for i, row in enumerate(nodes) if row.unschedulable],
                "taints": {str(i): row.taints for i, row in enumerate(nodes) if row.taints},
                "cpu": _dictionary(row.cpu for row in nodes),
                "memory": _dictionary(row.memory for row in nodes),
                "pods": _dictionary(row.pods for row in nodes),
                "labels": {key: _dictionary(row.labels.get(key) for row in nodes) for key in keys},
            },
            "pods": {
                "name": [row.name for row in pods],
                "namespace": _dictionary(row.namespace for row in pods),
                "workload": _dictionary(row.workload for row in pods),
                "node": [place.get(row.node, -1) for row in pods],
                "strayNode": {str(i): r.node for i, r in enumerate(pods) if r.node and r.node not in place},
                "phase": _dictionary(row.phase for row in pods),
                "cpu": _dictionary(row.cpu for row in pods),
                "memory": _dictionary(row.memory for row in pods),
                "labels": _label_sets(row.labels for row in pods),
            },
        }


def _dictionary(values: Iterable[object]) -> Document:
    """A column as a list of its distinct values, and an index into it for every row."""
    number: dict[object, int] = {}
    rows = [number.setdefault(value, len(number)) for value in values]
    return {"values": list(number), "rows": rows}


def _label_sets(rows: Iterable[Mapping[str, str]]) -> Document:
    """The same for labels: pods of a workload share one set."""
    found = _dictionary(frozenset(labels.items()) for labels in rows)
    return {**found, "values": [dict(each) for each in found["values"]]}
