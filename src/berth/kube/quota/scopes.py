"""Scopes: which of the objects of its namespace a quota is about."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from berth.kube.affinity.annotations import AnnotationError, effective_affinity
from berth.kube.objects import Affinity, Pod, PodAffinity, PodAffinityTerm, PodSpec, RawObject
from berth.kube.quota.amounts import positive
from berth.kube.selectors import EXISTS, Requirement

TERMINATING, NOT_TERMINATING = "Terminating", "NotTerminating"
BEST_EFFORT, NOT_BEST_EFFORT = "BestEffort", "NotBestEffort"
PRIORITY_CLASS, CROSS_NAMESPACE = "PriorityClass", "CrossNamespacePodAffinity"
VOLUME_ATTRIBUTES_CLASS = "VolumeAttributesClass"
SCOPES = (
    TERMINATING,
    NOT_TERMINATING,
    BEST_EFFORT,
    NOT_BEST_EFFORT,
    PRIORITY_CLASS,
    CROSS_NAMESPACE,
    VOLUME_ATTRIBUTES_CLASS,
)
_COMPUTE = ("cpu", "memory")


class ScopeRequirement(NamedTuple):
    """One scope that a quota asks for; most of them can only be there or not."""

    scope: str
    operator: str = EXISTS
    values: tuple[str, ...] = ()

    def matches(self, names: Collection[str]) -> bool:
        """Whether an object that refers to these classes (most refer to one or none) is meant."""
        if self.operator == EXISTS:
            return bool(names)
        asked = Requirement(self.scope, self.operator, frozenset(self.values))
        return any(map(asked.matches_value, names)) if names else asked.matches_value(None)


def requirements_of(spec: RawObject) -> Iterator[ScopeRequirement]:
    """The scopes in the spec of a ResourceQuota, however they are written."""
    for scope in spec.get("scopes") or ():
        yield ScopeRequirement(str(scope))
    for item in (spec.get("scopeSelector") or {}).get("matchExpressions") or ():
        values = tuple(map(str, item.get("values") or ()))
        yield ScopeRequirement(str(item.get("scopeName")), str(item.get("operator")), values)


def pod_in_scope(pod: Pod, wanted: ScopeRequirement) -> bool:
    if wanted.scope == PRIORITY_CLASS:
        name = pod.spec.priority_class_name
        return wanted.matches((name,) if name else ())
    if wanted.scope == CROSS_NAMESPACE:
        return _looks_abroad(_affinity(pod))
    judge = _JUDGES.get(wanted.scope)
    return judge is not None and judge(pod.spec)


def _affinity(pod: Pod) -> Affinity | None:
    """With the rules of the annotation; nobody follows one that cannot be read."""
    try:
        return effective_affinity(pod)
    except AnnotationError:
        return pod.spec.affinity


def claim_in_scope(claim: RawObject, wanted: ScopeRequirement) -> bool:
    return wanted.scope == VOLUME_ATTRIBUTES_CLASS and wanted.matches(_attributes_classes(claim))


def has_deadline(spec: PodSpec) -> bool:
    return (spec.active_deadline_seconds if spec.active_deadline_seconds is not None else -1) >= 0


def _is_best_effort(spec: PodSpec) -> bool:
    """Whether neither the pod nor any of its containers asks for cpu or memory."""
    containers = [*(spec.containers or ()), *(spec.init_containers or ())]
    stated = [spec.resources, *(container.resources for container in containers)]
    return not any(
        positive((listed or {}).get(name))
        for resources in stated
        if resources is not None
        for listed in (resources.requests, resources.limits)
        for name in _COMPUTE
    )


def _looks_abroad(affinity: Affinity | None) -> bool:
    rules = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return any(
        term.namespaces or term.namespace_selector is not None for each in rules for term in _terms(each)
    )


def _terms(rules: PodAffinity | None) -> Iterator[PodAffinityTerm]:
    if rules is None:
        return
    yield from rules.required_during_scheduling_ignored_during_execution or ()
    yield from rules.required_during_scheduling_required_during_execution or ()
    for weighted in rules.preferred_during_scheduling_ignored_during_execution or ():
        if weighted.pod_affinity_term is not None:
            yield weighted.pod_affinity_term


def _attributes_classes(claim: RawObject) -> set[str]:
    spec, status = claim.get("spec") or {}, claim.get("status") or {}
    named = (
        spec.get("volumeAttributesClassName"),
        status.get("currentVolumeAttributesClassName"),
        (status.get("modifyVolumeStatus") or {}).get("targetVolumeAttributesClassName"),
    )
    return {name for name in named if name}


_JUDGES: dict[str, Callable[[PodSpec], bool]] = {
    TERMINATING: has_deadline,
    NOT_TERMINATING: lambda spec: not has_deadline(spec),
    BEST_EFFORT: _is_best_effort,
    NOT_BEST_EFFORT: lambda spec: not _is_best_effort(spec),
}
