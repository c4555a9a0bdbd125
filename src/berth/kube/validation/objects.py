"""Nodes, namespaces and, less deeply, the other kinds: enough that bad input is named before it is used."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from berth.kube import names
from berth.kube.defaults import created
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import (
    CronJob,
    CSIDriver,
    CSINode,
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
    PodTemplateSpec,
    PriorityClass,
    ReplicationController,
    ResourceList,
    Service,
    StorageClass,
    Taint,
    VolumeAttachment,
    Workload,
)
from berth.kube.selectors import parse_label_selector, selector_from_labels
from berth.kube.validation.errors import Errors, FieldError, Path
from berth.kube.validation.metadata import check_label_key, check_labels, check_metadata
from berth.kube.validation.pod import check_pod_spec, validate_pod
from berth.kube.validation.resources import NEGATIVE, check_amount
from berth.kube.validation.scheduling import EFFECTS
from berth.kube.validation.selectors import check_label_selector, check_node_selector

_T = TypeVar("_T")


def validate(view: KubeObject, gates: FeatureGates = DEFAULT_GATES) -> list[FieldError]:
    """What is wrong with an object of any kind Berth reads. Pods must be defaulted."""
    if isinstance(view, Pod):
        return validate_pod(view, gates)
    if isinstance(view, Node):
        return validate_node(view)
    if isinstance(view, Namespace):
        return validate_namespace(view)
    errors = Errors()
    namespaced = not isinstance(
        view, PriorityClass | PersistentVolume | StorageClass | CSIDriver | CSINode | VolumeAttachment
    )
    name_check = names.dns_label_errors if isinstance(view, Service) else names.dns_subdomain_errors
    check_metadata(view.metadata, errors, namespaced=namespaced, name_check=name_check)
    _check_kind(view, errors)
    return errors


def validate_node(node: Node) -> list[FieldError]:
    errors = Errors()
    check_metadata(node.metadata, errors, namespaced=False, name_check=names.dns_subdomain_errors)
    if node.spec is not None:
        _check_taints(node.spec.taints or [], errors, ("spec", "taints"))
    if node.status is not None:
        _check_amounts(node.status.capacity, errors, ("status", "capacity"))
        _check_amounts(node.status.allocatable, errors, ("status", "allocatable"))
    return errors


def validate_namespace(namespace: Namespace) -> list[FieldError]:
    errors = Errors()
    check_metadata(namespace.metadata, errors, namespaced=False, name_check=names.dns_label_errors)
    return errors


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
        if pair in seen:
            errors.duplicate((*path, i), taint, "taints must be unique by key and effect pair")
        seen.add(pair)


# --- workloads and policies ------------------------------------------------------------------------


def _check_kind(view: KubeObject, errors: Errors) -> None:
    for kind, check in _CHECKS:
        if isinstance(view, kind):
            check(view, errors)


def _check_workload(workload: Workload, errors: Errors) -> None:
    spec, path = workload.spec, ("spec",)
    _check_count(spec.replicas, errors, (*path, "replicas"))
    if spec.selector is None:
        errors.required((*path, "selector"))
    check_label_selector(spec.selector, errors, (*path, "selector"))
    _check_template(spec.template, errors, (*path, "template"))


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


def _check_replication_controller(controller: ReplicationController, errors: Errors) -> None:
    _check_count(controller.spec.replicas, errors, ("spec", "replicas"))
    check_labels(controller.spec.selector or {}, errors, ("spec", "selector"))
    _check_template(controller.spec.template, errors, ("spec", "template"))


def _check_job(job: Job, errors: Errors) -> None:
    _check_job_spec(job.spec, errors, ("spec",))


def _check_cron_job(cron_job: CronJob, errors: Errors) -> None:
    template = cron_job.spec.job_template
    if template is None or template.spec is None:
        errors.required(("spec", "jobTemplate", "spec"))
    else:
        _check_job_spec(template.spec, errors, ("spec", "jobTemplate", "spec"))


def _check_job_spec(spec: JobSpec, errors: Errors, path: Path) -> None:
    _check_count(spec.parallelism, errors, (*path, "parallelism"))
    _check_count(spec.completions, errors, (*path, "completions"))
    check_label_selector(spec.selector, errors, (*path, "selector"))
    _check_template(spec.template, errors, (*path, "template"))


def _check_service(service: Service, errors: Errors) -> None:
    check_labels(service.spec.selector or {}, errors, ("spec", "selector"))


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


def _check_claim(claim: PersistentVolumeClaim, errors: Errors) -> None:
    check_label_selector(claim.spec.selector, errors, ("spec", "selector"))


def _check_volume(volume: PersistentVolume, errors: Errors) -> None:
    _check_amounts(volume.spec.capacity, errors, ("spec", "capacity"))
    affinity = volume.spec.node_affinity
    if affinity is not None and affinity.required is not None:
        check_node_selector(affinity.required, errors, ("spec", "nodeAffinity", "required"))


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


def _entry(kind: type[_T], check: Callable[[_T, Errors], None]) -> tuple[type, Callable[..., None]]:
    return kind, check


_CHECKS = (
    _entry(Workload, _check_workload),
    _entry(ReplicationController, _check_replication_controller),
    _entry(Job, _check_job),
    _entry(CronJob, _check_cron_job),
    _entry(Service, _check_service),
    _entry(PodDisruptionBudget, _check_budget),
    _entry(PersistentVolumeClaim, _check_claim),
    _entry(PersistentVolume, _check_volume),
)
