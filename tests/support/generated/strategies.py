"""Hypothesis strategies for whole small clusters and for what may happen to them.

Everything generated is valid for the API server;
:mod:`~tests.support.generated.pod_strategies` has the vocabulary.
"""

from functools import cache

from hypothesis import strategies as st

from berth.kube.objects import (
    ContainerImage,
    Labels,
    Node,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    ResourceList,
    Service,
    ServiceSpec,
    Taint,
)
from berth.kube.versions import VERSIONS
from tests.reference import Args
from tests.support.builders import (
    HOSTNAME,
    ZONE,
    make_namespace,
    make_replica_set,
    make_replication_controller,
    make_stateful_set,
)
from tests.support.changes import (
    AddNode,
    AddPod,
    Change,
    PlacePod,
    RelabelNamespace,
    RelabelNode,
    RelabelPod,
    RemoveNode,
    RemovePod,
    ResizeNode,
    TaintNode,
    apply,
)
from tests.support.cluster import Cluster, key_of
from tests.support.generated.pod_strategies import (
    EFFECTS,
    IMAGES,
    NAMESPACE_LABEL_SETS,
    NAMESPACES,
    NODE_LABELS,
    POD_LABELS,
    POD_SELECTORS,
    RACK,
    labels,
    node_affinities,
    pending_pods,
    rarely,
    running_pods,
    spread_constraints,
)

__all__ = ["changes", "clusters", "histories", "nodes", "pending_pods", "running_pods", "scheduler_args"]

# --- nodes and the rest ----------------------------------------------------------------

# Rules that are asked only if they are wanted, and about which these clusters have something to say.
EXTRA = ("ImageLocality", "NodeDeclaredFeatures")
RESTART_ALL = "RestartAllContainersOnContainerExits"


@cache
def node_labels(name: str) -> st.SearchStrategy[Labels]:
    """Hostnames are usually the node's own, sometimes shared and sometimes missing."""
    known = {**NODE_LABELS, RACK: ("r1", "r2"), HOSTNAME: (name, name, name, "shared")}
    mostly = {key: st.sampled_from(known[key]) for key in (ZONE, HOSTNAME)}
    return st.one_of(
        labels(known),
        st.fixed_dictionaries(mostly, optional={RACK: st.sampled_from(known[RACK])}),
        st.fixed_dictionaries(mostly, optional={key: st.sampled_from(known[key]) for key in ("disk", "gen")}),
    )


@cache
def capacities() -> st.SearchStrategy[ResourceList]:
    return st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(("2", "4", "7500m")),
            "memory": st.sampled_from(("4Gi", "8G")),
            "pods": st.sampled_from(("110", 110, "4")),
        },
        optional={"example.com/gpu": st.sampled_from((1, "4"))},
    )


@cache
def taints() -> st.SearchStrategy[Taint]:
    return st.builds(
        Taint,
        key=st.sampled_from(("dedicated", "spare")),
        value=st.sampled_from((None, "x", "y")),
        effect=st.sampled_from(EFFECTS),
    )


@cache
def taint_lists() -> st.SearchStrategy[list[Taint]]:
    return st.lists(taints(), min_size=1, max_size=2, unique_by=lambda taint: (taint.key, taint.effect))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    images = [
        ContainerImage(names=[image], size_bytes=size)
        for image, size in IMAGES.items()
        if draw(st.booleans())
    ]
    return Node(
        metadata=ObjectMeta(name=name, labels=draw(node_labels(name)) or None),
        spec=NodeSpec(
            taints=draw(rarely(taint_lists(), one_in=10)),
            unschedulable=draw(rarely(st.just(True), one_in=12)),
        ),
        status=NodeStatus(
            capacity=draw(capacities()),
            images=images or None,
            declared_features=draw(st.none() | st.just([RESTART_ALL, "Other"])),
        ),
    )


@cache
def services(name: str) -> st.SearchStrategy[Service]:
    metadata = st.builds(ObjectMeta, name=st.just(name), namespace=st.sampled_from(NAMESPACES))
    selector = st.builds(ServiceSpec, selector=st.none() | labels(POD_LABELS))
    return st.builds(Service, metadata=metadata, spec=selector)


