"""PodGroups and Workloads: of scheduling.k8s.io/v1alpha2 as in 1.36, and of v1beta1 as in 1.37.

Upstream: pkg/registry/scheduling/{podgroup,workload}, plugin/pkg/admission/priority and the generated
validation of both versions, with the gates GenericWorkload and GangScheduling on and the later ones
(topology constraints, resource claims, composite groups; in 1.36 also priorities and disruption modes of
whole groups) off.  A server has one version; what another one stored is converted when it is read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.schema.constraints import SchemaError
from berth.kube.validation import FieldError
from berth.kube.validation.errors import TOO_MANY, Errors, Path, render
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.server.registry.fields import IMMUTABLE, mapping, mappings, path_segment_errors
from berth.server.registry.kinds.pods.priority_classes import resolve_group_priority
from berth.server.registry.resources import served
from berth.server.registry.strategy import Registry, Strategy
from berth.server.tables import cluster as tables

ALPHA, BETA = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
MAX_TEMPLATES = 8
_HIGHEST_PRIORITY = 1_000_000_000
_POLICIES = ("basic", "gang")
_MODES = ("single", "all")
_TEMPLATES = ("podGroupTemplates", "compositePodGroupTemplates")
_PRIORITY = ("priorityClassName", "priority")
_ALPHA_OFF = ("schedulingConstraints", "resourceClaims", "disruptionMode", *_PRIORITY)
_BETA_OFF = ("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName")
_CONDITION_STATUSES = ("False", "True", "Unknown")


class _Grouping(Strategy):
    """What PodGroups and Workloads of both versions have in common."""

    def is_served(self, version: KubernetesVersion) -> bool:
        return self.resource.version == version.pod_group_api

    def converted(self, obj: RawObject) -> RawObject:
        return converted(obj, self.resource.api_version)


class PodGroupStrategy(_Grouping):
    """Pods that are scheduled together."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _drop(spec, _ALPHA_OFF)
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


class BetaPodGroupStrategy(PodGroupStrategy):
    """The same in 1.37: groups have a priority, and their size may change."""

    def default(self, obj: RawObject) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict) and spec.get("disruptionMode") is None:
            spec["disruptionMode"] = {"single": {}}

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _drop(spec, _BETA_OFF)
            if old is None:
                resolve_group_priority(registry, self.resource, obj)

    def validate_create(self, obj: RawObject) -> list[FieldError]:
        found, spec, path = Errors(), mapping(obj.get("spec")), ("spec",)
        if spec.get("workloadRef") is not None:
            ref, inner = mapping(spec["workloadRef"]), (*path, "workloadRef")
            _check_name(ref, "workloadName", names.dns_subdomain_errors, found, inner)
            _check_name(ref, "templateName", names.dns_label_errors, found, inner)
        _check_policy(mapping(spec.get("schedulingPolicy")), found, (*path, "schedulingPolicy"))
        _check_standing(spec, found, path)
        return list(found)

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        new, before, found = mapping(obj.get("spec")), mapping(old.get("spec")), Errors()
        fixed = _frozen(obj, old, "workloadRef", "disruptionMode", *_PRIORITY)
        _check_policy_change(new, before, found, ("spec",))
        return [*fixed, *found]


class WorkloadDefinitionStrategy(_Grouping):
    """A Workload: the templates of pod groups."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        for template in mappings(mapping(obj.get("spec")).get("podGroupTemplates")):
            _drop(template, _ALPHA_OFF)

    def validate_create(self, obj: RawObject) -> list[FieldError]:
        found, spec = Errors(), mapping(obj.get("spec"))
        if spec.get("controllerRef") is not None:
            _check_controller(mapping(spec["controllerRef"]), found, ("spec", "controllerRef"))
        templates, path = mappings(spec.get("podGroupTemplates")), ("spec", "podGroupTemplates")
        if not templates:
            self._refuse_none(found)
        _check_templates(templates, found, path)
        self._check_more(templates, found, path)
        return list(found)

    def _refuse_none(self, found: Errors) -> None:
        found.required(("spec", "podGroupTemplates"))

    def _check_more(self, templates: list[RawObject], found: Errors, path: Path) -> None:
        """What templates have beside a name and a policy."""

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        return _frozen(obj, old, "controllerRef", "podGroupTemplates")


class BetaWorkloadDefinitionStrategy(WorkloadDefinitionStrategy):
    """The same in 1.37: templates have a priority, and may change, but not come or go."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = mapping(obj.get("spec"))
        spec.pop("compositePodGroupTemplates", None)
        for template in mappings(spec.get("podGroupTemplates")):
            _drop(template, _BETA_OFF)

    def _refuse_none(self, found: Errors) -> None:
        found.invalid(("spec",), "", f"must specify one of: {_listed(_TEMPLATES)}")

    def _check_more(self, templates: list[RawObject], found: Errors, path: Path) -> None:
        for i, template in enumerate(templates):
            _check_standing(template, found, (*path, i))
        if len({tuple(template.get(name) for name in _PRIORITY) for template in templates}) > 1:
            found.invalid(path[:1], None, "detected multiple priority configurations")

    def validate_update(self, obj: RawObject, old: RawObject) -> list[FieldError]:
        field = _TEMPLATES[0]
        path: Path = ("spec", field)
        new = mappings(mapping(obj.get("spec")).get(field))
        before = {each.get("name"): each for each in mappings(mapping(old.get("spec")).get(field))}
        found = Errors(_frozen(obj, old, "controllerRef"))
        for i, template in enumerate(new):
            known = before.get(template.get("name"))
            if known is None:
                found.forbidden((*path, i), "item may not be added")
                continue
            for name in ("disruptionMode", *_PRIORITY):
                if template.get(name) != known.get(name):
                    found.invalid((*path, i, name), None, IMMUTABLE)
            _check_policy_change(template, known, found, (*path, i))
        if before.keys() - {template.get("name") for template in new}:
            found.forbidden(path, "item may not be removed")
        return list(found)


