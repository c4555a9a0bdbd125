"""PodGroups and Workloads on their way into the store.

Upstream: pkg/registry/scheduling/{podgroup,workload} and the generated validation of
scheduling.k8s.io/v1alpha2, with the gates GenericWorkload and GangScheduling on and the later ones
(topology constraints, resource claims, priorities and disruption modes of whole groups) off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import Errors, Path, render
from berth.server.registry.metadata import IMMUTABLE
from berth.server.registry.resources import ServedResource
from berth.server.schema.constraints import TOO_MANY, SchemaError

GROUP = "scheduling.k8s.io"
POD_GROUP, WORKLOAD = (GROUP, "PodGroup"), (GROUP, "Workload")
MAX_TEMPLATES = 8
_POLICIES = ("basic", "gang")
_SWITCHED_OFF = ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority")
_FROZEN = {
    POD_GROUP: ("podGroupTemplateRef", "schedulingPolicy"),
    WORKLOAD: ("controllerRef", "podGroupTemplates"),
}
_CONDITION_STATUSES = ("False", "True", "Unknown")


def prepare(resource: ServedResource, obj: RawObject) -> None:
    """Drop the fields of features that are off, in place."""
    group_kind = (resource.group, resource.kind)
    spec = obj.get("spec")
    if not isinstance(spec, dict):
        return
    if group_kind == POD_GROUP:
        _without_switched_off(spec)
        spec["disruptionMode"] = "Pod"
    elif group_kind == WORKLOAD:
        for template in _mappings(spec.get("podGroupTemplates")):
            _without_switched_off(template)


def prepare_status(resource: ServedResource, obj: RawObject) -> None:
    if (resource.group, resource.kind) == POD_GROUP and isinstance(obj.get("status"), dict):
        obj["status"].pop("resourceClaimStatuses", None)


def _without_switched_off(holder: RawObject) -> None:
    for name in _SWITCHED_OFF:
        holder.pop(name, None)


# --- checks ---------------------------------------------------------------------------------------


def problems(resource: ServedResource, obj: RawObject) -> list[FieldError]:
    """What is wrong with a new object; what may change later was right when it was created."""
    found = Errors()
    spec = _mapping(obj.get("spec"))
    group_kind = (resource.group, resource.kind)
    if group_kind == POD_GROUP:
        if spec.get("podGroupTemplateRef") is not None:
            _check_template_ref(_mapping(spec["podGroupTemplateRef"]), found, ("spec", "podGroupTemplateRef"))
        _check_policy(_mapping(spec.get("schedulingPolicy")), found, ("spec", "schedulingPolicy"))
    elif group_kind == WORKLOAD:
        if spec.get("controllerRef") is not None:
            _check_controller(_mapping(spec["controllerRef"]), found, ("spec", "controllerRef"))
        _check_templates(_mappings(spec.get("podGroupTemplates")), found, ("spec", "podGroupTemplates"))
    return list(found)


def update_problems(resource: ServedResource, obj: RawObject, old: RawObject) -> list[FieldError]:
    new_spec, old_spec = _mapping(obj.get("spec")), _mapping(old.get("spec"))
    return [
        FieldError(f"spec.{name}", "FieldValueInvalid", IMMUTABLE)
        for name in _FROZEN.get((resource.group, resource.kind), ())
        if new_spec.get(name) != old_spec.get(name)
    ]


def _check_policy(policy: RawObject, found: Errors, path: Path) -> None:
    _check_one_of(policy, _POLICIES, found, path)
    gang = policy.get("gang")
    if gang is None:
        return
    count = _mapping(gang).get("minCount") or 0
    if not count:
        found.required((*path, "gang", "minCount"))
    elif count < 1:
        found.invalid((*path, "gang", "minCount"), count, "must be greater than or equal to 1")


def _check_one_of(holder: RawObject, members: tuple[str, ...], found: Errors, path: Path) -> None:
    given = [name for name in members if holder.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not given:
        found.invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        found.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def _check_template_ref(ref: RawObject, found: Errors, path: Path) -> None:
    _check_one_of(ref, ("workload",), found, path)
    if ref.get("workload") is not None:
        workload, inner = _mapping(ref["workload"]), (*path, "workload")
        _check_name(workload, "workloadName", names.dns_subdomain_errors, found, inner)
        _check_name(workload, "podGroupTemplateName", names.dns_label_errors, found, inner)


def _check_controller(ref: RawObject, found: Errors, path: Path) -> None:
    if ref.get("apiGroup"):
        _check_name(ref, "apiGroup", names.dns_subdomain_errors, found, path)
    _check_name(ref, "kind", path_segment_errors, found, path)
    _check_name(ref, "name", path_segment_errors, found, path)


def _check_templates(templates: list[RawObject], found: Errors, path: Path) -> None:
    if not templates:
        found.required(path)
    if len(templates) > MAX_TEMPLATES:
        detail = f"must have at most {MAX_TEMPLATES} items"
        found.append(SchemaError(render(path), TOO_MANY, detail, len(templates)))
        return
    seen: set[object] = set()
    for i, template in enumerate(templates):
        if template.get("name") in seen:
            found.duplicate((*path, i), template)
        seen.add(template.get("name"))
    for i, template in enumerate(templates):
        _check_name(template, "name", names.dns_label_errors, found, (*path, i))
        _check_policy(_mapping(template.get("schedulingPolicy")), found, (*path, i, "schedulingPolicy"))


def _check_name(
    holder: RawObject, field: str, check: Callable[[str], Iterable[str]], found: Errors, path: Path
) -> None:
    name = holder.get(field)
    if not name:
        found.required((*path, field))
    else:
        found.invalid_for_each((*path, field), name, check(str(name)))


def path_segment_errors(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be '{name}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in name]


def status_problems(resource: ServedResource, obj: RawObject) -> list[FieldError]:
    if (resource.group, resource.kind) != POD_GROUP:
        return []
    found = Errors()
    seen: set[object] = set()
    for i, condition in enumerate(_mappings(_mapping(obj.get("status")).get("conditions"))):
        path: Path = ("status", "conditions", i)
        kind = condition.get("type") or ""
        if kind in seen:
            found.duplicate((*path, "type"), kind)
        seen.add(kind)
        found.invalid_for_each((*path, "type"), kind, names.label_key_errors(str(kind)))
        if condition.get("status") not in _CONDITION_STATUSES:
            found.not_supported((*path, "status"), condition.get("status") or "", _CONDITION_STATUSES)
        for name in ("lastTransitionTime", "reason"):
            if not condition.get(name):
                found.required((*path, name))
    return list(found)


def _mapping(value: object) -> RawObject:
    return value if isinstance(value, dict) else {}


def _mappings(value: object) -> list[RawObject]:
    return [_mapping(item) for item in value] if isinstance(value, list) else []
