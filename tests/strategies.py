"""Hypothesis strategies for whole small clusters, pending pods and what may happen to them.

Few label keys, few values and few namespaces, so that terms and constraints find something to match.
Everything generated is valid for the API server.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from hypothesis import strategies as st

from berth.kube.objects import (
    Affinity,
    Container,
    ContainerImage,
    ContainerPort,
    Labels,
    LabelSelector,
    LabelSelectorRequirement,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    NodeSpec,
    NodeStatus,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    ResourceList,
    ResourceRequirements,
    Service,
    ServiceSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.builders import (
    HOSTNAME,
    ZONE,
    make_namespace,
    make_replica_set,
    make_replication_controller,
    make_stateful_set,
)
from tests.changes import (
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
from tests.cluster import Cluster, key_of
from tests.reference import Args

Value = TypeVar("Value")

RACK = "rack"
TOPOLOGY_KEYS = (ZONE, RACK, HOSTNAME)
NAMESPACES = ("default", "team-a", "team-b")
POD_LABELS: dict[str, tuple[str, ...]] = {"app": ("web", "db"), "tier": ("front", "back")}
NODE_LABELS: dict[str, tuple[str, ...]] = {
    "disk": ("ssd", "hdd"),
    "gen": ("1", "7", "x"),
    ZONE: ("z1", "z2", "z3"),
}
NAMESPACE_LABELS: dict[str, tuple[str, ...]] = {"env": ("dev", "prod"), "restricted": ("yes",)}
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
IMAGES = ("img:1", "img:2")
OWNERS = (
    OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs-web", uid="1", controller=True),
    OwnerReference(api_version="apps/v1", kind="StatefulSet", name="sts-db", uid="2", controller=True),
    OwnerReference(api_version="v1", kind="ReplicationController", name="rc-web", uid="3", controller=True),
    OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs-gone", uid="4", controller=True),
    OwnerReference(api_version="batch/v1", kind="Job", name="job", uid="5", controller=True),
)


def rarely(strategy: st.SearchStrategy[Value]) -> st.SearchStrategy[Value | None]:
    """Mostly nothing."""
    return st.one_of(st.none(), st.none(), st.none(), strategy)


def some(strategy: st.SearchStrategy[Value], most: int = 2) -> st.SearchStrategy[list[Value] | None]:
    """A short list, or none at all."""
    return st.one_of(st.none(), st.none(), st.lists(strategy, min_size=1, max_size=most))


def labels(known: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[Labels]:
    return st.fixed_dictionaries({}, optional={key: st.sampled_from(values) for key, values in known.items()})


# --- selectors --------------------------------------------------------------------


@st.composite
def requirements(draw: st.DrawFn, known: Mapping[str, tuple[str, ...]]) -> LabelSelectorRequirement:
    key = draw(st.sampled_from(sorted(known)))
    operator = draw(st.sampled_from(("In", "In", "NotIn", "Exists", "DoesNotExist")))
    values = None
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from(known[key]), min_size=1, max_size=2, unique=True))
    return LabelSelectorRequirement(key=key, operator=operator, values=values)


def selectors(known: Mapping[str, tuple[str, ...]]) -> st.SearchStrategy[LabelSelector]:
    return st.one_of(
        st.builds(LabelSelector, match_labels=labels(known)),
        st.builds(LabelSelector, match_expressions=st.lists(requirements(known), min_size=1, max_size=2)),
    )


POD_SELECTORS = selectors(POD_LABELS)


@st.composite
def node_requirements(draw: st.DrawFn, *, sound: bool = False) -> NodeSelectorRequirement:
    """Unless it is to be sound, the operand of Gt and Lt may be no number: valid, yet an error later."""
    key = draw(st.sampled_from(sorted(NODE_LABELS)))
    operator = draw(st.sampled_from(("In", "In", "NotIn", "Exists", "DoesNotExist")))
    if key == "gen":
        operator = draw(st.sampled_from(("In", "Gt", "Lt")))
    values = None
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from(NODE_LABELS[key]), min_size=1, max_size=2, unique=True))
    elif operator in ("Gt", "Lt"):
        operands = ("0", "3", "007", "-1") if sound else ("0", "3", "007", "-1", "abc")
        values = [draw(st.sampled_from(operands))]
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def field_requirements() -> st.SearchStrategy[NodeSelectorRequirement]:
    return st.builds(
        NodeSelectorRequirement,
        key=st.just("metadata.name"),
        operator=st.sampled_from(("In", "NotIn")),
        values=st.sampled_from(("n0", "n1", "n2")).map(lambda name: [name]),
    )


def node_terms(*, sound: bool = False) -> st.SearchStrategy[NodeSelectorTerm]:
    expressions = st.lists(node_requirements(sound=sound), min_size=1, max_size=2)
    return st.one_of(
        st.builds(NodeSelectorTerm, match_expressions=expressions),
        st.builds(
            NodeSelectorTerm, match_expressions=expressions, match_fields=some(field_requirements(), 1)
        ),
        st.builds(NodeSelectorTerm, match_fields=st.lists(field_requirements(), min_size=1, max_size=2)),
        st.just(NodeSelectorTerm()),
    )


def node_affinities(*, sound: bool = False) -> st.SearchStrategy[NodeAffinity]:
    terms = node_terms(sound=sound)
    required = st.builds(NodeSelector, node_selector_terms=st.lists(terms, min_size=1, max_size=2))
    preferred = st.builds(PreferredSchedulingTerm, weight=st.integers(1, 100), preference=terms)
    return st.builds(
        NodeAffinity,
        required_during_scheduling_required_during_execution=rarely(required),
        required_during_scheduling_ignored_during_execution=rarely(required),
        preferred_during_scheduling_ignored_during_execution=some(preferred),
    )


# --- terms and constraints -----------------------------------------------------------


def match_label_keys() -> st.SearchStrategy[list[str] | None]:
    """A key no generated selector mentions, since such a pair would be invalid."""
    return rarely(st.just(["version"]))


def pod_terms() -> st.SearchStrategy[PodAffinityTerm]:
    topology = st.sampled_from(TOPOLOGY_KEYS)
    namespaces = rarely(st.lists(st.sampled_from(NAMESPACES), max_size=2, unique=True))
    selector = rarely(selectors(NAMESPACE_LABELS))
    full = st.builds(
        PodAffinityTerm,
        label_selector=POD_SELECTORS,
        topology_key=topology,
        namespaces=namespaces,
        namespace_selector=selector,
        match_label_keys=match_label_keys(),
    )
    without_selector = st.builds(PodAffinityTerm, topology_key=topology, namespaces=namespaces)
    return st.one_of(full, full, full, full, without_selector)


def pod_affinities() -> st.SearchStrategy[PodAffinity]:
    preferred = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=pod_terms())
    return st.builds(
        PodAffinity,
        required_during_scheduling_required_during_execution=some(pod_terms(), 1),
        required_during_scheduling_ignored_during_execution=some(pod_terms()),
        preferred_during_scheduling_ignored_during_execution=some(preferred),
    )


def affinities() -> st.SearchStrategy[Affinity]:
    return st.builds(
        Affinity,
        node_affinity=rarely(node_affinities()),
        pod_affinity=st.none() | pod_affinities(),
        pod_anti_affinity=st.none() | pod_affinities(),
    )


@st.composite
def constraints(draw: st.DrawFn, *, default: bool = False) -> TopologySpreadConstraint:
    """A spread constraint; one of the scheduler's defaults has neither selector nor policies."""
    hard = draw(st.booleans())
    constraint = TopologySpreadConstraint(
        max_skew=draw(st.integers(1, 3)),
        topology_key=draw(st.sampled_from(TOPOLOGY_KEYS)),
        when_unsatisfiable="DoNotSchedule" if hard else "ScheduleAnyway",
    )
    if default:
        return constraint
    policies = rarely(st.sampled_from(("Honor", "Ignore")))
    return msgspec.structs.replace(
        constraint,
        label_selector=draw(POD_SELECTORS),
        min_domains=draw(rarely(st.integers(1, 4))) if hard else None,
        node_affinity_policy=draw(policies),
        node_taints_policy=draw(policies),
        match_label_keys=draw(match_label_keys()),
    )


