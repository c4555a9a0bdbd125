"""Builders of test objects whose chains read like the sentence describing the object.

Every step returns a new builder, so a half-built object can be shared.  Labels, selectors and
resources are given as keywords, or in a mapping where a key is no Python name.  Objects come with
what the API server insists on: a pod has a container, a node has room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Self, TypeVar

import msgspec
from msgspec.structs import replace

from berth.kube.objects import (
    Affinity,
    Condition,
    Container,
    ContainerImage,
    ContainerPort,
    EphemeralVolumeSource,
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
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimTemplate,
    PersistentVolumeClaimVolumeSource,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    PodSpec,
    PodStatus,
    PreferredSchedulingTerm,
    RawQuantity,
    ReplicationController,
    ReplicationControllerSpec,
    ResourceRequirements,
    Service,
    ServiceSpec,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    Volume,
    WeightedPodAffinityTerm,
    Workload,
    WorkloadSpec,
)

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
EXECUTION = "requiredDuringSchedulingRequiredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
EVERY = LabelSelector()

Match = LabelSelector | Mapping[str, str] | None
Pairs = Mapping[str, str]
Amounts = Mapping[str, RawQuantity]
Thing = TypeVar("Thing", Pod, Node, Namespace, Service, Workload, ReplicationController)
Item = TypeVar("Item")

# So large that a few pods more or less do not change how a node is rated.
_ROOMY: dict[str, RawQuantity] = {"cpu": "1000", "memory": "4Ti", "pods": "110"}
_API_VERSIONS = {"ReplicationController": "v1", "Job": "batch/v1"}


def expression(key: str, operator: str, *values: str) -> LabelSelectorRequirement:
    return LabelSelectorRequirement(key=key, operator=operator, values=list(values) or None)


def where(key: str, operator: str = "Exists", *values: str) -> NodeSelectorRequirement:
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values) or None)


def make_selector(
    *expressions: LabelSelectorRequirement, match: Pairs | None = None, **labels: str
) -> LabelSelector:
    return LabelSelector(
        match_labels={**(match or {}), **labels} or None, match_expressions=list(expressions) or None
    )


def _selector(match: Match, labels: Pairs) -> LabelSelector | None:
    if isinstance(match, Mapping):
        return LabelSelector(match_labels={**match, **labels})
    if labels and match is not None:
        return replace(match, match_labels={**(match.match_labels or {}), **labels})
    return match


def _more(items: list[Item] | None, *added: Item) -> list[Item]:
    return [*(items or []), *added]


class _Builder(Generic[Thing]):
    def __init__(self, thing: Thing) -> None:
        self._thing: Thing = thing

    def build(self) -> Thing:
        return self._thing

    def labels(self, labels: Pairs | None = None, **more: str) -> Self:
        known = self._thing.metadata.labels or {}
        return self._meta(replace(self._thing.metadata, labels={**known, **(labels or {}), **more}))

    def namespace(self, name: str) -> Self:
        return self._meta(replace(self._thing.metadata, namespace=name))

    def _meta(self, metadata: ObjectMeta) -> Self:
        return type(self)(replace(self._thing, metadata=metadata))


# --- pods -----------------------------------------------------------------------


def make_pod(name: str) -> PodBuilder:
    containers = [Container(name="c", image="img")]
    metadata = ObjectMeta(name=name, namespace="default", uid=f"uid-{name}")
    return PodBuilder(Pod(metadata=metadata, spec=PodSpec(containers=containers)))


class PodBuilder(_Builder[Pod]):
    # Where and in which state it is.

    def on(self, node: str) -> PodBuilder:
        return self._spec(replace(self._thing.spec, node_name=node)).phase("Running")

    def phase(self, phase: str) -> PodBuilder:
        status = replace(self._thing.status or PodStatus(), phase=phase)
        return PodBuilder(replace(self._thing, status=status))

    def terminating(self) -> PodBuilder:
        return self._meta(replace(self._thing.metadata, deletion_timestamp="2026-01-01T00:00:00Z"))

    def created(self, when: str) -> PodBuilder:
        return self._meta(replace(self._thing.metadata, creation_timestamp=when))

    def owned_by(self, kind: str, name: str, *, controller: bool = True) -> PodBuilder:
        owner = OwnerReference(
            api_version=_API_VERSIONS.get(kind, "apps/v1"),
            kind=kind,
            name=name,
            uid=f"uid-{name}",
            controller=controller,
        )
        owners = _more(self._thing.metadata.owner_references, owner)
        return self._meta(replace(self._thing.metadata, owner_references=owners))

    # What it needs.

    def requests(self, requests: Amounts | None = None, **more: RawQuantity) -> PodBuilder:
        first, *others = self._thing.spec.containers or []
        resources = replace(first.resources or ResourceRequirements(), requests={**(requests or {}), **more})
        return self._spec(
            replace(self._thing.spec, containers=[replace(first, resources=resources), *others])
        )

    def limits(self, limits: Amounts | None = None, **more: RawQuantity) -> PodBuilder:
        first, *others = self._thing.spec.containers or []
        resources = replace(first.resources or ResourceRequirements(), limits={**(limits or {}), **more})
        return self._spec(
            replace(self._thing.spec, containers=[replace(first, resources=resources), *others])
        )

    def image(self, image: str) -> PodBuilder:
        first, *others = self._thing.spec.containers or []
        return self._spec(replace(self._thing.spec, containers=[replace(first, image=image), *others]))

    def host_port(self, port: int, *, protocol: str | None = None, ip: str | None = None) -> PodBuilder:
        first, *others = self._thing.spec.containers or []
        added = ContainerPort(container_port=port, host_port=port, host_ip=ip, protocol=protocol)
        first = replace(first, ports=_more(first.ports, added))
        return self._spec(replace(self._thing.spec, containers=[first, *others]))

    def init_container(self, requests: Amounts | None = None, *, sidecar: bool = False) -> PodBuilder:
        known = self._thing.spec.init_containers or []
        added = Container(
            name=f"init-{len(known)}",
            image="img",
            resources=ResourceRequirements(requests=dict(requests or {})),
            restart_policy="Always" if sidecar else None,
        )
        return self._spec(replace(self._thing.spec, init_containers=[*known, added]))

    def overhead(self, overhead: Amounts | None = None, **more: RawQuantity) -> PodBuilder:
        return self._spec(replace(self._thing.spec, overhead={**(overhead or {}), **more}))

    def whole_pod_requests(self, requests: Amounts | None = None, **more: RawQuantity) -> PodBuilder:
        resources = ResourceRequirements(requests={**(requests or {}), **more})
        return self._spec(replace(self._thing.spec, resources=resources))

    def mounts(self, claim: str) -> PodBuilder:
        source = PersistentVolumeClaimVolumeSource(claim_name=claim)
        return self._volume(Volume(name=f"mount-{claim}", persistent_volume_claim=source))

    def ephemeral_volume(self, name: str, storage_class: str | None = None) -> PodBuilder:
        spec = PersistentVolumeClaimSpec(storage_class_name=storage_class)
        template = PersistentVolumeClaimTemplate(spec=spec)
        return self._volume(
            Volume(name=name, ephemeral=EphemeralVolumeSource(volume_claim_template=template))
        )

    def disk(self, **source: object) -> PodBuilder:
        """Mount a disk without a claim, given as in a volume: kind=source."""
        name = f"disk-{len(self._thing.spec.volumes or ())}"
        return self._volume(msgspec.convert({"name": name, **source}, Volume))

    def _volume(self, volume: Volume) -> PodBuilder:
        return self._spec(replace(self._thing.spec, volumes=_more(self._thing.spec.volumes, volume)))

    # When it may be scheduled.

    def priority(self, priority: int) -> PodBuilder:
        return self._spec(replace(self._thing.spec, priority=priority))

    def priority_class(self, name: str) -> PodBuilder:
        return self._spec(replace(self._thing.spec, priority_class_name=name))

    def never_preempts(self) -> PodBuilder:
        return self._spec(replace(self._thing.spec, preemption_policy="Never"))

    def scheduler(self, name: str) -> PodBuilder:
        return self._spec(replace(self._thing.spec, scheduler_name=name))

    def gated(self, gate: str) -> PodBuilder:
        gates = _more(self._thing.spec.scheduling_gates, PodSchedulingGate(name=gate))
        return self._spec(replace(self._thing.spec, scheduling_gates=gates))

    def tolerates(
        self, key: str | None = None, value: str | None = None, effect: str | None = None
    ) -> PodBuilder:
        """Tolerate a taint; without value every value of the key, without key everything."""
        operator = "Exists" if value is None else "Equal"
        added = Toleration(key=key, operator=operator, value=value, effect=effect)
        return self._spec(replace(self._thing.spec, tolerations=_more(self._thing.spec.tolerations, added)))

    # Which nodes it wants.

    def node_selector(self, labels: Pairs | None = None, **more: str) -> PodBuilder:
        known = self._thing.spec.node_selector or {}
        return self._spec(replace(self._thing.spec, node_selector={**known, **(labels or {}), **more}))

    def node_affinity(
        self,
        *requirements: NodeSelectorRequirement,
        fields: Iterable[NodeSelectorRequirement] = (),
        during_execution: bool = False,
        **labels: str,
    ) -> PodBuilder:
        """Require a node; called again it adds an alternative."""
        affinity = self._affinity.node_affinity or NodeAffinity()
        term = _node_term(requirements, fields, labels)
        if during_execution:
            known = affinity.required_during_scheduling_required_during_execution or NodeSelector()
            selector = NodeSelector(node_selector_terms=_more(known.node_selector_terms, term))
            affinity = replace(affinity, required_during_scheduling_required_during_execution=selector)
        else:
            known = affinity.required_during_scheduling_ignored_during_execution or NodeSelector()
            selector = NodeSelector(node_selector_terms=_more(known.node_selector_terms, term))
            affinity = replace(affinity, required_during_scheduling_ignored_during_execution=selector)
        return self._with_affinity(replace(self._affinity, node_affinity=affinity))

    def prefers_nodes(
        self,
        *requirements: NodeSelectorRequirement,
        weight: int = 1,
        fields: Iterable[NodeSelectorRequirement] = (),
        **labels: str,
    ) -> PodBuilder:
        affinity = self._affinity.node_affinity or NodeAffinity()
        added = PreferredSchedulingTerm(weight=weight, preference=_node_term(requirements, fields, labels))
        terms = _more(affinity.preferred_during_scheduling_ignored_during_execution, added)
        affinity = replace(affinity, preferred_during_scheduling_ignored_during_execution=terms)
        return self._with_affinity(replace(self._affinity, node_affinity=affinity))

    # Which pods it wants near.

    def affinity_to(self, match: Match = EVERY, *, during_execution: bool = False, **term: Any) -> PodBuilder:
        """Require such pods in the same domain: `topology` and what else :func:`_pod_term` takes."""
        near = _required(self._affinity.pod_affinity, _pod_term(match, **term), during_execution)
        return self._with_affinity(replace(self._affinity, pod_affinity=near))

    def anti_affinity_to(
        self, match: Match = EVERY, *, during_execution: bool = False, **term: Any
    ) -> PodBuilder:
        apart = _required(self._affinity.pod_anti_affinity, _pod_term(match, **term), during_execution)
        return self._with_affinity(replace(self._affinity, pod_anti_affinity=apart))

    def prefers_affinity_to(self, match: Match = EVERY, *, weight: int = 1, **term: Any) -> PodBuilder:
        near = _preferred(self._affinity.pod_affinity, _pod_term(match, **term), weight)
        return self._with_affinity(replace(self._affinity, pod_affinity=near))

    def prefers_anti_affinity_to(self, match: Match = EVERY, *, weight: int = 1, **term: Any) -> PodBuilder:
        apart = _preferred(self._affinity.pod_anti_affinity, _pod_term(match, **term), weight)
        return self._with_affinity(replace(self._affinity, pod_anti_affinity=apart))

    def spread(
        self,
        topology: str,
        *,
        max_skew: int = 1,
        when: str = "DoNotSchedule",
        match: Match = EVERY,
        min_domains: int | None = None,
        node_affinity_policy: str | None = None,
        node_taints_policy: str | None = None,
        match_label_keys: Iterable[str] = (),
        **labels: str,
    ) -> PodBuilder:
        added = TopologySpreadConstraint(
            max_skew=max_skew,
            topology_key=topology,
            when_unsatisfiable=when,
            label_selector=_selector(match, labels),
            min_domains=min_domains,
            node_affinity_policy=node_affinity_policy,
            node_taints_policy=node_taints_policy,
            match_label_keys=list(match_label_keys) or None,
        )
        constraints = _more(self._thing.spec.topology_spread_constraints, added)
        return self._spec(replace(self._thing.spec, topology_spread_constraints=constraints))

    @property
    def _affinity(self) -> Affinity:
        return self._thing.spec.affinity or Affinity()

    def _with_affinity(self, affinity: Affinity) -> PodBuilder:
        return self._spec(replace(self._thing.spec, affinity=affinity))

    def _spec(self, spec: PodSpec) -> PodBuilder:
        return PodBuilder(replace(self._thing, spec=spec))


def _node_term(
    requirements: Iterable[NodeSelectorRequirement], fields: Iterable[NodeSelectorRequirement], labels: Pairs
) -> NodeSelectorTerm:
    expressions = [*requirements, *(where(key, "In", value) for key, value in labels.items())]
    return NodeSelectorTerm(match_expressions=expressions or None, match_fields=list(fields) or None)


def _pod_term(
    match: Match,
    *,
    topology: str,
    namespaces: Iterable[str] = (),
    namespace_selector: Match = None,
    match_label_keys: Iterable[str] = (),
    mismatch_label_keys: Iterable[str] = (),
    **labels: str,
) -> PodAffinityTerm:
    """`match=None` is the missing selector, which selects no pod; without anything it is the empty one."""
    return PodAffinityTerm(
        label_selector=_selector(match, labels),
        topology_key=topology,
        namespaces=list(namespaces) or None,
        namespace_selector=_selector(namespace_selector, {}),
        match_label_keys=list(match_label_keys) or None,
        mismatch_label_keys=list(mismatch_label_keys) or None,
    )


def _required(affinity: PodAffinity | None, term: PodAffinityTerm, during_execution: bool) -> PodAffinity:
    affinity = affinity or PodAffinity()
    if during_execution:
        terms = _more(affinity.required_during_scheduling_required_during_execution, term)
        return replace(affinity, required_during_scheduling_required_during_execution=terms)
    terms = _more(affinity.required_during_scheduling_ignored_during_execution, term)
    return replace(affinity, required_during_scheduling_ignored_during_execution=terms)


def _preferred(affinity: PodAffinity | None, term: PodAffinityTerm, weight: int) -> PodAffinity:
    affinity = affinity or PodAffinity()
    added = WeightedPodAffinityTerm(weight=weight, pod_affinity_term=term)
    terms = _more(affinity.preferred_during_scheduling_ignored_during_execution, added)
    return replace(affinity, preferred_during_scheduling_ignored_during_execution=terms)


# --- nodes ----------------------------------------------------------------------


def make_node(name: str) -> NodeBuilder:
    """A node without labels that has room for every test."""
    return NodeBuilder(Node(metadata=ObjectMeta(name=name), status=NodeStatus(capacity=dict(_ROOMY))))


class NodeBuilder(_Builder[Node]):
    def capacity(self, capacity: Amounts | None = None, **more: RawQuantity) -> NodeBuilder:
        """Set these resources; cpu, memory and pods keep their roomy defaults if not named."""
        status = self._thing.status or NodeStatus()
        return self._status(replace(status, capacity={**(status.capacity or {}), **(capacity or {}), **more}))

    def allocatable(self, allocatable: Amounts | None = None, **more: RawQuantity) -> NodeBuilder:
        status = self._thing.status or NodeStatus()
        return self._status(replace(status, allocatable={**(allocatable or {}), **more}))

    def image(self, name: str, size: int) -> NodeBuilder:
        status = self._thing.status or NodeStatus()
        images = _more(status.images, ContainerImage(names=[name], size_bytes=size))
        return self._status(replace(status, images=images))

    def taint(self, key: str, value: str | None = None, effect: str = "NoSchedule") -> NodeBuilder:
        spec = self._thing.spec or NodeSpec()
        taints = _more(spec.taints, Taint(key=key, value=value, effect=effect))
        return NodeBuilder(replace(self._thing, spec=replace(spec, taints=taints)))

    def condition(self, kind: str, status: str, reason: str | None = None) -> NodeBuilder:
        given = self._thing.status or NodeStatus()
        added = Condition(type=kind, status=status, reason=reason)
        return self._status(replace(given, conditions=_more(given.conditions, added)))

    def unschedulable(self) -> NodeBuilder:
        spec = replace(self._thing.spec or NodeSpec(), unschedulable=True)
        return NodeBuilder(replace(self._thing, spec=spec))

    def _status(self, status: NodeStatus) -> NodeBuilder:
        return NodeBuilder(replace(self._thing, status=status))


# --- the rest -------------------------------------------------------------------


def make_namespace(name: str) -> NamespaceBuilder:
    return NamespaceBuilder(Namespace(metadata=ObjectMeta(name=name)))


class NamespaceBuilder(_Builder[Namespace]):
    pass


def make_service(name: str) -> ServiceBuilder:
    return ServiceBuilder(Service(metadata=ObjectMeta(name=name, namespace="default")))


class ServiceBuilder(_Builder[Service]):
    def selects(self, labels: Pairs | None = None, **more: str) -> ServiceBuilder:
        return ServiceBuilder(replace(self._thing, spec=ServiceSpec(selector={**(labels or {}), **more})))


def make_replica_set(name: str) -> WorkloadBuilder:
    return _workload("ReplicaSet", name)


def make_stateful_set(name: str) -> WorkloadBuilder:
    return _workload("StatefulSet", name)


def _workload(kind: str, name: str) -> WorkloadBuilder:
    metadata = ObjectMeta(name=name, namespace="default")
    return WorkloadBuilder(Workload(api_version="apps/v1", kind=kind, metadata=metadata))


class WorkloadBuilder(_Builder[Workload]):
    def selects(self, match: Match = EVERY, **labels: str) -> WorkloadBuilder:
        spec = WorkloadSpec(selector=_selector(match, labels))
        return WorkloadBuilder(replace(self._thing, spec=spec))


def make_replication_controller(name: str) -> ReplicationControllerBuilder:
    metadata = ObjectMeta(name=name, namespace="default")
    return ReplicationControllerBuilder(ReplicationController(metadata=metadata))


class ReplicationControllerBuilder(_Builder[ReplicationController]):
    def selects(self, labels: Pairs | None = None, **more: str) -> ReplicationControllerBuilder:
        spec = ReplicationControllerSpec(selector={**(labels or {}), **more})
        return ReplicationControllerBuilder(replace(self._thing, spec=spec))
