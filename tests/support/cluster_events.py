"""Things that happen to an engine's cluster, with the records a watcher would make of them."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
from hypothesis import strategies as st

from berth.engine.state.cluster import Cluster as EngineCluster
from berth.engine.state.cluster_events import (
    ClusterEvent,
    NamespaceUpdated,
    NodeAdded,
    NodeDeleted,
    OwnersChanged,
    PodAdded,
    PodDeleted,
    node_change,
)
from berth.kube.defaults import created, default_namespace, default_node
from berth.kube.objects import Node, Pod, Service, Taint, TopologySpreadConstraint
from berth.kube.pods import is_finished, is_terminating
from tests.reference import Args
from tests.support import changes
from tests.support.builders import HOSTNAME, ZONE, PodBuilder, make_node, make_pod
from tests.support.cluster import Cluster, key_of
from tests.support.generated import strategies


@dataclass(frozen=True)
class Terminate:
    key: str


@dataclass(frozen=True)
class SetService:
    service: Service


ClusterChange = changes.Change | Terminate | SetService


def _apply(cluster: Cluster, change: ClusterChange) -> Cluster:
    match change:
        case Terminate(key):
            pods = tuple(_terminating(pod) if key_of(pod) == key else pod for pod in cluster.pods)
            return replace(cluster, pods=pods)
        case SetService(service):
            others = (s for s in cluster.services if s.metadata.name != service.metadata.name)
            return replace(cluster, services=(*others, service))
    return changes.apply(cluster, change)


def _terminating(pod: Pod) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    return msgspec.structs.replace(pod, metadata=metadata)


# --- strategies: tight clusters and pods with a rule or two, so that verdicts change often ----------------

_ZONES = ("z1", "z2", "z3")
_WANTS: tuple[Callable[[PodBuilder], PodBuilder], ...] = (
    lambda pod: pod.requests(cpu="1"),
    lambda pod: pod.requests(cpu="2"),
    lambda pod: pod.host_port(80),
    lambda pod: pod.host_port(80, ip="10.0.0.1"),
    lambda pod: pod.node_selector(disk="ssd"),
    lambda pod: pod.node_affinity(disk="ssd"),
    lambda pod: pod.tolerates("dedicated"),
    lambda pod: pod.anti_affinity_to(app="web", topology=HOSTNAME),
    lambda pod: pod.anti_affinity_to(app="web", topology=ZONE),
    lambda pod: pod.anti_affinity_to(app="db", topology=ZONE, namespace_selector={"env": "dev"}),
    lambda pod: pod.affinity_to(app="web", topology=ZONE),
    lambda pod: pod.affinity_to(app="db", topology=HOSTNAME),
    lambda pod: pod.affinity_to(app="db", topology=ZONE, namespace_selector={"env": "dev"}),
    lambda pod: pod.spread(ZONE, app="web"),
    lambda pod: pod.spread(ZONE, app="web", min_domains=2),
    lambda pod: pod.spread(HOSTNAME, app="db"),
    lambda pod: pod.spread(ZONE, app="web", node_taints_policy="Honor", node_affinity_policy="Ignore"),
)


@st.composite
def pods(draw: st.DrawFn, name: str) -> Pod:
    pod = make_pod(name).labels(app=draw(st.sampled_from(("web", "db"))))
    if draw(st.integers(1, 6)) == 1:
        pod = pod.namespace("team-a")
    for want in draw(st.lists(st.sampled_from(_WANTS), min_size=1, max_size=3)):
        pod = want(pod)
    return pod.build()


@st.composite
def _node_labels(draw: st.DrawFn, name: str) -> dict[str, str]:
    labels = {HOSTNAME: name, ZONE: draw(st.sampled_from(_ZONES)), "disk": "ssd"}
    missing = draw(st.sampled_from((None, None, None, "disk", ZONE)))
    return {key: value for key, value in labels.items() if key != missing}


@st.composite
def _nodes_named(draw: st.DrawFn, name: str) -> Node:
    node = make_node(name).labels(draw(_node_labels(name)))
    node = node.capacity(cpu=draw(st.sampled_from(("1", "2"))), pods=draw(st.sampled_from(("2", "4"))))
    oddity = draw(st.integers(1, 8))
    if oddity == 1:
        return node.unschedulable().build()
    return (node.taint("dedicated") if oddity == 2 else node).build()


def _next(cluster: Cluster, left: list[Node], fresh: str) -> st.SearchStrategy[ClusterChange]:
    """Something that may happen to this cluster."""
    options: list[st.SearchStrategy[ClusterChange]] = [
        st.builds(changes.AddNode, st.sampled_from(left) if left else _nodes_named(fresh)),
        st.builds(changes.RelabelNamespace, st.just("team-a"), st.sampled_from(({}, {"env": "dev"}))),
        st.builds(SetService, strategies.services("s0")),
    ]
    if cluster.nodes:
        name = st.sampled_from([node.metadata.name or "" for node in cluster.nodes])
        taints = st.sampled_from(((), (), (Taint(key="dedicated", effect="NoSchedule"),)))
        sizes = st.sampled_from(
            ({"cpu": "1", "memory": "8Gi", "pods": "4"}, {"cpu": "4", "memory": "8Gi", "pods": "4"})
        )
        options += [
            st.builds(changes.AddPod, st.builds(changes.bound, pods(fresh), name)),
            st.builds(changes.RemoveNode, name),
            name.flatmap(lambda name: st.builds(changes.RelabelNode, st.just(name), _node_labels(name))),
            st.builds(changes.TaintNode, name, taints, st.sampled_from((False, False, True))),
            st.builds(changes.ResizeNode, name, sizes),
        ]
    if cluster.pods:
        key = st.sampled_from([key_of(pod) for pod in cluster.pods])
        relabelled = st.sampled_from(({"app": "web"}, {"app": "db"}, {}))
        options += [st.builds(changes.RemovePod, key)] * 3
        options += [st.builds(changes.RelabelPod, key, relabelled), st.builds(Terminate, key)]
    return st.one_of(options)


@st.composite
def histories(draw: st.DrawFn, *, most: int = 8) -> tuple[Cluster, tuple[ClusterChange, ...]]:
    """A cluster in which little fits, and what happens to it; nodes that left may return with their pods."""
    names = [f"n{i}" for i in range(draw(st.integers(1, 3)))]
    nodes = tuple(draw(_nodes_named(name)) for name in names)
    running = [
        draw(st.builds(changes.bound, pods(f"p{i}"), st.sampled_from(names)))
        for i in range(draw(st.integers(1, 6)))
    ]
    hard = TopologySpreadConstraint(max_skew=1, topology_key=ZONE, when_unsatisfiable="DoNotSchedule")
    args = draw(st.sampled_from((Args(), Args(default_constraints=(hard,), defaulting_type="List"))))
    start = cluster = Cluster(nodes=nodes, pods=tuple(running), args=args)
    happened: list[ClusterChange] = []
    left: list[Node] = []
    for step in range(draw(st.integers(1, most))):
        change = draw(_next(cluster, left, f"new{step}"))
        after = _apply(cluster, change)
        present = {node.metadata.name for node in after.nodes}
        left = [node for node in (*left, *cluster.nodes) if node.metadata.name not in present]
        cluster = after
        happened.append(change)
    return start, tuple(happened)


# --- the engine follows ---------------------------------------------------------------------------------


def follow(
    engine: EngineCluster, before: Cluster, change: ClusterChange
) -> tuple[Cluster, list[ClusterEvent]]:
    """Apply what happened to the engine; returns the cluster afterwards and the records of it."""
    after = _apply(before, change)
    records: list[ClusterEvent] = []
    for name, told in _nodes(engine, before, after).items():
        if (record := told(name)) is not None:
            records.append(record)
    if before.namespaces != after.namespaces:
        for namespace in after.namespaces:
            engine.set_namespace(default_namespace(namespace))
        records.append(NamespaceUpdated())
    if before.services != after.services:
        for service in after.services:
            engine.set_owner(service)
        records.append(OwnersChanged())
    return after, records + _pods(engine, before, after)


def _nodes(
    engine: EngineCluster, before: Cluster, after: Cluster
) -> dict[str, Callable[[str], ClusterEvent | None]]:
    """What to do about each node that is different."""
    old = {node.metadata.name or "": default_node(node) for node in before.nodes}
    new = {node.metadata.name or "": default_node(node) for node in after.nodes}

    def leave(name: str) -> ClusterEvent:
        slot = engine.nodes.slot_of[name]
        engine.remove_node(name)
        return NodeDeleted(slot, old[name])

    def come(name: str) -> ClusterEvent:
        return NodeAdded(engine.add_node(new[name]))

    def update(name: str) -> ClusterEvent | None:
        slot = engine.add_node(new[name])
        return node_change(slot, old[name], new[name])

    different = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
    return {
        name: update if name in old and name in new else leave if name in old else come for name in different
    }


def _pods(engine: EngineCluster, before: Cluster, after: Cluster) -> list[ClusterEvent]:
    old = {key_of(p): p for p in before.pods if not is_finished(p)}
    new = {key_of(p): p for p in after.pods if not is_finished(p)}
    records: list[ClusterEvent] = []
    for key in old.keys() | new.keys():
        if old.get(key) == new.get(key):
            continue
        if key in old:
            pod_class, slot = engine.class_of(created(old[key])), _slot(engine, old[key])
            engine.remove_pod(key)
            records.append(PodDeleted(pod_class, slot, terminating=is_terminating(old[key])))
        if key in new:
            engine.add_pod(created(new[key]))
            records.append(PodAdded(engine.class_of(created(new[key])), _slot(engine, new[key])))
    return records


def _slot(engine: EngineCluster, pod: Pod) -> int:
    return engine.nodes.slot_of.get(pod.spec.node_name or "", -1)
