"""PodGroups and Workloads.

Upstream: pkg/registry/scheduling/{podgroup,workload} and the generated validation of
scheduling.k8s.io/v1alpha2, with the gates GenericWorkload and GangScheduling on and the later ones
(topology constraints, resource claims, priorities and disruption modes of whole groups) off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.schema.constraints import TOO_MANY, SchemaError
from berth.kube.validation import FieldError
from berth.kube.validation.errors import Errors, Path, render
from berth.server.registry.fields import IMMUTABLE, mapping, mappings, path_segment_errors
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.tables import cluster as tables

_GROUP_VERSION = "scheduling.k8s.io/v1alpha2"
MAX_TEMPLATES = 8
_POLICIES = ("basic", "gang")
_SWITCHED_OFF = ("schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority")
_CONDITION_STATUSES = ("False", "True", "Unknown")


class PodGroupStrategy(Strategy):
    """Pods that are scheduled together."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _drop_switched_off(spec)
            spec["disruptionMode"] = "Pod"

    def validate_create(self, obj: RawObject) -> list[FieldError]:
        found, spec = Errors(), mapping(obj.get("spec"))
        if spec.get("podGroupTemplateRef") is not None:
            _check_template_ref(mapping(spec["podGroupTemplateRef"]), found, ("spec", "podGroupTemplateRef"))
        _check_policy(mapping(spec.get("schedulingPolicy")), found, ("spec", "schedulingPolicy"))
        return list(found)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return _frozen(obj, old, "podGroupTemplateRef", "schedulingPolicy")

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status = mapping(obj.get("status"))
        status.pop("resourceClaimStatuses", None)
        return _check_conditions(mappings(status.get("conditions")))


class WorkloadDefinitionStrategy(Strategy):
    """A Workload: the templates of pod groups."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        for template in mappings(mapping(obj.get("spec")).get("podGroupTemplates")):
            _drop_switched_off(template)

    def validate_create(self, obj: RawObject) -> list[FieldError]:
        found, spec = Errors(), mapping(obj.get("spec"))
        if spec.get("controllerRef") is not None:
            _check_controller(mapping(spec["controllerRef"]), found, ("spec", "controllerRef"))
        _check_templates(mappings(spec.get("podGroupTemplates")), found, ("spec", "podGroupTemplates"))
        return list(found)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return _frozen(obj, old, "controllerRef", "podGroupTemplates")


STRATEGIES = (
    PodGroupStrategy(
        served(_GROUP_VERSION, "podgroups", "PodGroup", subresources="status"),
        columns=tables.POD_GROUP,
        generation=False,
    ),
    WorkloadDefinitionStrategy(
        served(_GROUP_VERSION, "workloads", "Workload"),
        columns=tables.PLAIN,
        generation=False,
    ),
)


def _drop_switched_off(holder: RawObject) -> None:
    for name in _SWITCHED_OFF:
        holder.pop(name, None)


# --- checks


def _frozen(obj: RawObject, old: RawObject, *fields: str) -> list[FieldError]:
    new_spec, old_spec = mapping(obj.get("spec")), mapping(old.get("spec"))
    return [
        FieldError(f"spec.{name}", "FieldValueInvalid", IMMUTABLE)
        for name in fields
        if new_spec.get(name) != old_spec.get(name)
    ]


def _check_policy(policy: RawObject, found: Errors, path: Path) -> None:
    _check_one_of(policy, _POLICIES, found, path)
    gang = policy.get("gang")
    if gang is None:
        return
    count = mapping(gang).get("minCount") or 0
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
        workload, inner = mapping(ref["workload"]), (*path, "workload")
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
        _check_policy(mapping(template.get("schedulingPolicy")), found, (*path, i, "schedulingPolicy"))


def _check_name(
    holder: RawObject, field: str, check: Callable[[str], Iterable[str]], found: Errors, path: Path
) -> None:
    name = holder.get(field)
    if not name:
        found.required((*path, field))
    else:
        found.invalid_for_each((*path, field), name, check(str(name)))


def _check_conditions(conditions: list[RawObject]) -> list[FieldError]:
    found = Errors()
    seen: set[object] = set()
    for i, condition in enumerate(conditions):
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