STRATEGIES = (
    PodGroupStrategy(
        served(ALPHA, "podgroups", "PodGroup", subresources="status"),
        columns=tables.POD_GROUP,
        status_metadata=(),
        generation=False,
        converts=True,
    ),
    WorkloadDefinitionStrategy(
        served(ALPHA, "workloads", "Workload"), columns=tables.PLAIN, generation=False, converts=True
    ),
    BetaPodGroupStrategy(
        served(BETA, "podgroups", "PodGroup", subresources="status"),
        columns=tables.POD_GROUP,
        status_metadata=(),
        generation=False,
        converts=True,
    ),
    BetaWorkloadDefinitionStrategy(
        served(BETA, "workloads", "Workload"), columns=tables.PLAIN, generation=False, converts=True
    ),
)


def _drop(holder: RawObject, fields: Iterable[str]) -> None:
    for name in fields:
        holder.pop(name, None)


# --- from one version to the other

_CONDITIONS = {version.pod_group_api: version.pod_group_condition for version in VERSIONS.values()}


def converted(obj: RawObject, api_version: str) -> RawObject:
    """A PodGroup or Workload as it is in a version of the API."""
    if obj.get("apiVersion") == api_version:
        return obj
    found = copy.deepcopy(obj)
    found["apiVersion"] = api_version
    spec, metadata = mapping(found.get("spec")), mapping(found.get("metadata"))
    # As upstream: who owned fields of a version that is not served any more does so no longer.
    kept = [each for each in mappings(metadata.get("managedFields")) if each.get("apiVersion") == api_version]
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = kept
    for holder in (spec, *mappings(spec.get("podGroupTemplates"))):
        (_to_beta if api_version == BETA else _to_alpha)(holder)
    own = _CONDITIONS[api_version.rpartition("/")[2]]
    for condition in mappings(mapping(found.get("status")).get("conditions")):
        if condition.get("type") in _CONDITIONS.values():
            condition["type"] = own
    return found


def _to_beta(holder: RawObject) -> None:
    if (ref := mapping(holder.pop("podGroupTemplateRef", None)).get("workload")) is not None:
        holder["workloadRef"] = {
            "workloadName": mapping(ref).get("workloadName"),
            "templateName": mapping(ref).get("podGroupTemplateName"),
        }
    if (mode := holder.get("disruptionMode")) is not None:
        holder["disruptionMode"] = {"single" if mode == "Pod" else "all": {}}


def _to_alpha(holder: RawObject) -> None:
    _drop(holder, _PRIORITY)
    if (ref := holder.pop("workloadRef", None)) is not None:
        inner = {
            "workloadName": mapping(ref).get("workloadName"),
            "podGroupTemplateName": mapping(ref).get("templateName"),
        }
        holder["podGroupTemplateRef"] = {"workload": inner}
    if (mode := holder.get("disruptionMode")) is not None:
        holder["disruptionMode"] = "PodGroup" if mapping(mode).get("all") is not None else "Pod"


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


def _check_policy_change(new: RawObject, old: RawObject, found: Errors, path: Path) -> None:
    """Which policy it is never changes; how many pods it wants may."""
    path = (*path, "schedulingPolicy")
    policy, before = mapping(new.get("schedulingPolicy")), mapping(old.get("schedulingPolicy"))
    if (policy.get("basic") is None) != (before.get("basic") is None):
        found.invalid((*path, "basic"), None, IMMUTABLE)
    if policy.get("gang") is None and before.get("gang") is not None:
        found.invalid((*path, "gang"), None, "field cannot be cleared once set")
    elif policy.get("gang") is not None and before.get("gang") is None:
        found.invalid((*path, "gang"), None, "field cannot be set once created")
    else:
        _check_policy(policy, found, path)


def _check_standing(holder: RawObject, found: Errors, path: Path) -> None:
    """How a group stands to others: how it is disrupted, and its priority."""
    if holder.get("disruptionMode") is not None:
        _check_one_of(mapping(holder["disruptionMode"]), _MODES, found, (*path, "disruptionMode"))
    if holder.get("priorityClassName"):
        _check_name(holder, "priorityClassName", names.dns_subdomain_errors, found, path)
    priority = holder.get("priority")
    if priority is not None and priority > _HIGHEST_PRIORITY:
        detail = f"must be less than or equal to {_HIGHEST_PRIORITY}"
        found.invalid((*path, "priority"), priority, detail)


def _listed(members: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in members)


def _check_one_of(holder: RawObject, members: tuple[str, ...], found: Errors, path: Path) -> None:
    given = [name for name in members if holder.get(name) is not None]
    if not given:
        found.invalid(path, "", f"must specify one of: {_listed(members)}")
    elif len(given) > 1:
        found.invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {_listed(members)}")


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
