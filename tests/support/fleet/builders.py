"""Builders of clusters and bindings whose chains read like the sentence describing the object.

Every step returns a new builder, so a half-built object can be shared.  A cluster comes with room for
many replicas and with the usual APIs; a binding is of a Deployment with one replica and is not placed.

    make_cluster("m1").region("eu").zones("eu-1").capacity(cpu=8, pods=20).taint("gpu")
    make_binding("web").replicas(6).request(cpu="500m").dynamic().spread("cluster", 1, 3).on(m1=2)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from msgspec.structs import replace

from berth.kube.karmada import (
    AGGREGATED,
    DIVIDED,
    DUPLICATED,
    WEIGHTED,
    AllocatableModeling,
    ApiEnablement,
    ApiResource,
    Binding,
    BindingPriority,
    BindingSpec,
    BindingStatus,
    ClusterAffinity,
    ClusterAffinityTerm,
    ClusterPreferences,
    ClusterSpec,
    ClusterStatus,
    Component,
    FieldSelector,
    GroupTerm,
    MemberCluster,
    OverflowClusterAffinity,
    Placement,
    ReplicaRequirements,
    ReplicaScheduling,
    ResourceModel,
    ResourceModelRange,
    ResourceSummary,
    SpreadConstraint,
    StaticClusterWeight,
    TargetCluster,
    WorkloadAffinity,
    WorkloadAffinityGroups,
    WorkloadAntiAffinity,
    WorkloadTerm,
    binding_name,
)
from berth.kube.objects import (
    LabelSelector,
    NodeSelectorRequirement,
    ObjectMeta,
    ObjectReference,
    RawObject,
    RawQuantity,
    Taint,
    Toleration,
)
from berth.kube.text.decoding import convert

Pairs = Mapping[str, str]
Amounts = Mapping[str, RawQuantity]

_ROOMY: dict[str, RawQuantity] = {"cpu": "1000", "memory": "4Ti", "pods": "1000"}
_APIS = {
    "v1": ("ConfigMap", "Service"),
    "apps/v1": ("Deployment", "StatefulSet"),
    "batch/v1": ("Job",),
}
EARLIER, LATER = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def where(key: str, operator: str = "Exists", *values: str) -> NodeSelectorRequirement:
    """A requirement of a field selector: ``where("region", "In", "eu", "us")``."""
    return NodeSelectorRequirement(key=key, operator=operator, values=list(values) or None)


def clusters_that(
    *names: str,
    labels: LabelSelector | Pairs | None = None,
    fields: Iterable[NodeSelectorRequirement] = (),
    exclude: Iterable[str] = (),
) -> ClusterAffinity:
    """A cluster affinity: these names (or all), with these labels and fields, and not the excluded."""
    if labels is not None and not isinstance(labels, LabelSelector):
        labels = LabelSelector(match_labels=dict(labels))
    expressions = list(fields)
    return ClusterAffinity(
        cluster_names=list(names) or None,
        label_selector=labels,
        field_selector=FieldSelector(match_expressions=expressions) if expressions else None,
        exclude=list(exclude) or None,
    )


# --- clusters -------------------------------------------------------------------


def make_cluster(name: str) -> ClusterBuilder:
    apis = [_enablement(version, kinds) for version, kinds in _APIS.items()]
    status = ClusterStatus(api_enablements=apis, resource_summary=ResourceSummary(allocatable=dict(_ROOMY)))
    return ClusterBuilder(
        MemberCluster(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), spec=ClusterSpec(), status=status)
    )


class ClusterBuilder:
    def __init__(self, cluster: MemberCluster) -> None:
        self._cluster = cluster

    def build(self) -> MemberCluster:
        return self._cluster

    # Where it is, and who may go there.

    def labels(self, labels: Pairs | None = None, **more: str) -> Self:
        known = self._cluster.metadata.labels or {}
        return self._meta(labels={**known, **(labels or {}), **more})

    def provider(self, provider: str) -> Self:
        return self._spec(provider=provider)

    def region(self, region: str) -> Self:
        return self._spec(region=region)

    def zones(self, *zones: str) -> Self:
        return self._spec(zones=list(zones))

    def taint(self, key: str, value: str | None = None, effect: str = "NoSchedule") -> Self:
        added = Taint(key=key, value=value, effect=effect)
        return self._spec(taints=[*(self._cluster.spec.taints or []), added])

    def deleting(self) -> Self:
        return self._meta(deletion_timestamp=EARLIER)

    # What it offers.

    def capacity(self, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        """What is allocatable of these resources; others stay roomy."""
        known = self._summary.allocatable or {}
        return self._report(allocatable={**known, **(amounts or {}), **more})

    def only(self, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        """What is allocatable; there are no other resources."""
        return self._report(allocatable={**(amounts or {}), **more})

    def allocated(self, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        return self._report(allocated={**(amounts or {}), **more})

    def allocating(self, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        return self._report(allocating={**(amounts or {}), **more})

    def nodes(self, count: int, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        """So many nodes of a further grade, each with at least these amounts."""
        ranges = [ResourceModelRange(name=n, min=q) for n, q in {**(amounts or {}), **more}.items()]
        models = self._cluster.spec.resource_models or []
        grade = len(models)
        counts = self._summary.allocatable_modelings or []
        counts = [*counts, AllocatableModeling(grade=grade, count=count)]
        models = [*models, ResourceModel(grade=grade, ranges=ranges)]
        return self._spec(resource_models=models)._report(allocatable_modelings=counts)

    def without_report(self) -> Self:
        """It has not said what resources it has."""
        return self._status(resource_summary=None)

    def apis(self, group_version: str, *kinds: str) -> Self:
        known = self._cluster.status.api_enablements if self._cluster.status is not None else None
        return self._status(api_enablements=[*(known or []), _enablement(group_version, kinds)])

    def without_apis(self) -> Self:
        return self._status(api_enablements=None)

    @property
    def _summary(self) -> ResourceSummary:
        status = self._cluster.status or ClusterStatus()
        return status.resource_summary or ResourceSummary()

    def _report(self, **changes: Any) -> Self:
        return self._status(resource_summary=replace(self._summary, **changes))

    def _status(self, **changes: Any) -> Self:
        return self._with(status=replace(self._cluster.status or ClusterStatus(), **changes))

    def _spec(self, **changes: Any) -> Self:
        return self._with(spec=replace(self._cluster.spec, **changes))

    def _meta(self, **changes: Any) -> Self:
        return self._with(metadata=replace(self._cluster.metadata, **changes))

    def _with(self, **changes: Any) -> Self:
        return type(self)(replace(self._cluster, **changes))


def _enablement(group_version: str, kinds: Iterable[str]) -> ApiEnablement:
    resources = [ApiResource(name=f"{kind.lower()}s", kind=kind) for kind in kinds]
    return ApiEnablement(group_version=group_version, resources=resources)


# --- bindings -------------------------------------------------------------------


def make_binding(name: str, *, kind: str = "Deployment", api_version: str = "apps/v1") -> BindingBuilder:
    """The binding of a resource of this name and kind."""
    metadata = ObjectMeta(
        name=binding_name(kind, name),
        namespace="default",
        uid=f"uid-binding-{name}",
        resource_version="1",
        generation=1,
    )
    resource = ObjectReference(
        api_version=api_version, kind=kind, namespace="default", name=name, uid=f"uid-{name}"
    )
    spec = BindingSpec(resource=resource, replicas=1, placement=Placement())
    return BindingBuilder(Binding(metadata=metadata, spec=spec))


class BindingBuilder:
    def __init__(self, binding: Binding) -> None:
        self._binding = binding

    def build(self) -> Binding:
        return self._binding

    # What it is.

    def namespace(self, namespace: str) -> Self:
        resource = replace(self._binding.spec.resource, namespace=namespace)
        return self._meta(namespace=namespace)._spec(resource=resource)

    def labels(self, labels: Pairs | None = None, **more: str) -> Self:
        known = self._binding.metadata.labels or {}
        return self._meta(labels={**known, **(labels or {}), **more})

    def annotations(self, annotations: Pairs | None = None, **more: str) -> Self:
        known = self._binding.metadata.annotations or {}
        return self._meta(annotations={**known, **(annotations or {}), **more})

    def uid(self, uid: str | None) -> Self:
        """The UID of the resource, which breaks ties."""
        return self._spec(resource=replace(self._binding.spec.resource, uid=uid))

    def version(self, resource_version: str) -> Self:
        return self._meta(resource_version=resource_version)

    def deleting(self) -> Self:
        return self._meta(deletion_timestamp=EARLIER)

    def scheduler(self, name: str) -> Self:
        return self._spec(scheduler_name=name)

    def replicas(self, replicas: int) -> Self:
        return self._spec(replicas=replicas)

    def priority(self, priority: int) -> Self:
        return self._spec(schedule_priority=BindingPriority(priority))

    def request(self, amounts: Amounts | None = None, **more: RawQuantity) -> Self:
        """What each replica requests."""
        requirements = ReplicaRequirements(resource_request={**(amounts or {}), **more})
        return self._spec(replica_requirements=requirements)

    def components(self, **replicas: int) -> Self:
        return self._spec(components=[Component(name=n, replicas=r) for n, r in replicas.items()])

    # Where it is.

    def on(self, clusters: Mapping[str, int] | None = None, **more: int) -> Self:
        targets = {**(clusters or {}), **more}
        return self._spec(clusters=[TargetCluster(name=n, replicas=r) for n, r in targets.items()])

    def evicting(self, *clusters: str) -> Self:
        return self.evicted_by(*({"fromCluster": c, "reason": "TaintUntolerated"} for c in clusters))

    def evicted_by(self, *tasks: RawObject) -> Self:
        return self._spec(
            graceful_eviction_tasks=[*(self._binding.spec.graceful_eviction_tasks or ()), *tasks]
        )

    def observed(self, affinity_name: str) -> Self:
        """The affinity term that was followed last."""
        return self._status(scheduler_observing_affinity_name=affinity_name)

    def rescheduled(self) -> Self:
        """Somebody asked for rescheduling after it was scheduled last."""
        return self._status(last_scheduled_time=EARLIER)._spec(reschedule_triggered_at=LATER)

    # How its replicas are divided.

    def placement(self, **fields: Any) -> Self:
        """Fields of the placement as in a manifest: ``placement(spreadConstraints=[...])``."""
        given = convert(fields, Placement)
        return self._place(**{n: getattr(given, n) for n in given.__struct_fields__ if getattr(given, n)})

    def duplicated(self) -> Self:
        return self._place(replica_scheduling=ReplicaScheduling(replica_scheduling_type=DUPLICATED))

    def divided(self) -> Self:
        """Divided evenly, since no weights are given."""
        return self._divide(WEIGHTED, None)

    def static_weights(self, weights: Mapping[str, int] | None = None, **more: int) -> Self:
        """Divided by fixed weights of clusters, given by name."""
        return self.weighted(*((clusters_that(n), w) for n, w in {**(weights or {}), **more}.items()))

    def weighted(self, *rules: tuple[ClusterAffinity, int]) -> Self:
        """Divided by fixed weights of clusters, given by affinity."""
        rules_ = [StaticClusterWeight(target_cluster=affinity, weight=w) for affinity, w in rules]
        return self._divide(WEIGHTED, ClusterPreferences(static_weight_list=rules_))

    def dynamic(self) -> Self:
        """Divided by the room that clusters have."""
        return self._divide(WEIGHTED, ClusterPreferences(dynamic_weight="AvailableReplicas"))

    def aggregated(self) -> Self:
        """Divided among as few clusters as have the room."""
        return self._divide(AGGREGATED, None)

    # Which clusters it may use.

    def spread(self, field: str, least: int | None = None, most: int | None = None) -> Self:
        return self._spread(SpreadConstraint(spread_by_field=field, min_groups=least, max_groups=most))

    def spread_by_label(self, label: str, least: int | None = None, most: int | None = None) -> Self:
        return self._spread(SpreadConstraint(spread_by_label=label, min_groups=least, max_groups=most))

    def tolerates(self, key: str | None = None, value: str | None = None, effect: str | None = None) -> Self:
        operator = "Exists" if value is None else "Equal"
        added = Toleration(key=key, operator=operator, value=value, effect=effect)
        return self._place(cluster_tolerations=[*(self._placement.cluster_tolerations or []), added])

    def affinity(self, *names: str, to: ClusterAffinity | None = None) -> Self:
        """Only clusters of these names, or those that an affinity matches."""
        return self._place(cluster_affinity=to or clusters_that(*names))

    def term(
        self, name: str, affinity: ClusterAffinity, *, overflow: Iterable[ClusterAffinity] | None = None
    ) -> Self:
        """A further term of clusterAffinities, with its overflow tiers."""
        tiers = None
        if overflow is not None:
            tiers = [
                OverflowClusterAffinity(affinity_name=f"{name}-{i}", **_fields(tier))
                for i, tier in enumerate(overflow, start=1)
            ]
        added = ClusterAffinityTerm(affinity_name=name, overflow_affinities=tiers, **_fields(affinity))
        return self._place(cluster_affinities=[*(self._placement.cluster_affinities or []), added])

    # Which workloads it belongs with.

    def group(self, affinity: str) -> Self:
        """The affinity group, ``key=value``, as Karmada's controller writes it."""
        known = self._binding.spec.workload_affinity_groups or WorkloadAffinityGroups()
        rules = self._placement.workload_affinity or WorkloadAffinity()
        rules = replace(rules, affinity=GroupTerm(group_by_label_key=affinity.partition("=")[0]))
        return self._spec(workload_affinity_groups=replace(known, affinity_group=affinity))._place(
            workload_affinity=rules
        )

    def anti_group(self, anti_affinity: str) -> Self:
        known = self._binding.spec.workload_affinity_groups or WorkloadAffinityGroups()
        rules = self._placement.workload_affinity or WorkloadAffinity()
        rules = replace(rules, anti_affinity=GroupTerm(group_by_label_key=anti_affinity.partition("=")[0]))
        return self._spec(workload_affinity_groups=replace(known, anti_affinity_group=anti_affinity))._place(
            workload_affinity=rules
        )

    def near(self, *terms: WorkloadTerm) -> Self:
        """Required affinity in the form of the proposal; see :func:`peers`."""
        rules = self._placement.workload_affinity or WorkloadAffinity()
        known = rules.required_during_scheduling_ignored_during_execution or []
        rules = replace(rules, required_during_scheduling_ignored_during_execution=[*known, *terms])
        return self._place(workload_affinity=rules)

    def apart_from(self, *terms: WorkloadTerm) -> Self:
        """Required anti-affinity in the form of the proposal."""
        rules = self._placement.workload_anti_affinity or WorkloadAntiAffinity()
        known = rules.required_during_scheduling_ignored_during_execution or []
        rules = replace(rules, required_during_scheduling_ignored_during_execution=[*known, *terms])
        return self._place(workload_anti_affinity=rules)

    @property
    def _placement(self) -> Placement:
        return self._binding.spec.placement or Placement()

    def _divide(self, preference: str, weights: ClusterPreferences | None) -> Self:
        scheduling = ReplicaScheduling(
            replica_scheduling_type=DIVIDED,
            replica_division_preference=preference,
            weight_preference=weights,
        )
        return self._place(replica_scheduling=scheduling)

    def _spread(self, constraint: SpreadConstraint) -> Self:
        return self._place(spread_constraints=[*(self._placement.spread_constraints or []), constraint])

    def _place(self, **changes: Any) -> Self:
        return self._spec(placement=replace(self._placement, **changes))

    def _spec(self, **changes: Any) -> Self:
        return self._with(spec=replace(self._binding.spec, **changes))

    def _status(self, **changes: Any) -> Self:
        return self._with(status=replace(self._binding.status or BindingStatus(), **changes))

    def _meta(self, **changes: Any) -> Self:
        return self._with(metadata=replace(self._binding.metadata, **changes))

    def _with(self, **changes: Any) -> Self:
        return type(self)(replace(self._binding, **changes))


def peers(
    selector: LabelSelector | Pairs | None = None,
    *,
    keys: Iterable[str] = (),
    topology: str | None = None,
    namespaces: Iterable[str] = (),
    namespace_selector: LabelSelector | None = None,
) -> WorkloadTerm:
    """A term of the proposal: workloads with these labels and the same values of these keys."""
    if isinstance(selector, Mapping):
        selector = LabelSelector(match_labels=dict(selector))
    return WorkloadTerm(
        label_selector=selector,
        match_label_keys=list(keys) or None,
        topology_key=topology,
        namespaces=list(namespaces) or None,
        namespace_selector=namespace_selector,
    )


def _fields(affinity: ClusterAffinity) -> dict[str, Any]:
    return {name: getattr(affinity, name) for name in ClusterAffinity.__struct_fields__}
