"""Propagation policies judged by what they would do, as `berth lint` judges workloads."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from berth.engine.offline.lint.findings import Check, Hit, Severity, check, hit
from berth.kube.affinity.workload_annotations import (
    WORKLOAD_AFFINITY_ANNOTATION,
    annotated_affinity,
    effective_placement,
)
from berth.kube.api_resources import Resource
from berth.kube.karmada import (
    DIVIDED,
    Placement,
    PropagationPolicy,
    ResourceSelector,
    WorkloadAntiAffinity,
    WorkloadTerm,
)
from berth.kube.manifests.manifest import Manifest
from berth.kube.objects import ObjectMeta
from berth.kube.propagation.policies import fit, is_reserved
from berth.kube.text.near import near_word
from berth.kube.well_known import PREFERRED_DURING_SCHEDULING, REQUIRED_DURING_SCHEDULING

_NO_TERMS = WorkloadAntiAffinity()
_ANNOTATION = f"metadata.annotations[{WORKLOAD_AFFINITY_ANNOTATION}]"


@dataclass(frozen=True, slots=True)
class LintedPolicy:
    """A policy with its placement and the rules of its annotation beside each other."""

    manifest: Manifest
    view: PropagationPolicy

    @property
    def placement(self) -> Placement:
        annotated = annotated_affinity(self.view.metadata.annotations)
        return effective_placement(self.view.spec.placement, annotated) or Placement()

    @property
    def terms(self) -> Iterator[tuple[str, WorkloadTerm, bool]]:
        """The terms of proposal 521 with their paths, and whether each is of anti-affinity."""
        annotated = annotated_affinity(self.view.metadata.annotations)
        for where, rules in (("spec.placement", self.view.spec.placement), (_ANNOTATION, annotated)):
            if rules is not None:
                for path, term in _terms(rules.workload_affinity, f"{where}.workloadAffinity"):
                    yield path, term, False
                for path, term in _terms(rules.workload_anti_affinity, f"{where}.workloadAntiAffinity"):
                    yield path, term, True


@dataclass(frozen=True, slots=True)
class FleetWorld:
    """What checks of policies look at.

    Attributes:
        resources: What policies may select.
        affinity_keys: The scheduler's --affinity-label-keys; None if they are not known.
        anti_affinity_keys: The same for anti-affinity.
    """

    policies: list[LintedPolicy]
    resources: list[tuple[Resource, ObjectMeta]]
    affinity_keys: tuple[str, ...] | None = None
    anti_affinity_keys: tuple[str, ...] | None = None


@check("BERTH201")
def anti_affinity_takes_all(world: FleetWorld) -> Iterator[Hit]:
    for policy in world.policies:
        placement = policy.placement
        apart = placement.workload_anti_affinity or _NO_TERMS
        grouped = placement.workload_affinity is not None and placement.workload_affinity.anti_affinity
        if not apart.required_during_scheduling_ignored_during_execution and not grouped:
            continue
        if any(c.max_groups and c.max_groups > 0 for c in placement.spread_constraints or ()):
            continue
        scheduling = placement.replica_scheduling
        divided = scheduling is not None and scheduling.replica_scheduling_type == DIVIDED
        why = "without maxGroups a workload takes every cluster that fits, and leaves none for the next one"
        fix = "add spreadConstraints: [{spreadByField: cluster, minGroups: 1, maxGroups: 1}]"
        severity = Severity.WARNING if divided else None
        yield hit(policy.manifest, "spec.placement.spreadConstraints", why, fix, severity)


@check("BERTH202")
def keys_not_in_flags(world: FleetWorld) -> Iterator[Hit]:
    for policy in world.policies:
        for path, term, anti in policy.terms:
            flag = "--anti-affinity-label-keys" if anti else "--affinity-label-keys"
            found = _disallowed(term, world.anti_affinity_keys if anti else world.affinity_keys, flag)
            if found is not None:
                inner, why, fix, severity = found
                yield hit(policy.manifest, f"{path}.{inner}", why, fix, severity)


def _terms(rules: WorkloadAntiAffinity | None, path: str) -> Iterator[tuple[str, WorkloadTerm]]:
    if rules is None:
        return
    for i, term in enumerate(rules.required_during_scheduling_ignored_during_execution or ()):
        yield f"{path}.{REQUIRED_DURING_SCHEDULING}[{i}]", term
    for i, wish in enumerate(rules.preferred_during_scheduling_ignored_during_execution or ()):
        if wish.workload_affinity_term is not None:
            yield (
                f"{path}.{PREFERRED_DURING_SCHEDULING}[{i}].workloadAffinityTerm",
                wish.workload_affinity_term,
            )


def _disallowed(
    term: WorkloadTerm, keys: tuple[str, ...] | None, flag: str
) -> tuple[str, str, str, Severity | None] | None:
    if term.affinity_enabled:
        if keys is None:
            why = f"it compares workloads by the keys of the scheduler's {flag}, which are not known here"
            return "affinityEnabled", why, f"give {flag} as the scheduler has it", Severity.INFO
        if not keys:
            why = f"the scheduler has no {flag} to compare workloads by, and refuses the binding"
            return "affinityEnabled", why, f"give the scheduler {flag}, or use a labelSelector", None
    unlisted = [key for key in term.match_label_keys or () if keys and key not in keys]
    if unlisted:
        why = f"{', '.join(unlisted)} is not among {flag} {','.join(keys or ())}, and is not indexed by it"
        return "matchLabelKeys", why, f"add it to {flag}, or use a key that is there", Severity.WARNING
    return None


@check("BERTH203")
def policy_selects_nothing(world: FleetWorld) -> Iterator[Hit]:
    for policy in world.policies:
        for i, selector in enumerate(policy.view.spec.resource_selectors or ()):
            if any(fit(selector, *each) for each in world.resources):
                continue
            alike = [
                meta
                for resource, meta in world.resources
                if resource.kind == selector.kind and not is_reserved(meta.namespace or "")
            ]
            why = f"it selects {_spelled(selector)}, and there is nothing like that here"
            severity = None if alike else Severity.INFO
            near = near_word(selector.name, [meta.name or "" for meta in alike]) if selector.name else None
            fix = f"did you mean {near}?" if near else "select what is there, or take the selector out"
            yield hit(policy.manifest, f"spec.resourceSelectors[{i}]", why, fix, severity)


def _spelled(selector: ResourceSelector) -> str:
    named = f" {selector.name}" if selector.name else ""
    where = f" of namespace {selector.namespace}" if selector.namespace else ""
    labelled = " by its labels" if selector.label_selector and not selector.name else ""
    return f"{selector.api_version} {selector.kind}{named}{labelled}{where}"


FLEET_CHECKS: tuple[Check[FleetWorld], ...] = (
    anti_affinity_takes_all,
    keys_not_in_flags,
    policy_selects_nothing,
)
