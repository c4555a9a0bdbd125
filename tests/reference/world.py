"""A cluster as the scheduler sees it: objects after the API server's defaulting, finished pods left out."""

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from berth.kube.defaults import created, default_namespace, default_node
from berth.kube.objects import (
    CSIDriver,
    CSINode,
    Labels,
    Namespace,
    Node,
    NodeAffinity,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    ReplicationController,
    Service,
    StorageClass,
    TopologySpreadConstraint,
    VolumeAttachment,
    Workload,
)
from berth.kube.versions import NEWEST, KubernetesVersion

StorageObject = (
    CSIDriver | CSINode | StorageClass | PersistentVolume | PersistentVolumeClaim | VolumeAttachment
)
KubeObject = Node | Pod | Namespace | Service | Workload | ReplicationController


@dataclass(frozen=True, kw_only=True)
class Args:
    """The scheduler's settings; the defaults are upstream's."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False
    added_affinity: NodeAffinity | None = None
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"
    version: KubernetesVersion = NEWEST
    exact_namespace_selectors: bool = False  # True: without upstream's mistake with negative selectors
    daemon_namespaces: tuple[str, ...] = ()  # their pods are never matched by required anti-affinity
    extra_plugins: tuple[str, ...] = ()  # those of the rules that are not always asked
    not_filtering: tuple[str, ...] = ()
    fit_strategy: str = "LeastAllocated"
    fit_shape: tuple[tuple[int, int], ...] = ()  # utilization in percent, score from 0 to 10
    fit_resources: tuple[tuple[str, int], ...] = (("cpu", 1), ("memory", 1))
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    balanced_resources: tuple[str, ...] = ("cpu", "memory")


class World:
    def __init__(
        self,
        nodes: Iterable[Node] = (),
        pods: Iterable[Pod] = (),
        *,
        namespaces: Iterable[Namespace] = (),
        services: Iterable[Service] = (),
        replica_sets: Iterable[Workload] = (),
        stateful_sets: Iterable[Workload] = (),
        replication_controllers: Iterable[ReplicationController] = (),
        storage: Iterable[StorageObject] = (),
        args: Args | None = None,
    ) -> None:
        self.nodes = [default_node(node) for node in nodes]
        self.namespaces = [default_namespace(namespace) for namespace in namespaces]
        self.services = list(services)
        self.replica_sets = list(replica_sets)
        self.stateful_sets = list(stateful_sets)
        self.replication_controllers = list(replication_controllers)
        self.storage = list(storage)
        self.args = args or Args()
        self.pods: dict[str, list[Pod]] = {name_of(node): [] for node in self.nodes}  # by node name
        for pod in pods:
            if (pod.status is None or pod.status.phase not in ("Succeeded", "Failed")) and pod.spec.node_name:
                self.bind(pod, pod.spec.node_name)

    def bind(self, pod: Pod, node_name: str) -> None:
        """Let the pod run on the node; on a node that is not there it is not seen."""
        if node_name in self.pods:
            spec = msgspec.structs.replace(pod.spec, node_name=node_name)
            self.pods[node_name].append(self.admitted(msgspec.structs.replace(pod, spec=spec)))

    def admitted(self, pod: Pod) -> Pod:
        """The pod as the API server stores it."""
        return created(pod, self.args.version)

    def pods_on(self, node: Node) -> list[Pod]:
        return self.pods[name_of(node)]

    def running(self) -> list[tuple[Node, Pod]]:
        """Every pod that runs, with its node."""
        return [(node, pod) for node in self.nodes for pod in self.pods_on(node)]

    def namespace_labels(self, name: str) -> Labels:
        for namespace in self.namespaces:
            if name_of(namespace) == name:
                return labels_of(namespace)
        return {}


def name_of(thing: KubeObject) -> str:
    return thing.metadata.name or ""


def namespace_of(thing: Pod | Service | Workload | ReplicationController) -> str:
    return thing.metadata.namespace or "default"


def labels_of(thing: Node | Pod | Namespace) -> Labels:
    return thing.metadata.labels or {}