def spread_constraints(*, default: bool = False) -> st.SearchStrategy[list[TopologySpreadConstraint]]:
    """Any pair of topology key and reaction at most once, as validation demands."""
    return st.lists(
        constraints(default=default),
        max_size=3,
        unique_by=lambda c: (c.topology_key, c.when_unsatisfiable),
    )


def tolerations() -> st.SearchStrategy[Toleration]:
    equal = st.builds(
        Toleration,
        key=st.just("dedicated"),
        operator=st.sampled_from((None, "Equal")),
        value=st.sampled_from(("x", "y")),
        effect=st.none() | st.sampled_from(EFFECTS),
    )
    exists = st.builds(
        Toleration,
        key=st.sampled_from(("dedicated", "spare", "node.kubernetes.io/unschedulable")),
        operator=st.just("Exists"),
        effect=st.none() | st.sampled_from(EFFECTS),
    )
    return st.one_of(equal, exists, st.just(Toleration(operator="Exists")))


# --- pods ---------------------------------------------------------------------------


def resources() -> st.SearchStrategy[ResourceRequirements]:
    requests: st.SearchStrategy[ResourceList] = st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(("100m", "0.25", 1, "1500m")),
            "memory": st.sampled_from(("64Mi", "500M", "1Gi", "1.5Gi", 0)),
        },
    )
    gpus: st.SearchStrategy[ResourceList] = st.sampled_from(
        ({"example.com/gpu": 1}, {"example.com/gpu": "2"})
    )
    return st.builds(ResourceRequirements, requests=requests, limits=rarely(gpus))


