"""What may happen to a cluster, as small records, and what the cluster is afterwards."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec

from berth.kube.objects import (
    Labels,
    Namespace,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodStatus,
    ResourceList,
    Taint,
)
from tests.reference import evaluate_pod
from tests.support.cluster import Cluster, key_of


@dataclass(frozen=True)
class AddPod:
    pod: Pod


@dataclass(frozen=True)
class RemovePod:
    key: str


@dataclass(frozen=True)
class RelabelPod:
    """New labels instead of the old ones, except for `version`, which matchLabelKeys may have copied."""

    key: str
    labels: Labels


@dataclass(frozen=True)
class AddNode:
    node: Node


@dataclass(frozen=True)
class RemoveNode:
    """Its pods stay behind, unseen until a node of that name comes back."""

    name: str


@dataclass(frozen=True)
class RelabelNode:
    name: str
    labels: Labels


@dataclass(frozen=True)
class TaintNode:
    """Taints instead of the old ones, and whether the node is cordoned."""

    name: str
    taints: tuple[Taint, ...]
    unschedulable: bool


@dataclass(frozen=True)
class ResizeNode:
    name: str
    capacity: ResourceList


@dataclass(frozen=True)
class RelabelNamespace:
    """New labels instead of the old ones; a namespace not known yet is created."""

    name: str
    labels: Labels


@dataclass(frozen=True)
class PlacePod:
    """Schedule a pending pod; it runs where the reference puts it, if anywhere."""

    pod: Pod


Change = (
    AddPod
    | RemovePod
    | RelabelPod
    | AddNode
    | RemoveNode
    | RelabelNode
    | TaintNode
    | ResizeNode
    | RelabelNamespace
    | PlacePod
)


def apply(cluster: Cluster, change: Change) -> Cluster:
    match change:
        case AddPod() | RemovePod() | RelabelPod() | PlacePod():
            return _apply_to_pods(cluster, change)
        case RelabelNamespace(name, labels):
            others = tuple(n for n in cluster.namespaces if n.metadata.name != name)
            changed = Namespace(metadata=ObjectMeta(name=name, labels=labels))
            return replace(cluster, namespaces=(*others, changed))
    return _apply_to_nodes(cluster, change)


def _apply_to_pods(cluster: Cluster, change: AddPod | RemovePod | RelabelPod | PlacePod) -> Cluster:
    match change:
        case AddPod(pod):
            return replace(cluster, pods=(*cluster.pods, pod))
        case RemovePod(key):
            return replace(cluster, pods=tuple(pod for pod in cluster.pods if key_of(pod) != key))
        case RelabelPod(key, labels):
            return replace(
                cluster,
                pods=tuple(_relabelled(pod, labels) if key_of(pod) == key else pod for pod in cluster.pods),
            )
    chosen = evaluate_pod(cluster.world(), change.pod).chosen
    if chosen is None:
        return cluster
    return replace(cluster, pods=(*cluster.pods, bound(change.pod, chosen)))


def _apply_to_nodes(
    cluster: Cluster, change: AddNode | RemoveNode | RelabelNode | TaintNode | ResizeNode
) -> Cluster:
    match change:
        case AddNode(node):
            return replace(cluster, nodes=(*cluster.nodes, node))
        case RemoveNode(name):
            return replace(cluster, nodes=tuple(n for n in cluster.nodes if n.metadata.name != name))
        case RelabelNode(name, labels):
            return _with_node(cluster, name, lambda node: _relabelled_node(node, labels))
        case TaintNode(name, taints, unschedulable):
            spec = NodeSpec(taints=list(taints) or None, unschedulable=unschedulable or None)
            return _with_node(cluster, name, lambda node: msgspec.structs.replace(node, spec=spec))
        case ResizeNode(name, capacity):
            return _with_node(cluster, name, lambda node: _resized(node, capacity))


def bound(pod: Pod, node_name: str) -> Pod:
    """The pod once it runs on the node."""
    spec = msgspec.structs.replace(pod.spec, node_name=node_name)
    return msgspec.structs.replace(pod, spec=spec, status=PodStatus(phase="Running"))


def _with_node(cluster: Cluster, name: str, change: Callable[[Node], Node]) -> Cluster:
    nodes = tuple(change(node) if node.metadata.name == name else node for node in cluster.nodes)
    return replace(cluster, nodes=nodes)


def _relabelled(pod: Pod, labels: Labels) -> Pod:
    kept = {key: value for key, value in (pod.metadata.labels or {}).items() if key == "version"}
    metadata = msgspec.structs.replace(pod.metadata, labels={**labels, **kept} or None)
    return msgspec.structs.replace(pod, metadata=metadata)


def _relabelled_node(node: Node, labels: Labels) -> Node:
    return msgspec.structs.replace(
        node, metadata=msgspec.structs.replace(node.metadata, labels=labels or None)
    )


def _resized(node: Node, capacity: ResourceList) -> Node:
    status = msgspec.structs.replace(node.status or NodeStatus(), capacity=capacity, allocatable=None)
    return msgspec.structs.replace(node, status=status)
