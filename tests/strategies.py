"""Hypothesis strategies for whole small clusters, pending pods and what may happen to them.

Few label keys, few values and few namespaces, so that terms and constraints find something to match.
Everything generated is valid for the API server.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeVar

import msgspec
from hypothesis import strategies as st

from berth.kube.objects import (
    Affinity,
    Container,
    ContainerPort,
    Labels,
    LabelSelector,
    LabelSelectorRequirement,
    Namespace,
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
    Workload,
    WorkloadSpec,
)
from berth.kube.objects import ReplicationController as Controller
from berth.kube.objects import ReplicationControllerSpec as ControllerSpec
from tests.builders import HOSTNAME, ZONE
from tests.cluster import Cluster
from tests.reference import Args

Value = TypeVar("Value")

RACK = "rack"
TOPOLOGY_KEYS = (ZONE, RACK, HOSTNAME)
NAMESPACES = ("default", "team-a", "team-b")
POD_LABELS: dict[str, tuple[str, ...]] = {"app": ("web", "db"), "tier": ("front", "back")}
NODE_LABELS: dict[str, tuple[str, ...]] = {"disk": ("ssd", "hdd"), "gen": ("1", "7", "x"), ZONE: ("z1", "z2", "z3")}
NAMESPACE_LABELS: dict[str, tuple[str, ...]] = {"env": ("dev", "prod"), "restricted": ("yes",)}
EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
OWNERS = ("rs-web", "sts-db", "rc-any")


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
def node_requirements(draw: st.DrawFn) -> NodeSelectorRequirement:
    key = draw(st.sampled_from(sorted(NODE_LABELS)))
    operator = draw(st.sampled_from(("In", "In", "NotIn", "Exists", "DoesNotExist")))
    if key == "gen":
        operator = draw(st.sampled_from(("In", "Gt", "Lt")))
    values = None
    if operator in ("In", "NotIn"):
        values = draw(st.lists(st.sampled_from(NODE_LABELS[key]), min_size=1, max_size=2, unique=True))
    elif operator in ("Gt", "Lt"):
        values = [draw(st.sampled_from(("0", "3", "007", "-1")))]
    return NodeSelectorRequirement(key=key, operator=operator, values=values)


def field_requirements() -> st.SearchStrategy[NodeSelectorRequirement]:
    return st.builds(
        NodeSelectorRequirement,
        key=st.just("metadata.name"),
        operator=st.sampled_from(("In", "NotIn")),
        values=st.sampled_from(("n0", "n1", "n2")).map(lambda name: [name]),
    )


def node_terms() -> st.SearchStrategy[NodeSelectorTerm]:
    expressions = st.lists(node_requirements(), min_size=1, max_size=2)
    return st.one_of(
        st.builds(NodeSelectorTerm, match_expressions=expressions),
        st.builds(NodeSelectorTerm, match_expressions=expressions, match_fields=some(field_requirements(), 1)),
        st.builds(NodeSelectorTerm, match_fields=st.lists(field_requirements(), min_size=1, max_size=2)),
        st.just(NodeSelectorTerm()),
    )


def node_selectors() -> st.SearchStrategy[NodeSelector]:
    return st.builds(NodeSelector, node_selector_terms=st.lists(node_terms(), min_size=1, max_size=2))


def node_affinities() -> st.SearchStrategy[NodeAffinity]:
    preferred = st.builds(PreferredSchedulingTerm, weight=st.integers(1, 100), preference=node_terms())
    return st.builds(
        NodeAffinity,
        required_during_scheduling_required_during_execution=rarely(node_selectors()),
        required_during_scheduling_ignored_during_execution=rarely(node_selectors()),
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


def requests() -> st.SearchStrategy[ResourceList]:
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": st.sampled_from(("100m", "0.25", 1, "1500m")),
            "memory": st.sampled_from(("64Mi", "500M", "1Gi", "1.5Gi", 0)),
            "example.com/gpu": st.sampled_from((1, "2")),
        },
    ).map(lambda amounts: _whole_gpus(dict(amounts)))


