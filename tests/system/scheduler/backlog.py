"""A backlog with rules on a cluster with room for all of it, and the proof that it was placed well."""

from __future__ import annotations

import msgspec

from berth.engine.execution.violations import placement_violations
from berth.engine.state.cluster import Cluster, pod_name
from berth.kube.defaults import created, default_node
from berth.kube.objects import Node, Pod
from tests.support.api.client import Json
from tests.support.builders import HOSTNAME, ZONE, NodeBuilder, PodBuilder, make_node, make_pod
from tests.support.worlds.cluster import CORE, ClusterWorld

NODES, PODS, ZONES, APPS = 60, 300, 6, 10


def nodes() -> list[NodeBuilder]:
    def node(number: int) -> NodeBuilder:
        name = f"node-{number:03d}"
        labels = {HOSTNAME: name, ZONE: f"zone-{number % ZONES}"}
        return make_node(name).labels(labels).capacity(cpu="1", memory="4Gi")

    return [node(number) for number in range(NODES)]


def pods() -> list[PodBuilder]:
    """Ten apps in turn, each with rules of its own kind, on nodes that take ten pods."""
    return [_pod(number) for number in range(PODS)]


def _pod(number: int) -> PodBuilder:
    app = f"app-{number % APPS}"
    pod = make_pod(f"{app}-{number}").labels(app=app).requests(cpu="100m", memory="64Mi")
    match number % APPS % 5:
        case 0:
            return pod.anti_affinity_to(app=app, topology=HOSTNAME)
        case 1:
            return pod.spread(ZONE, app=app)
        case 2:
            return pod.anti_affinity_to(app=app, topology=HOSTNAME).spread(ZONE, max_skew=2, app=app)
        case 3:
            return pod.prefers_anti_affinity_to(app=app, topology=HOSTNAME, weight=50)
        case _:
            return pod.affinity_to(app=app, topology=ZONE)


def prepare(world: ClusterWorld) -> None:
    world.nodes(*nodes())
    world.pods(*pods())


def unbound(world: ClusterWorld) -> list[str]:
    return [pod["metadata"]["name"] for pod in world.all_pods() if not pod["spec"].get("nodeName")]


def broken_rules(world: ClusterWorld, ignoring: frozenset[str] = frozenset()) -> dict[str, list[str]]:
    """Pod -> the hard rules it breaks where it is, room on the node among them."""
    cluster = Cluster()
    known = {item["metadata"]["name"] for item in world.get(f"{CORE}/nodes")["items"]}
    for item in world.get(f"{CORE}/nodes")["items"]:
        cluster.add_node(default_node(msgspec.convert(item, Node)))
    placed = [_decoded(item) for item in world.all_pods() if item["spec"].get("nodeName") in known]
    for pod in placed:
        cluster.add_pod(pod)
    found = placement_violations(cluster, [pod_name(pod) for pod in placed])
    rules = {name: list(dict.fromkeys(one.rule for one in broken)) for name, broken in found.items()}
    kept = {name: [rule for rule in broken if rule not in ignoring] for name, broken in rules.items()}
    return {name: broken for name, broken in kept.items() if broken}


def _decoded(item: Json) -> Pod:
    return created(msgspec.convert(item, Pod))
