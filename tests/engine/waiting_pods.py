"""Pods that fit nowhere, and a cluster whose changes are made one at a time: which of them helps?"""

from dataclasses import dataclass

from berth.engine.placement.evaluation import fit_error
from berth.engine.placement.plan import plan_for
from berth.engine.placement.queueing_hints import can_help
from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NodeAdded,
    NodeDeleted,
    PodAdded,
    PodDeleted,
    node_change,
)
from berth.engine.state.pod_class import PodClass
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod
from berth.kube.pods import is_terminating
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod


class Waiting:
    """A pod that is tried again only when a change is said to help it."""

    def __init__(self, engine: EngineCluster, pod: Pod) -> None:
        self.engine, self.pod = engine, created(pod)
        self.fits = self.try_again()

    def try_again(self) -> bool:
        self.pod_class: PodClass = self.engine.class_of(self.pod, pinned=True)
        plan = plan_for(self.engine, self.pod_class)
        _, self.rules = fit_error(plan)
        self.fits = not plan.blocked().all()
        return self.fits

    def is_helped_by(self, *changes: ClusterEvent) -> bool:
        return any(can_help(self.engine, self.pod_class, self.rules, change) for change in changes)


@dataclass
class Watched:
    """A cluster whose changes are made and recorded one at a time."""

    engine: EngineCluster
    known: dict[str, Node]

    def came(self, node: NodeBuilder) -> ClusterEvent:
        built = default_node(node.build())
        self.known[built.metadata.name or ""] = built
        return NodeAdded(self.engine.add_node(built))

    def changed(self, node: NodeBuilder) -> ClusterEvent | None:
        built = default_node(node.build())
        name = built.metadata.name or ""
        old, self.known[name] = self.known[name], built
        return node_change(self.engine.add_node(built), old, built)

    def left(self, name: str) -> ClusterEvent:
        slot = self.engine.nodes.slot_of[name]
        self.engine.remove_node(name)
        return NodeDeleted(slot, self.known.pop(name))

    def pod_came(self, pod: PodBuilder) -> ClusterEvent:
        built = created(pod.build())
        self.engine.add_pod(built)
        return PodAdded(self.engine.class_of(built), self.engine.nodes.slot_of[built.spec.node_name or ""])

    def pod_left(self, pod: PodBuilder) -> ClusterEvent:
        built = created(pod.build())
        slot = self.engine.nodes.slot_of[built.spec.node_name or ""]
        self.engine.remove_pod(f"default/{built.metadata.name}")
        return PodDeleted(self.engine.class_of(built), slot, terminating=is_terminating(built))


def watched(*things: NodeBuilder | PodBuilder) -> Watched:
    found = Watched(EngineCluster(), {})
    for thing in things:
        if isinstance(thing, NodeBuilder):
            found.came(thing)
        else:
            found.pod_came(thing)
    return found


def stuck(cluster: Watched, pod: PodBuilder, *refused: str) -> Waiting:
    """The pod, which these rules and no others keep from every node."""
    waiting = Waiting(cluster.engine, pod.build())
    assert not waiting.fits
    assert waiting.rules == set(refused)
    return waiting


def small(name: str, zone: str = "a") -> NodeBuilder:
    return make_node(name).labels({HOSTNAME: name, ZONE: zone}).capacity(cpu="2")


def web(name: str) -> PodBuilder:
    return make_pod(name).labels(app="web")


BIG = web("big").requests(cpu="2")
