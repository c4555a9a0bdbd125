"""Whether an object may be stored: the checks of :mod:`berth.kube.validation`, and what they leave out."""

from __future__ import annotations

from collections.abc import Callable

from berth.kube import names
from berth.kube.gates import FeatureGates
from berth.kube.kinds import view_of as kind_view
from berth.kube.objects import LabelSelector, ObjectMeta, RawObject
from berth.kube.selectors import parse_label_selector
from berth.kube.validation import FieldError, validate
from berth.kube.validation.errors import Errors
from berth.kube.validation.metadata import check_metadata
from berth.kube.validation.propagation import validate_annotated
from berth.server.registry.catalog import Endpoint
from berth.server.registry.decoding import decode_as
from berth.server.registry.kinds import pod_groups, volumes
from berth.server.registry.kinds.karmada import admission as karmada
from berth.server.registry.kinds.karmada.definitions import GROUPS as KARMADA_GROUPS
from berth.server.registry.metadata import IMMUTABLE

_INVALID = "FieldValueInvalid"
_WORKLOADS = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
_RBAC = "rbac.authorization.k8s.io"


def problems(endpoint: Endpoint, obj: RawObject, gates: FeatureGates) -> list[FieldError]:
    """What is wrong with a defaulted object. Pods are judged in :mod:`berth.server.registry.writes`."""
    resource = endpoint.resource
    view = kind_view(resource.api_version, resource.kind) if endpoint.crd is None else None
    if view is not None:
        found = validate(decode_as(obj, view), gates)
    else:
        checked = Errors()
        metadata = decode_as(obj["metadata"], ObjectMeta)
        check = _name_check(endpoint)
        check_metadata(metadata, checked, namespaced=resource.namespaced, name_check=check)
        found = list(checked)
    if resource.kind in _WORKLOADS and resource.group == "apps":
        found += _check_selector(obj)
    if (resource.group, resource.kind) == ("batch", "Job"):
        found += _check_job(obj)
    if endpoint.crd is None:
        found += volumes.problems(resource, obj)
    elif endpoint.schema is not None:
        found += endpoint.schema.validate(obj)
        if not found:
            found += karmada.problems(resource, obj)
    if resource.group not in KARMADA_GROUPS:
        found += validate_annotated(obj["metadata"].get("annotations"))
    return found


def update_problems(endpoint: Endpoint, obj: RawObject, old: RawObject) -> list[FieldError]:
    """What an update may not change, beside metadata; pods have rules of their own."""
    resource = endpoint.resource
    group_kind = (resource.group, resource.kind)
    if resource.group == "apps" and resource.kind in _WORKLOADS:
        return _unchanged(obj, old, "spec", "selector")
    if group_kind == ("batch", "Job"):
        return [
            *_unchanged(obj, old, "spec", "selector"),
            *_unchanged(obj, old, "spec", "completions"),
            *_check_job_template(obj, old),
        ]
    if group_kind == ("scheduling.k8s.io", "PriorityClass"):
        return [
            FieldError(field, "FieldValueForbidden", f"may not be changed in an update{_dot(field)}")
            for field in ("value", "preemptionPolicy")
            if obj.get(field) != old.get(field)
        ]
    if resource.kind in ("ConfigMap", "Secret") and old.get("immutable"):
        return [
            FieldError(field, "FieldValueForbidden", "field is immutable when `immutable` is set")
            for field in ("immutable", "data", "binaryData")
            if obj.get(field) != old.get(field)
        ]
    if endpoint.crd is not None:
        return karmada.update_problems(resource, obj, old)
    return [*pod_groups.update_problems(resource, obj, old), *volumes.update_problems(resource, obj, old)]


def _dot(field: str) -> str:
    return "." if field == "value" else ""


def _unchanged(obj: RawObject, old: RawObject, *path: str) -> list[FieldError]:
    new_value: object = obj
    old_value: object = old
    for name in path:
        new_value = new_value.get(name) if isinstance(new_value, dict) else None
        old_value = old_value.get(name) if isinstance(old_value, dict) else None
    if new_value == old_value:
        return []
    return [FieldError(".".join(path), _INVALID, IMMUTABLE, new_value)]


def _check_job_template(obj: RawObject, old: RawObject) -> list[FieldError]:
    if old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime"):
        return []  # scheduling directives of a suspended job may still change
    return _unchanged(obj, old, "spec", "template")


def _check_selector(obj: RawObject) -> list[FieldError]:
    spec = obj.get("spec") or {}
    given, template = spec.get("selector"), spec.get("template") or {}
    if not isinstance(given, dict):
        return []
    selector = parse_label_selector(decode_as(given, LabelSelector))
    if selector.everything:
        detail = f"empty selector is invalid for {obj['kind'].lower()}"
        return [FieldError("spec.selector", _INVALID, detail, given)]
    labels = (template.get("metadata") or {}).get("labels") or {}
    found = []
    if not selector.matches(labels):
        detail = "`selector` does not match template `labels`"
        found.append(FieldError("spec.template.metadata.labels", _INVALID, detail, labels))
    policy = (template.get("spec") or {}).get("restartPolicy", "Always")
    if policy != "Always":
        detail = 'supported values: "Always"'
        path = "spec.template.spec.restartPolicy"
        found.append(FieldError(path, "FieldValueNotSupported", detail, policy))
    return found


def _check_job(obj: RawObject) -> list[FieldError]:
    template = (obj.get("spec") or {}).get("template") or {}
    policy = (template.get("spec") or {}).get("restartPolicy", "Always")
    if policy in ("OnFailure", "Never"):
        return []
    path = "spec.template.spec.restartPolicy"
    if policy == "Always":
        return [FieldError(path, "FieldValueRequired", 'valid values: "OnFailure", "Never"')]
    detail = 'supported values: "OnFailure", "Never"'
    return [FieldError(path, "FieldValueNotSupported", detail, policy)]


def _name_check(endpoint: Endpoint) -> Callable[[str], list[str]]:
    if endpoint.resource.group == _RBAC:
        return pod_groups.path_segment_errors
    return names.dns_subdomain_errors
