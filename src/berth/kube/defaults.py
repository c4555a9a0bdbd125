"""What the API server fills in when an object is created.

Only defaults that decide placement or validity are written down.  Where an absent
value and its default mean the same to every reader (restartPolicy, schedulerName,
milli rounding of quantities) the object is left alone, so that a million pods that
need no defaulting are not copied: each function returns its argument if nothing changes.

Upstream: pkg/apis/core/v1/defaults.go and the create strategy in pkg/registry/core/pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from operator import is_
from typing import TypeVar

from msgspec.structs import replace

from berth.kube.amounts import quantity, resource_lists, resource_names
from berth.kube.objects import (
    Affinity,
    Container,
    ContainerPort,
    LabelSelector,
    Namespace,
    Node,
    ObjectMeta,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    PodSpec,
    PriorityClass,
    ResourceList,
    ResourceRequirements,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
    changed,
)
from berth.kube.selectors import IN, NOT_IN, label_requirement
from berth.kube.versions import NEWEST, KubernetesVersion

NAMESPACE_NAME_LABEL = "kubernetes.io/metadata.name"

_T = TypeVar("_T")
_A = TypeVar("_A")
_H = TypeVar("_H", PodAffinityTerm, TopologySpreadConstraint)


def default_pod(pod: Pod, version: KubernetesVersion = NEWEST) -> Pod:
    """What is filled in whenever a pod is read."""
    spec = pod.spec
    host_network = bool(spec.host_network)
    containers = _map_list(spec.containers, _default_container, host_network)
    init_containers = _map_list(spec.init_containers, _default_container, host_network)
    spec = changed(spec, containers=containers, init_containers=init_containers)
    if not version.pod_requests_completed:
        spec = _default_pod_resources(spec, version)
    return changed(pod, spec=spec)


def default_node(node: Node) -> Node:
    status = node.status
    if status is None or status.allocatable is not None or status.capacity is None:
        return node
    return replace(node, status=replace(status, allocatable=status.capacity))


def default_namespace(namespace: Namespace) -> Namespace:
    metadata = namespace.metadata
    labels = metadata.labels or {}
    if not metadata.name or labels.get(NAMESPACE_NAME_LABEL) == metadata.name:
        return namespace
    labels = {**labels, NAMESPACE_NAME_LABEL: metadata.name}
    return replace(namespace, metadata=replace(metadata, labels=labels))


def created(pod: Pod, version: KubernetesVersion = NEWEST) -> Pod:
    """The pod as the API server would store it on creation, if it is valid."""
    pod = merge_label_keys(default_pod(pod, version))
    if not version.pod_requests_completed:
        return pod
    return changed(pod, spec=_default_pod_resources(pod.spec, version))


def taken_in(pod: Pod, version: KubernetesVersion = NEWEST) -> Pod:
    """The pod as a manifest means it: created now, or, if it has a uid, copied from a server that created it.

    Label keys of the latter were merged then, and must not be merged twice.
    """
    return default_pod(pod, version) if pod.metadata.uid else created(pod, version)


def _map_list(items: list[_T] | None, change: Callable[[_T, _A], _T], by: _A) -> list[_T] | None:
    """The changed list, or the very same one if no item changed."""
    if not items:
        return items
    new = [change(item, by) for item in items]
    return items if all(map(is_, new, items)) else new


# --- containers ---------------------------------------------------------------------


def _default_container(container: Container, host_network: bool) -> Container:
    resources, ports = container.resources, container.ports
    if resources is not None and resources.limits:
        limits, requests = resources.limits, resources.requests or {}
        if not limits.keys() <= requests.keys():
            resources = replace(resources, requests={**limits, **requests})
    if ports:
        ports = _map_list(ports, _default_port, host_network)
    if resources is container.resources and ports is container.ports:
        return container  # as nearly every one: this runs for every container
    return replace(container, resources=resources, ports=ports)


def _default_port(port: ContainerPort, host_network: bool) -> ContainerPort:
    if port.protocol and not host_network:
        return port
    host_port = port.container_port if host_network and not port.host_port else port.host_port
    return changed(port, protocol=port.protocol or "TCP", host_port=host_port)


# --- pod-level resources (KEP-2837) ----------------------------------------------------


def _default_pod_resources(spec: PodSpec, version: KubernetesVersion) -> PodSpec:
    resources = spec.resources
    if resources is None:
        return spec
    try:
        limits = _pod_limits(spec, resources)
        requests = resources.requests
        if limits or (requests and version.pod_requests_completed):
            requests = _pod_requests(spec, requests or {}, limits or {})
    except quantity.QuantityError:
        return spec  # validation names the field
    if limits == resources.limits and requests == resources.requests:
        return spec
    return replace(spec, resources=replace(resources, limits=limits, requests=requests))


def _pod_limits(spec: PodSpec, resources: ResourceRequirements) -> ResourceList | None:
    """Huge page limits of the containers become the pod's, unless it requests or limits such pages itself."""
    limits, requests = resources.limits or {}, resources.requests or {}
    if not limits and not requests:
        return resources.limits
    combined = resource_lists.aggregate(spec, resource_lists.limits_of, quantity.read)
    added = {
        name: str(amount)
        for name, amount in combined.items()
        if resource_names.is_huge_page(name) and name not in requests and name not in limits
    }
    return {**limits, **added} if added else resources.limits