@st.composite
def scheduler_args(draw: st.DrawFn) -> Args:
    defaulting = draw(st.sampled_from(("System", "List")))
    return Args(
        hard_pod_affinity_weight=draw(st.sampled_from((1, 1, 0, 50))),
        ignore_preferred_terms_of_existing_pods=bool(draw(rarely(st.just(True)))),
        added_affinity=draw(rarely(node_affinities(sound=True))),
        default_constraints=tuple(draw(spread_constraints(default=True))) if defaulting == "List" else (),
        defaulting_type=defaulting,
        exact_namespace_selectors=draw(st.booleans()),
        daemon_namespaces=draw(st.sampled_from(((), (), ("team-b",)))),
        version=draw(st.sampled_from(tuple(VERSIONS.values()))),
        extra_plugins=tuple(name for name in EXTRA if draw(st.booleans())),
    )


@st.composite
def clusters(draw: st.DrawFn, *, most_nodes: int = 8, most_pods: int = 12) -> Cluster:
    names = tuple(f"n{i}" for i in range(draw(st.integers(1, most_nodes))))
    known = draw(st.lists(st.sampled_from(NAMESPACES), min_size=1, unique=True))
    namespace = draw(st.sampled_from(NAMESPACES))
    return Cluster(
        nodes=tuple(draw(nodes(name)) for name in names),
        pods=tuple(draw(running_pods(f"p{i}", names)) for i in range(draw(st.integers(0, most_pods)))),
        namespaces=tuple(make_namespace(n).labels(draw(NAMESPACE_LABEL_SETS)).build() for n in known),
        services=tuple(draw(services(f"s{i}")) for i in range(draw(st.integers(0, 2)))),
        replica_sets=(make_replica_set("rs-web").namespace(namespace).selects(app="web").build(),),
        stateful_sets=(
            make_stateful_set("sts-db").namespace(namespace).selects(draw(POD_SELECTORS)).build(),
        ),
        replication_controllers=(
            make_replication_controller("rc-web").namespace(namespace).selects(app="web").build(),
        ),
        args=draw(scheduler_args()),
    )


# --- changes --------------------------------------------------------------------------


def next_change(cluster: Cluster, fresh: str) -> st.SearchStrategy[Change]:
    """Something that may happen to this cluster; new objects get the fresh name."""
    node_names = tuple(node.metadata.name or "" for node in cluster.nodes)
    options: list[st.SearchStrategy[Change]] = [
        st.builds(PlacePod, pending_pods(fresh)),
        st.builds(AddNode, nodes(fresh)),
        st.builds(RelabelNamespace, st.sampled_from(NAMESPACES), NAMESPACE_LABEL_SETS),
    ]
    if node_names:
        name = st.sampled_from(node_names)
        options += [
            st.builds(AddPod, running_pods(fresh, node_names)),
            st.builds(RemoveNode, name),
            name.flatmap(lambda name: st.builds(RelabelNode, st.just(name), node_labels(name))),
            st.builds(TaintNode, name, rarely(taint_lists().map(tuple)).map(_or_empty), st.booleans()),
            st.builds(ResizeNode, name, capacities()),
        ]
    if cluster.pods:
        key = st.sampled_from([key_of(pod) for pod in cluster.pods])
        options += [st.builds(RemovePod, key), st.builds(RelabelPod, key, labels(POD_LABELS))]
    return st.one_of(options)


def _or_empty(found: tuple[Taint, ...] | None) -> tuple[Taint, ...]:
    return found or ()


@st.composite
def changes(draw: st.DrawFn, cluster: Cluster, *, most: int = 8) -> tuple[Change, ...]:
    """What happens to the cluster, one thing after another; each fits the state the earlier ones left."""
    happened: list[Change] = []
    for step in range(draw(st.integers(1, most))):
        change = draw(next_change(cluster, f"new{step}"))
        cluster = apply(cluster, change)
        happened.append(change)
    return tuple(happened)


@st.composite
def histories(draw: st.DrawFn, *, most: int = 8) -> tuple[Cluster, tuple[Change, ...]]:
    cluster = draw(clusters())
    return cluster, draw(changes(cluster, most=most))