def host_ports() -> st.SearchStrategy[ContainerPort]:
    return st.builds(
        lambda port, ip, protocol: ContainerPort(
            container_port=port, host_port=port, host_ip=ip, protocol=protocol
        ),
        st.sampled_from((80, 443)),
        st.sampled_from((None, "10.0.0.1", "10.0.0.2")),
        st.sampled_from((None, "UDP")),
    )


def containers(name: str) -> st.SearchStrategy[Container]:
    return st.builds(
        Container,
        name=st.just(name),
        image=st.sampled_from(IMAGES),
        resources=st.none() | resources(),
        ports=rarely(st.lists(host_ports(), min_size=1, max_size=1)),
    )


def init_containers() -> st.SearchStrategy[Container]:
    policies = st.sampled_from((None, "Always"))
    return st.builds(
        Container,
        name=st.just("init"),
        image=st.just("img:1"),
        resources=resources(),
        restart_policy=policies,
    )


def pod_specs() -> st.SearchStrategy[PodSpec]:
    return st.builds(
        PodSpec,
        containers=st.tuples(containers("c")).map(list)
        | st.tuples(containers("c"), containers("d")).map(list),
        init_containers=rarely(st.lists(init_containers(), min_size=1, max_size=1)),
        node_selector=rarely(labels({"disk": ("ssd", "hdd")})),
        affinity=st.none() | affinities(),
        tolerations=some(tolerations()),
        topology_spread_constraints=st.none() | spread_constraints(),
    )


@st.composite
def pending_pods(draw: st.DrawFn, name: str = "pending") -> Pod:
    pod_labels = draw(labels({**POD_LABELS, "version": ("v1", "v2")}))
    metadata = ObjectMeta(
        name=name,
        namespace=draw(st.sampled_from(NAMESPACES)),
        uid=f"uid-{name}",
        labels=pod_labels or None,
        owner_references=draw(rarely(st.sampled_from(OWNERS).map(lambda owner: [owner]))),
    )
    return Pod(metadata=metadata, spec=draw(pod_specs()))


