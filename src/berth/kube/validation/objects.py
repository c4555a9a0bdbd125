"""Pods, nodes and, less deeply, other kinds: order and scope of the checks (pkg/apis/core/validation)."""

from __future__ import annotations

from berth.kube import names
from berth.kube.api_resources import VIEWS
from berth.kube.defaults import created
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import (
    CronJob,
    Job,
    JobSpec,
    KubeObject,
    Namespace,
    Node,
    ObjectMeta,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PodSpec,
    PodTemplateSpec,
    ReplicationController,
    ResourceList,
    Service,
    Taint,
    Workload,
)
from berth.kube.selectors import parse_label_selector, selector_from_labels
from berth.kube.taints import EFFECTS
from berth.kube.validation.annotation import check_annotation
from berth.kube.validation.containers import (
    RESTART_POLICIES,
    check_containers,
    check_host_network_ports,
    check_images,
    check_init_containers,
)
from berth.kube.validation.errors import Errors, FieldError, Path
from berth.kube.validation.metadata import (
    check_label_key,
    check_label_selector,
    check_labels,
    check_metadata,
    check_node_selector,
    check_pod_annotations,
)
from berth.kube.validation.resources import NEGATIVE, check_amount, check_overhead, check_pod_resources
from berth.kube.validation.scheduling import (
    check_affinity,
    check_scheduling_gates,
    check_scheduling_group,
    check_spread_constraints,
    check_tolerations,
    check_volumes,
)

_CLUSTER_SCOPED = tuple(view for resource, view in VIEWS.items() if not resource.namespaced)
_SPEC: Path = ("spec",)


def validate(view: KubeObject, gates: FeatureGates = DEFAULT_GATES) -> list[FieldError]:
    """What is wrong with an object of any kind Berth reads. Pods must be defaulted."""
    if isinstance(view, Pod):
        return validate_pod(view, gates)
    errors = Errors()
    is_label = isinstance(view, Namespace | Service)
    name_check = names.dns_label_errors if is_label else names.dns_subdomain_errors
    namespaced = not isinstance(view, _CLUSTER_SCOPED)
    check_metadata(view.metadata, errors, namespaced=namespaced, name_check=name_check)
    _check_kind(view, errors)
    return errors


def _check_kind(view: KubeObject, errors: Errors) -> None:
    match view:
        case Node():
            _check_node(view, errors)
        case Workload():
            _check_workload(view, errors)
        case ReplicationController():
            _check_count(view.spec.replicas, errors, (*_SPEC, "replicas"))
            check_labels(view.spec.selector or {}, errors, (*_SPEC, "selector"))
            _check_template(view.spec.template, errors, (*_SPEC, "template"))
        case Job():
            _check_job_spec(view.spec, errors, _SPEC)
        case CronJob():
            template = view.spec.job_template
            _check_job_spec(template.spec if template else None, errors, (*_SPEC, "jobTemplate", "spec"))
        case Service():
            check_labels(view.spec.selector or {}, errors, (*_SPEC, "selector"))
        case PodDisruptionBudget():
            _check_budget(view, errors)
        case PersistentVolumeClaim():
            check_label_selector(view.spec.selector, errors, (*_SPEC, "selector"))
        case PersistentVolume():
            _check_volume(view, errors)


# --- pods -----------------------------------------------------------------------------------------

PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")


def validate_pod(pod: Pod, gates: FeatureGates = DEFAULT_GATES) -> list[FieldError]:
    """What the API server objects to when the pod is created.

    The pod must be defaulted and its label keys merged (:func:`berth.kube.defaults.created`).
    Rules in the affinity annotation are held to the same conditions as those in the spec, and to
    those of :mod:`berth.kube.validation.annotation`; those of a disabled gate are not looked at.
    """
    errors = Errors()
    check_metadata(pod.metadata, errors, namespaced=True, name_check=names.dns_subdomain_errors)
    if pod.metadata.annotations:
        check_pod_annotations(pod.metadata.annotations, pod.spec.node_name, errors)
        check_annotation(pod, errors, gates=gates)
    check_pod_spec(pod.spec, errors, _SPEC)
    if pod.spec.node_name and pod.spec.scheduling_gates:
        detail = "cannot be set until all schedulingGates have been cleared"
        errors.forbidden((*_SPEC, "nodeName"), detail)
    check_images(pod.spec.containers or [], errors, (*_SPEC, "containers"))
    check_images(pod.spec.init_containers or [], errors, (*_SPEC, "initContainers"))
    return errors


def check_pod_spec(spec: PodSpec, errors: Errors, path: Path) -> None:
    """A pod's spec, or that of a workload's template."""
    containers = spec.containers or []
    if spec.volumes:
        check_volumes(spec.volumes, errors, (*path, "volumes"))
    check_containers(containers, errors, (*path, "containers"))
    if spec.init_containers:
        check_init_containers(spec.init_containers, containers, errors, (*path, "initContainers"))
    if spec.resources is not None:
        check_pod_resources(spec, spec.resources, errors, (*path, "resources"))
    if spec.host_network:
        _check_host_network(spec, errors, path)
    if spec.node_selector:
        check_labels(spec.node_selector, errors, (*path, "nodeSelector"))
    if spec.affinity is not None:
        check_affinity(spec.affinity, errors, (*path, "affinity"))
    if spec.scheduling_group is not None:
        check_scheduling_group(spec.scheduling_group, errors, (*path, "schedulingGroup"))
    if spec.scheduling_gates:
        check_scheduling_gates(spec.scheduling_gates, errors, (*path, "schedulingGates"))
    if spec.topology_spread_constraints:
        check_spread_constraints(
            spec.topology_spread_constraints, errors, (*path, "topologySpreadConstraints")
        )
    if spec.tolerations:
        check_tolerations(spec.tolerations, errors, (*path, "tolerations"))
    if spec.overhead is not None:
        check_overhead(spec.overhead, errors, (*path, "overhead"))
    _check_names_and_policies(spec, errors, path)


