"""PodGroups and Workloads: of scheduling.k8s.io/v1alpha2 as in 1.36, and of v1beta1 as in 1.37.

Upstream: pkg/registry/scheduling/{podgroup,workload}, plugin/pkg/admission/priority and the generated
validation of both versions, with the gates GenericWorkload and GangScheduling on and the later ones
(topology constraints, resource claims, composite groups; in 1.36 also priorities and disruption modes of
whole groups) off.  A server has one version; what another one stored is converted when it is read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from berth.kube import names
from berth.kube.objects import RawObject
from berth.kube.validation.errors import FieldError, too_many
from berth.kube.versions import VERSIONS, KubernetesVersion
from berth.kube.well_known import DISRUPTION_TARGET
from berth.server import fields
from berth.server.fields import at, mapping, mappings
from berth.server.registry import checks
from berth.server.registry.checks import (
    FieldErrors,
    forbidden,
    has,
    invalid,
    numbered,
    once,
    one_of,
    required,
)
from berth.server.registry.kinds.pods.classes import HIGHEST, resolve_group_priority
from berth.server.registry.strategy import Registry, Strategy, served
from berth.server.tables import AGE, NAME, NONE, Column

ALPHA, BETA = "scheduling.k8s.io/v1alpha2", "scheduling.k8s.io/v1beta1"
MAX_TEMPLATES = 8
_POLICIES = ("basic", "gang")
_MODES = ("single", "all")
_AT_TEMPLATES = "spec.podGroupTemplates"
_PRIORITY = ("priorityClassName", "priority")
_ALPHA_OFF = ("schedulingConstraints", "resourceClaims", "disruptionMode", *_PRIORITY)
_BETA_OFF = ("schedulingConstraints", "resourceClaims", "preemptionPolicy", "parentCompositePodGroupName")
_CONDITION_STATUSES = ("False", "True", "Unknown")


class _PodGroupStrategyBase(Strategy):
    """What PodGroups and Workloads of both versions have in common."""

    off: ClassVar[tuple[str, ...]] = _ALPHA_OFF  # the fields of gates that are off

    def is_served(self, version: KubernetesVersion) -> bool:
        return self.resource.version == version.pod_group_api


class PodGroupStrategy(_PodGroupStrategyBase):
    """Pods that are scheduled together."""

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = mapping(obj, "spec")
        _drop(spec, self.off)
        spec["disruptionMode"] = "Pod"

    def validate_create(self, obj: RawObject) -> FieldErrors:
        spec = mapping(obj, "spec")
        yield from (*self._check_origin(spec), *_check_policy(spec, "spec"))

    def _check_origin(self, spec: RawObject) -> FieldErrors:
        """Which template of which Workload a group was made from."""
        ref, path = spec.get("podGroupTemplateRef"), "spec.podGroupTemplateRef"
        if ref is not None:
            workload = mapping(ref).get("workload")
            yield from _check_one_of(mapping(ref), ("workload",), path)
            if workload is not None:
                yield from _check_workload(mapping(workload), f"{path}.workload", "podGroupTemplateName")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        return _frozen(obj, old, "podGroupTemplateRef", "schedulingPolicy")

    def judge_subresource(self, registry: Registry, obj: RawObject, old: RawObject) -> list[FieldError]:
        status = mapping(obj, "status")
        status.pop("resourceClaimStatuses", None)
        return list(_check_conditions(mappings(status, "conditions")))


class BetaPodGroupStrategy(PodGroupStrategy):
    """The same in 1.37: groups have a priority, and their size may change."""

    off = _BETA_OFF

    def default(self, obj: RawObject) -> None:
        spec = mapping(obj, "spec")
        if spec.get("disruptionMode") is None:
            spec["disruptionMode"] = {"single": {}}

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        spec = obj.get("spec")
        if isinstance(spec, dict):
            _drop(spec, self.off)
            if old is None:
                resolve_group_priority(registry, self.resource, obj)

    def _check_origin(self, spec: RawObject) -> FieldErrors:
        if spec.get("workloadRef") is not None:
            yield from _check_workload(mapping(spec["workloadRef"]), "spec.workloadRef", "templateName")

    def validate_create(self, obj: RawObject) -> FieldErrors:
        yield from super().validate_create(obj)
        yield from _check_standing(mapping(obj, "spec"), "spec")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        yield from _frozen(obj, old, "workloadRef", "disruptionMode", *_PRIORITY)
        yield from _check_policy_change(mapping(obj, "spec"), mapping(old, "spec"), "spec")


class WorkloadDefinitionStrategy(_PodGroupStrategyBase):
    """A Workload: the templates of pod groups."""

    none = required(_AT_TEMPLATES)  # what is said if there is no template

    def prepare(self, registry: Registry, obj: RawObject, old: RawObject | None) -> None:
        mapping(obj, "spec").pop("compositePodGroupTemplates", None)
        for template in mappings(obj, "spec", "podGroupTemplates"):
            _drop(template, self.off)

    def validate_create(self, obj: RawObject) -> FieldErrors:
        templates = mappings(obj, "spec", "podGroupTemplates")
        yield from _check_controller(at(obj, "spec", "controllerRef"))
        if not templates:
            yield self.none
        yield from _check_templates(templates)

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        return _frozen(obj, old, "controllerRef", "podGroupTemplates")


class BetaWorkloadDefinitionStrategy(WorkloadDefinitionStrategy):
    """The same in 1.37: templates have a priority, and may change, but not come or go."""

    off = _BETA_OFF
    none = invalid("spec", "", "must specify one of: `podGroupTemplates`, `compositePodGroupTemplates`")

    def validate_create(self, obj: RawObject) -> FieldErrors:
        templates = mappings(obj, "spec", "podGroupTemplates")
        yield from super().validate_create(obj)
        for path, template in numbered(_AT_TEMPLATES, templates):
            yield from _check_standing(template, path)
        if len({tuple(template.get(name) for name in _PRIORITY) for template in templates}) > 1:
            yield invalid("spec", None, "detected multiple priority configurations")

    def validate_update(self, obj: RawObject, old: RawObject) -> FieldErrors:
        yield from _frozen(obj, old, "controllerRef")
        yield from _check_changes(*(mappings(one, "spec", "podGroupTemplates") for one in (obj, old)))


def _drop(holder: RawObject, fields: Iterable[str]) -> None:
    for name in fields:
        holder.pop(name, None)


# --- from one version to the other

# The condition that says whether a group is scheduled, by version: an object has the one of its own.
_CONDITIONS = {version.pod_group_api: version.pod_group_condition for version in VERSIONS.values()}


def converted(obj: RawObject, api_version: str) -> RawObject:
    """A PodGroup or Workload as it is in a version of the API."""
    if obj.get("apiVersion") == api_version:
        return obj
    found = copy.deepcopy(obj)
    found["apiVersion"] = api_version
    spec, metadata = mapping(found, "spec"), mapping(found, "metadata")
    # As upstream: who owned fields of a version that is not served any more does so no longer.
    kept = [each for each in mappings(metadata, "managedFields") if each.get("apiVersion") == api_version]
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = kept
    for holder in (spec, *mappings(spec, "podGroupTemplates")):
        (_to_beta if api_version == BETA else _to_alpha)(holder)
    own = _CONDITIONS[api_version.rpartition("/")[2]]
    for condition in mappings(found, "status", "conditions"):
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


def _frozen(obj: RawObject, old: RawObject, *fields: str) -> FieldErrors:
    return _unchanged(mapping(obj, "spec"), mapping(old, "spec"), "spec", *fields)


def _unchanged(new: RawObject, old: RawObject, path: str, *fields: str) -> FieldErrors:
    return (
        invalid(f"{path}.{name}", None, checks.IMMUTABLE) for name in fields if new.get(name) != old.get(name)
    )


def _check_policy(holder: RawObject, path: str) -> FieldErrors:
    policy, path = mapping(holder, "schedulingPolicy"), f"{path}.schedulingPolicy"
    yield from _check_one_of(policy, _POLICIES, path)
    if policy.get("gang") is not None:
        yield from has(f"{path}.gang", mapping(policy, "gang"), "minCount")
        count = mapping(policy, "gang").get("minCount") or 1
        yield from checks.at_least(f"{path}.gang.minCount", count, 1)


def _check_policy_change(new: RawObject, old: RawObject, path: str) -> FieldErrors:
    """Which policy it is never changes; how many pods it wants may."""
    policy, before = (mapping(one, "schedulingPolicy") for one in (new, old))
    at = f"{path}.schedulingPolicy"
    if (policy.get("basic") is None) != (before.get("basic") is None):
        yield invalid(f"{at}.basic", None, checks.IMMUTABLE)
    if policy.get("gang") is None and before.get("gang") is not None:
        yield invalid(f"{at}.gang", None, "field cannot be cleared once set")
    elif policy.get("gang") is not None and before.get("gang") is None:
        yield invalid(f"{at}.gang", None, "field cannot be set once created")
    else:
        yield from _check_policy(new, path)


def _check_standing(holder: RawObject, path: str) -> FieldErrors:
    """How a group stands to others: how it is disrupted, and its priority."""
    if holder.get("disruptionMode") is not None:
        yield from _check_one_of(mapping(holder["disruptionMode"]), _MODES, f"{path}.disruptionMode")
    yield from checks.subdomain(f"{path}.priorityClassName", holder.get("priorityClassName"), needed=False)
    priority = holder.get("priority")
    if priority is not None and priority > HIGHEST:
        yield invalid(f"{path}.priority", priority, f"must be less than or equal to {HIGHEST}")


def _check_one_of(holder: RawObject, members: tuple[str, ...], path: str) -> FieldErrors:
    given = [name for name in members if holder.get(name) is not None]
    listed = ", ".join(f"`{name}`" for name in members)
    if not given:
        yield invalid(path, "", f"must specify one of: {listed}")
    elif len(given) > 1:
        yield invalid(path, f"{{{', '.join(given)}}}", f"must specify exactly one of: {listed}")


def _check_workload(ref: RawObject, path: str, template: str) -> FieldErrors:
    yield from checks.subdomain(f"{path}.workloadName", ref.get("workloadName"))
    yield from checks.label(f"{path}.{template}", ref.get(template))


def _check_controller(given: object) -> FieldErrors:
    ref, path = mapping(given), "spec.controllerRef"
    yield from checks.subdomain(f"{path}.apiGroup", ref.get("apiGroup"), needed=False)
    if given is not None:
        yield from checks.reference(path, ref)


def _check_templates(templates: list[RawObject]) -> FieldErrors:
    if len(templates) > MAX_TEMPLATES:
        yield too_many(_AT_TEMPLATES, templates, MAX_TEMPLATES)
        return
    seen: set[object] = set()
    for path, template in numbered(_AT_TEMPLATES, templates):
        yield from once(seen, path, template.get("name"), template)
    for path, template in numbered(_AT_TEMPLATES, templates):
        yield from checks.label(f"{path}.name", template.get("name"))
        yield from _check_policy(template, path)


def _check_changes(new: list[RawObject], old: list[RawObject]) -> FieldErrors:
    before = {template.get("name"): template for template in old}
    for path, template in numbered(_AT_TEMPLATES, new):
        known = before.get(template.get("name"))
        if known is None:
            yield forbidden(path, "item may not be added")
            continue
        yield from _unchanged(template, known, path, "disruptionMode", *_PRIORITY)
        yield from _check_policy_change(template, known, path)
    if before.keys() - {template.get("name") for template in new}:
        yield forbidden(_AT_TEMPLATES, "item may not be removed")


def _check_conditions(conditions: list[RawObject]) -> FieldErrors:
    seen: set[object] = set()
    for path, condition in numbered("status.conditions", conditions):
        kind = condition.get("type") or ""
        yield from once(seen, f"{path}.type", kind)
        yield from checks.each(f"{path}.type", kind, names.label_key_errors(str(kind)))
        yield from one_of(f"{path}.status", condition.get("status") or "", _CONDITION_STATUSES, needed=False)
        yield from has(path, condition, "lastTransitionTime", "reason")


# --- columns


def _group_workload(group: RawObject, _: float) -> str:
    older = at(group, "spec", "podGroupTemplateRef", "workload", "workloadName")
    return str(at(group, "spec", "workloadRef", "workloadName") or older or NONE)


def _group_status(group: RawObject, _: float) -> str:
    disrupted = fields.condition(group, DISRUPTION_TARGET)
    scheduled = next(filter(None, (fields.condition(group, each) for each in _CONDITIONS.values())), None)
    if disrupted:
        return str(disrupted.get("reason", ""))
    if not scheduled:
        return "Pending"
    return "Scheduled" if scheduled.get("status") == "True" else "Unschedulable"


_GROUP_COLUMNS = (
    NAME,
    Column(
        "Policy",
        lambda obj, _: "Gang" if at(obj, "spec", "schedulingPolicy", "gang") is not None else "Basic",
    ),
    Column("Workload", _group_workload),
    Column("Status", _group_status),
    AGE,
)


STRATEGIES = tuple(
    strategy(
        served(version, kind, subresources="status" if kind == "PodGroup" else ""),
        columns=columns,
        status_metadata=(),
        generation=False,
        converted=partial(converted, api_version=version),
    )
    for strategy, version, kind, columns in (
        (PodGroupStrategy, ALPHA, "PodGroup", _GROUP_COLUMNS),
        (WorkloadDefinitionStrategy, ALPHA, "Workload", (NAME, AGE)),
        (BetaPodGroupStrategy, BETA, "PodGroup", _GROUP_COLUMNS),
        (BetaWorkloadDefinitionStrategy, BETA, "Workload", (NAME, AGE)),
    )
)