def _pod_requests(spec: PodSpec, given: ResourceList, limits: ResourceList) -> ResourceList:
    """Requests the pod leaves open are those of its containers together, or else its limits."""
    combined = resource_lists.aggregate(spec, resource_lists.requests_of, quantity.read)
    requests = dict(given)
    for name, amount in combined.items():
        if resource_names.is_pod_level(name) and resource_names.may_overcommit(name):
            requests.setdefault(name, str(amount))
    for name, raw in limits.items():
        if resource_names.is_pod_level(name):
            requests.setdefault(name, raw)
    return requests


# --- label keys of affinity terms and spread constraints (KEP-3633, KEP-3243) ----------------


def merge_label_keys(pod: Pod) -> Pod:
    """Turn matchLabelKeys and mismatchLabelKeys into requirements of the label selectors beside them.

    Keys the pod has no label for are ignored, and so are keys without a selector (which matches nothing).
    """
    spec = pod.spec
    if spec.affinity is None and not spec.topology_spread_constraints:
        return pod
    labels = pod.metadata.labels
    if not labels:
        return pod
    affinity = merge_affinity_keys(spec.affinity, labels)
    constraints = _map_list(spec.topology_spread_constraints, _merge_keys, labels)
    return changed(pod, spec=changed(spec, affinity=affinity, topology_spread_constraints=constraints))


def merge_affinity_keys(affinity: Affinity | None, labels: Mapping[str, str]) -> Affinity | None:
    """The same for one affinity object of a pod with these labels."""
    if affinity is None:
        return None
    together = _merge_pod_affinity(affinity.pod_affinity, labels)
    apart = _merge_pod_affinity(affinity.pod_anti_affinity, labels)
    return changed(affinity, pod_affinity=together, pod_anti_affinity=apart)


def _merge_pod_affinity(affinity: PodAffinity | None, labels: Mapping[str, str]) -> PodAffinity | None:
    if affinity is None:
        return None
    execution = affinity.required_during_scheduling_required_during_execution
    required = affinity.required_during_scheduling_ignored_during_execution
    preferred = affinity.preferred_during_scheduling_ignored_during_execution
    return changed(
        affinity,
        required_during_scheduling_required_during_execution=_map_list(execution, _merge_keys, labels),
        required_during_scheduling_ignored_during_execution=_map_list(required, _merge_keys, labels),
        preferred_during_scheduling_ignored_during_execution=_map_list(preferred, _merge_weighted, labels),
    )


def _merge_weighted(weighted: WeightedPodAffinityTerm, labels: Mapping[str, str]) -> WeightedPodAffinityTerm:
    term = weighted.pod_affinity_term
    return weighted if term is None else changed(weighted, pod_affinity_term=_merge_keys(term, labels))


def _merge_keys(holder: _H, labels: Mapping[str, str]) -> _H:
    selector = holder.label_selector
    mismatch = holder.mismatch_label_keys if isinstance(holder, PodAffinityTerm) else None
    if selector is None or not (holder.match_label_keys or mismatch):
        return holder
    merged = _with_keys(_with_keys(selector, holder.match_label_keys, IN, labels), mismatch, NOT_IN, labels)
    return changed(holder, label_selector=merged)


def _with_keys(
    selector: LabelSelector, keys: list[str] | None, operator: str, labels: Mapping[str, str]
) -> LabelSelector:
    added = [label_requirement(key, operator, labels[key]) for key in keys or () if key in labels]
    if not added:
        return selector
    return replace(selector, match_expressions=[*(selector.match_expressions or ()), *added])


# --- priorities: classes resolved to numbers, as the priority admission plugin does on creation ------

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_SYSTEM = tuple(
    PriorityClass(metadata=ObjectMeta(name=name), value=value) for name, value in SYSTEM_CLASSES.items()
)


def resolve_priorities(pods: Iterable[Pod], classes: Iterable[PriorityClass]) -> list[Pod]:
    """Pods with ``spec.priority`` set from their class, or the global default where they name none.

    A priority that is already there stays, and so does a pod whose class is not known.
    """
    classes = [*_SYSTEM, *classes]
    by_name = {entry.metadata.name: entry for entry in classes}
    defaults = [entry for entry in classes if entry.global_default]
    default = min(defaults, key=lambda entry: entry.value or 0) if defaults else None
    return [_resolved(pod, by_name, default) for pod in pods]


def _resolved(pod: Pod, by_name: dict[str | None, PriorityClass], default: PriorityClass | None) -> Pod:
    spec = pod.spec
    if spec.priority is not None:
        return pod
    chosen = by_name.get(spec.priority_class_name) if spec.priority_class_name else default
    if chosen is None:
        return pod
    policy = spec.preemption_policy or chosen.preemption_policy
    spec = replace(
        spec, priority=chosen.value or 0, priority_class_name=chosen.metadata.name, preemption_policy=policy
    )
    return replace(pod, spec=spec)


# --- storage classes --------------------------------------------------------------------------------

_DEFAULT_CLASS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def default_storage_class(classes: Iterable[ObjectMeta]) -> str | None:
    """The newest of the classes marked as default, the first by name among those of one second."""
    marked = [c for c in classes if "true" in map((c.annotations or {}).get, _DEFAULT_CLASS)]
    marked.sort(key=lambda metadata: metadata.name or "")
    marked.sort(key=lambda metadata: metadata.creation_timestamp or "", reverse=True)
    return marked[0].name if marked else None