@st.composite
def running_pods(draw: st.DrawFn, name: str, node_names: tuple[str, ...]) -> Pod:
    """Sometimes on a node that is not there, terminating, or done."""
    pod = draw(pending_pods(name))
    spec = msgspec.structs.replace(
        pod.spec, node_name=draw(st.sampled_from((*node_names, *node_names, "gone")))
    )
    deleted = draw(rarely(st.just("2026-01-01T00:00:00Z")))
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp=deleted)
    phase = draw(st.sampled_from(("Running", "Running", "Running", "Pending", "Succeeded")))
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus(phase=phase))


# --- nodes and the rest ----------------------------------------------------------------


def node_labels(name: str) -> st.SearchStrategy[Labels]:
    """Hostnames are usually the node's own, sometimes shared and sometimes missing."""
    known = {**NODE_LABELS, RACK: ("r1", "r2"), HOSTNAME: (name, name, name, "shared")}
    mostly = {key: st.sampled_from(known[key]) for key in (ZONE, HOSTNAME)}
    return st.one_of(
        labels(known),
        st.fixed_dictionaries(mostly, optional={RACK: st.sampled_from(known[RACK])}),
        st.fixed_dictionaries(mostly, optional={key: st.sampled_from(known[key]) for key in ("disk", "gen")}),
    )


def capacities() -> st.SearchStrategy[ResourceList]:
    return st.fixed_dictionaries(
        {
            "cpu": st.sampled_from(("2", "4", "7500m")),
            "memory": st.sampled_from(("4Gi", "8G")),
            "pods": st.sampled_from(("2", "110", 110)),
        },
        optional={"example.com/gpu": st.sampled_from((1, "4"))},
    )


def taints() -> st.SearchStrategy[Taint]:
    return st.builds(
        Taint,
        key=st.sampled_from(("dedicated", "spare")),
        value=st.sampled_from((None, "x", "y")),
        effect=st.sampled_from(EFFECTS),
    )


def taint_lists() -> st.SearchStrategy[list[Taint]]:
    return st.lists(taints(), min_size=1, max_size=2, unique_by=lambda taint: (taint.key, taint.effect))


@st.composite
def nodes(draw: st.DrawFn, name: str) -> Node:
    images = draw(
        some(
            st.builds(
                ContainerImage,
                names=st.sampled_from(IMAGES).map(lambda image: [image]),
                size_bytes=st.sampled_from((50_000_000, 300_000_000)),
            ),
            1,
        )
    )
    return Node(
        metadata=ObjectMeta(name=name, labels=draw(node_labels(name)) or None),
        spec=NodeSpec(taints=draw(rarely(taint_lists())), unschedulable=draw(rarely(st.just(True)))),
        status=NodeStatus(capacity=draw(capacities()), images=images),
    )


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
        image_locality=draw(st.booleans()),
    )


@st.composite
def clusters(draw: st.DrawFn, *, most_nodes: int = 6, most_pods: int = 10) -> Cluster:
    names = tuple(f"n{i}" for i in range(draw(st.integers(1, most_nodes))))
    known = draw(st.lists(st.sampled_from(NAMESPACES), min_size=1, unique=True))
    namespace = draw(st.sampled_from(NAMESPACES))
    return Cluster(
        nodes=tuple(draw(nodes(name)) for name in names),
        pods=tuple(draw(running_pods(f"p{i}", names)) for i in range(draw(st.integers(0, most_pods)))),
        namespaces=tuple(make_namespace(n).labels(draw(labels(NAMESPACE_LABELS))).build() for n in known),
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
        st.builds(
            RelabelNamespace,
            st.sampled_from(NAMESPACES),
            labels(NAMESPACE_LABELS),
        ),
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
