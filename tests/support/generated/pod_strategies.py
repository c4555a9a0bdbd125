"""Hypothesis strategies for pods: selectors, terms, constraints and what else they carry.

Few label keys, few values and few namespaces, so that terms and constraints find something to match.
Everything generated is valid for the API server.
"""

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

import msgspec
from hypothesis import strategies as st

from berth.kube.objects import (
    Affinity,
    Condition,
    Container,
    ContainerPort,
    ContainerRestartRule,
    ContainerStatus,
    Labels,
    LabelSelector,
    LabelSelectorRequirement,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
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
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.support.builders import HOSTNAME, ZONE

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
IMAGES = {"img:1": 50_000_000, "img:2": 300_000_000}
OWNERS = (
    OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs-web", uid="1", controller=True),
    OwnerReference(api_version="apps/v1", kind="StatefulSet", name="sts-db", uid="2", controller=True),
    OwnerReference(api_version="v1", kind="ReplicationController", name="rc-web", uid="3", controller=True),
    OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="rs-gone", uid="4", controller=True),
    OwnerReference(api_version="batch/v1", kind="Job", name="job", uid="5", controller=True),
)


def rarely(strategy: st.SearchStrategy[Value], *, one_in: int = 6) -> st.SearchStrategy[Value | None]:
    """Mostly nothing."""
    return st.integers(1, one_in).flatmap(lambda chance: strategy if chance == one_in else st.none())


def some(strategy: st.SearchStrategy[Value], most: int = 2) -> st.SearchStrategy[list[Value] | None]:
    """A short list, or none at all."""
    return st.one_of(st.none(), st.lists(strategy, min_size=1, max_size=most))


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


# A label that tells replicas apart; the engine hides it from classes until a selector mentions it.
INDEX = {"apps.kubernetes.io/pod-index": ("0", "1")}
POD_SELECTORS = st.one_of(*[selectors(POD_LABELS)] * 5, selectors(POD_LABELS | INDEX))
POD_LABEL_SETS = labels({**POD_LABELS, **INDEX, "version": ("v1", "v2")})
POD_NAMESPACES = st.sampled_from(("default", "default", "default", "team-a", "team-b"))
POLICIES = rarely(st.sampled_from(("Honor", "Ignore")))
NAMESPACE_LABEL_SETS = labels(NAMESPACE_LABELS)


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
        operands = ("0", "3", "007") if sound else ("0", "3", "007", "abc")
        values = [draw(st.sampled_from(operands))]
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


@cache
def field_requirements() -> st.SearchStrategy[NodeSelectorRequirement]:
    return st.builds(
        NodeSelectorRequirement,
        key=st.just("metadata.name"),
        operator=st.sampled_from(("In", "NotIn")),
        values=st.sampled_from(("n0", "n1", "n2")).map(lambda name: [name]),
    )


@cache
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


@cache
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


@cache
def match_label_keys() -> st.SearchStrategy[list[str] | None]:
    """A key no generated selector mentions, since such a pair would be invalid."""
    return rarely(st.just(["version"]))


@cache
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


@cache
def pod_affinities() -> st.SearchStrategy[PodAffinity]:
    preferred = st.builds(WeightedPodAffinityTerm, weight=st.integers(1, 100), pod_affinity_term=pod_terms())
    return st.builds(
        PodAffinity,
        required_during_scheduling_required_during_execution=some(pod_terms(), 1),
        required_during_scheduling_ignored_during_execution=some(pod_terms()),
        preferred_during_scheduling_ignored_during_execution=some(preferred),
    )


@cache
def affinities() -> st.SearchStrategy[Affinity]:
    return st.builds(
        Affinity,
        node_affinity=st.none() | node_affinities(),
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
    return msgspec.structs.replace(
        constraint,
        label_selector=draw(POD_SELECTORS),
        min_domains=draw(rarely(st.integers(1, 4))) if hard else None,
        node_affinity_policy=draw(POLICIES),
        node_taints_policy=draw(POLICIES),
        match_label_keys=draw(match_label_keys()),
    )


@cache
def spread_constraints(*, default: bool = False) -> st.SearchStrategy[list[TopologySpreadConstraint]]:
    """Any pair of topology key and reaction at most once, as validation demands."""
    return st.lists(
        constraints(default=default),
        min_size=1,
        max_size=2,
        unique_by=lambda c: (c.topology_key, c.when_unsatisfiable),
    )


@cache
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


@cache
def amounts() -> st.SearchStrategy[ResourceList]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(("100m", "0.25", 1, "1500m", "100500u")),
            "memory": st.sampled_from(("64Mi", "500M", "1Gi", "1.5Gi", 0)),
        },
    )


