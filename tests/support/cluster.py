"""A whole cluster as plain, immutable data: what tests hand to the reference and to the engine alike."""

from dataclasses import dataclass, field

from berth.kube.objects import Namespace, Node, Pod, ReplicationController, Service, Workload
from tests.reference import Args, World


@dataclass(frozen=True, kw_only=True)
class Cluster:
    """Objects as their owners submit them; every pod names its node."""

    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    namespaces: tuple[Namespace, ...] = ()
    services: tuple[Service, ...] = ()
    replica_sets: tuple[Workload, ...] = ()
    stateful_sets: tuple[Workload, ...] = ()
    replication_controllers: tuple[ReplicationController, ...] = ()
    args: Args = field(default_factory=Args)

    def world(self) -> World:
        return World(
            self.nodes,
            self.pods,
            namespaces=self.namespaces,
            services=self.services,
            replica_sets=self.replica_sets,
            stateful_sets=self.stateful_sets,
            replication_controllers=self.replication_controllers,
            args=self.args,
        )


def key_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace or 'default'}/{pod.metadata.name}"