def _check_host_network(spec: PodSpec, errors: Errors, path: Path) -> None:
    check_host_network_ports(spec.containers or [], errors, (*path, "containers"))
    if spec.host_users is False:
        errors.forbidden((*path, "hostNetwork"), "when `hostUsers` is false")


def _check_names_and_policies(spec: PodSpec, errors: Errors, path: Path) -> None:
    for field, name in (("nodeName", spec.node_name), ("priorityClassName", spec.priority_class_name)):
        if name:
            errors.invalid_for_each((*path, field), name, names.dns_subdomain_errors(name))
    errors.one_of((*path, "restartPolicy"), spec.restart_policy or None, RESTART_POLICIES)
    if spec.preemption_policy == "":
        errors.required((*path, "preemptionPolicy"))
    else:
        errors.one_of((*path, "preemptionPolicy"), spec.preemption_policy, PREEMPTION_POLICIES)


# --- nodes and volumes ----------------------------------------------------------------------------


def _check_node(node: Node, errors: Errors) -> None:
    if node.spec is not None:
        _check_taints(node.spec.taints or [], errors, (*_SPEC, "taints"))
    if node.status is not None:
        _check_amounts(node.status.capacity, errors, ("status", "capacity"))
        _check_amounts(node.status.allocatable, errors, ("status", "allocatable"))


def _check_volume(volume: PersistentVolume, errors: Errors) -> None:
    _check_amounts(volume.spec.capacity, errors, (*_SPEC, "capacity"))
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        check_node_selector(affinity.required, errors, (*_SPEC, "nodeAffinity", "required"))


def _check_amounts(listed: ResourceList | None, errors: Errors, path: Path) -> None:
    for name, raw in (listed or {}).items():
        check_amount(name, raw, errors, (*path, name))


def _check_taints(taints: list[Taint], errors: Errors, path: Path) -> None:
    # Upstream reports these under metadata.taints; the field is spec.taints, and we say so.
    seen: set[tuple[str, str]] = set()
    for i, taint in enumerate(taints):
        check_label_key(taint.key or "", errors, (*path, i, "key"))
        if messages := names.label_value_errors(taint.value or ""):
            errors.invalid((*path, i, "value"), taint.value, ";".join(messages))
        if not taint.effect:
            errors.required((*path, i, "effect"))
        errors.one_of((*path, i, "effect"), taint.effect or None, EFFECTS)
        pair = (taint.key or "", taint.effect or "")
        errors.once(seen, (*path, i), pair, taint, "taints must be unique by key and effect pair")


# --- workloads and policies ------------------------------------------------------------------------


def _check_workload(workload: Workload, errors: Errors) -> None:
    spec = workload.spec
    _check_count(spec.replicas, errors, (*_SPEC, "replicas"))
    if spec.selector is None:
        errors.required((*_SPEC, "selector"))
    check_label_selector(spec.selector, errors, (*_SPEC, "selector"))
    _check_template(spec.template, errors, (*_SPEC, "template"))


def selector_errors(workload: Workload | ReplicationController) -> list[FieldError]:
    """That a workload does not select its own pods, which the API server refuses; lint has more to say."""
    template, errors = workload.spec.template, Errors()
    labels = (template.metadata.labels if template and template.metadata else None) or {}
    if isinstance(workload, Workload):
        selector = parse_label_selector(workload.spec.selector)
        if selector.everything:
            kind = (workload.kind or "workload").lower()
            errors.invalid(("spec", "selector"), {}, f"empty selector is invalid for {kind}")
    else:  # what is left out is the labels of the template
        selector = selector_from_labels(workload.spec.selector or labels)
    if not selector.matches(labels):
        path = ("spec", "template", "metadata", "labels")
        errors.invalid(path, labels, "`selector` does not match template `labels`")
    return errors


def _check_job_spec(spec: JobSpec | None, errors: Errors, path: Path) -> None:
    if spec is None:
        errors.required(path)
        return
    _check_count(spec.parallelism, errors, (*path, "parallelism"))
    _check_count(spec.completions, errors, (*path, "completions"))
    check_label_selector(spec.selector, errors, (*path, "selector"))
    _check_template(spec.template, errors, (*path, "template"))


def _check_budget(budget: PodDisruptionBudget, errors: Errors) -> None:
    check_label_selector(budget.spec.selector, errors, ("spec", "selector"))
    if budget.spec.min_available is not None and budget.spec.max_unavailable is not None:
        spec = budget.spec
        shown = {  # as upstream shows it: by the names of its Go fields
            "MinAvailable": spec.min_available,
            "Selector": spec.selector,
            "MaxUnavailable": spec.max_unavailable,
            "UnhealthyPodEvictionPolicy": spec.unhealthy_pod_eviction_policy,
        }
        errors.invalid(("spec",), shown, "minAvailable and maxUnavailable cannot be both set")


def _check_count(count: int | None, errors: Errors, path: Path) -> None:
    if count is not None and count < 0:
        errors.invalid(path, count, NEGATIVE)


def _check_template(template: PodTemplateSpec | None, errors: Errors, path: Path) -> None:
    if template is None or template.spec is None:
        errors.required((*path, "spec"))
        return
    metadata = template.metadata or ObjectMeta()
    check_labels(metadata.labels or {}, errors, (*path, "metadata", "labels"))
    pod = created(Pod(metadata=metadata, spec=template.spec))
    check_pod_spec(pod.spec, errors, (*path, "spec"))