@cache
def resources() -> st.SearchStrategy[ResourceRequirements]:
    gpus: st.SearchStrategy[ResourceList] = st.sampled_from(
        ({"example.com/gpu": 1}, {"example.com/gpu": "2"})
    )
    return st.builds(ResourceRequirements, requests=amounts(), limits=rarely(gpus))


@cache
def whole_pod_resources() -> st.SearchStrategy[ResourceRequirements]:
    """More than any pod of these asks for in its containers."""
    return st.sampled_from(
        [ResourceRequirements(requests={"cpu": "8"}), ResourceRequirements(requests={"memory": "16Gi"})]
    )


@cache
def host_ports() -> st.SearchStrategy[ContainerPort]:
    return st.builds(
        lambda port, ip, protocol: ContainerPort(
            container_port=port, host_port=port, host_ip=ip, protocol=protocol
        ),
        st.sampled_from((80, 80, 443)),
        st.sampled_from((None, None, "10.0.0.1", "10.0.0.2")),
        st.sampled_from((None, "UDP")),
    )


@cache
def containers(name: str) -> st.SearchStrategy[Container]:
    return st.builds(
        Container,
        name=st.just(name),
        image=st.sampled_from(sorted(IMAGES)),
        resources=st.none() | resources(),
        ports=rarely(st.lists(host_ports(), min_size=1, max_size=1), one_in=3) if name == "c" else st.none(),
        restart_policy_rules=rarely(st.just([ContainerRestartRule(action="RestartAllContainers")])),
    )


@cache
def init_containers() -> st.SearchStrategy[Container]:
    policies = st.sampled_from((None, "Always"))
    return st.builds(
        Container,
        name=st.just("init"),
        image=st.just("img:1"),
        resources=resources(),
        restart_policy=policies,
    )


@cache
def pod_specs() -> st.SearchStrategy[PodSpec]:
    return st.builds(
        PodSpec,
        containers=st.tuples(containers("c")).map(list)
        | st.tuples(containers("c"), containers("d")).map(list),
        init_containers=rarely(st.lists(init_containers(), min_size=1, max_size=1)),
        node_selector=rarely(labels({"disk": ("ssd", "hdd")})),
        affinity=st.one_of(affinities(), affinities(), st.none()),
        tolerations=some(tolerations()),
        topology_spread_constraints=st.one_of(spread_constraints(), spread_constraints(), st.none()),
        resources=rarely(whole_pod_resources(), one_in=10),
    )


@st.composite
def pending_pods(draw: st.DrawFn, name: str = "pending") -> Pod:
    metadata = ObjectMeta(
        name=name,
        namespace=draw(POD_NAMESPACES),
        uid=f"uid-{name}",
        labels=draw(POD_LABEL_SETS) or None,
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
    status = msgspec.structs.replace(draw(resized()), phase=phase)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec, status=status)


@st.composite
def container_statuses(draw: st.DrawFn, *names: str) -> list[ContainerStatus] | None:
    found = [
        ContainerStatus(
            name=name,
            resources=draw(st.none() | resources()),
            allocated_resources=draw(st.none() | amounts()),
        )
        for name in names
        if draw(st.booleans())
    ]
    return found or None


@st.composite
def resized(draw: st.DrawFn) -> PodStatus:
    """Mostly nothing; else a pod whose resize is under way, as far as it is known."""
    if draw(st.integers(0, 3)):
        return PodStatus()
    pending = Condition(type="PodResizePending", reason=draw(st.sampled_from(("Infeasible", "Deferred"))))
    return PodStatus(
        conditions=draw(st.sampled_from((None, [pending]))),
        container_statuses=draw(container_statuses("c", "d")),
        init_container_statuses=draw(container_statuses("init")),
        resources=draw(rarely(resources(), one_in=3)),
        allocated_resources=draw(rarely(amounts(), one_in=3)),
    )
