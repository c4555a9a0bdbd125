"""Pods: the order and scope of the checks (pkg/apis/core/validation)."""

from __future__ import annotations

from berth.kube import names
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import Pod, PodSpec
from berth.kube.validation.affinity import check_affinity
from berth.kube.validation.annotation import check_annotation
from berth.kube.validation.containers import (
    check_containers,
    check_host_network_ports,
    check_images,
    check_init_containers,
)
from berth.kube.validation.errors import Errors, FieldError, Path
from berth.kube.validation.metadata import check_labels, check_metadata, check_pod_annotations
from berth.kube.validation.resources import check_overhead, check_pod_resources
from berth.kube.validation.scheduling import (
    check_scheduling_gates,
    check_scheduling_group,
    check_spread_constraints,
    check_tolerations,
    check_volumes,
)

_SPEC: Path = ("spec",)

RESTART_POLICIES = ("Always", "OnFailure", "Never")
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
