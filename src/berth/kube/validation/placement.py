"""Placements and policies: Karmada's own rules in its words, and the rules between workloads as strictly.

Upstream: pkg/util/validation/validation.go.  What the CRDs' schemas say already (enumerations, required
fields) is checked there, except where a placement can also come from elsewhere, such as a file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from berth.kube import karmada, names
from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import (
    WORKLOAD_AFFINITY_ANNOTATION,
    annotated_affinity,
    effective_placement,
)
from berth.kube.objects import Toleration
from berth.kube.selectors import IN, NOT_IN, Selector, parse_label_selector
from berth.kube.validation.errors import INVALID, Errors, FieldError, Path, key
from berth.kube.validation.metadata import check_label_key, check_label_selector
from berth.kube.well_known import PREFERRED_DURING_SCHEDULING, REQUIRED_DURING_SCHEDULING

PLACEMENT: Path = ("spec", "placement")

FIELDS = ("provider", "region", "zone")

TWO_AFFINITIES = "clusterAffinities cannot co-exist with clusterAffinity"
OVERFLOW_NEEDS_CAPACITY = (
    "overflowAffinities can only be used together with dynamic weight or aggregated scheduling"
)
OVERFLOW_NEEDS_AFFINITY = "overflowAffinities can only be used together with the inline ClusterAffinity"
SAME_NAME = "each affinity term in a policy must have a unique name"
SAME_OVERFLOW_NAME = (
    "overflow affinity name must be unique and must not duplicate the primary group's affinityName"
)
TWO_SPREADS = "spreadByLabel should not co-exist with spreadByField"
NO_CLUSTER_SPREAD = (
    "the cluster spread constraint must be enabled in one of the constraints"
    " in case of SpreadByField is enabled"
)
SAME_GROUP_KEY = "affinity and antiAffinity must not use the same groupByLabelKey"
SAME_TERM = "workloadAffinity has the same term: no cluster could satisfy both"
ENABLED_ALONE = "must not be specified when affinityEnabled is set"


def validate_placement(placement: karmada.Placement, path: Path = PLACEMENT) -> list[FieldError]:
    """What is wrong with a placement, in the order and words of Karmada's webhook."""
    errors = Errors()
    if placement.cluster_affinity is not None and placement.cluster_affinities is not None:
        errors.invalid(path, placement, TWO_AFFINITIES)
    terms = placement.cluster_affinities or []
    if not _divides_by_capacity(placement.replica_scheduling):
        for i, term in enumerate(terms):
            if term.overflow_affinities is not None:
                at = (*path, "clusterAffinities", i, "overflowAffinities")
                errors.invalid(at, term.overflow_affinities, OVERFLOW_NEEDS_CAPACITY)
    if placement.cluster_affinity is not None:
        _check_cluster_affinity(placement.cluster_affinity, errors, (*path, "clusterAffinity"))
    _check_cluster_affinities(terms, errors, (*path, "clusterAffinities"))
    _check_spread(placement.spread_constraints or [], errors, (*path, "spreadConstraints"))
    _check_workload_affinity(placement, errors, path)
    _check_tolerations(placement.cluster_tolerations or [], errors, (*path, "clusterTolerations"))
    _check_weights(placement.replica_scheduling, errors, (*path, "replicaScheduling"))
    return errors


def _divides_by_capacity(scheduling: karmada.ReplicaScheduling | None) -> bool:
    if scheduling is None or scheduling.replica_scheduling_type != karmada.DIVIDED:
        return False
    if scheduling.replica_division_preference == karmada.WEIGHTED:
        return scheduling.weight_preference is not None and bool(scheduling.weight_preference.dynamic_weight)
    return scheduling.replica_division_preference == karmada.AGGREGATED


# --- clusters ---------------------------------------------------------------------------------------


def _check_cluster_affinity(affinity: karmada.ClusterAffinity, errors: Errors, path: Path) -> None:
    if problem := _field_selector_problem(affinity.field_selector):
        errors.invalid((*path, "fieldSelector"), affinity.field_selector, problem)
    # Upstream lets a selector pass that matches nothing because it cannot be read.
    check_label_selector(affinity.label_selector, errors, (*path, "labelSelector"))


def _field_selector_problem(selector: karmada.FieldSelector | None) -> str:
    """The first thing wrong with it, as upstream reports only one."""
    for requirement in (selector.match_expressions if selector else None) or ():
        if requirement.key not in FIELDS:
            return f'unsupported key "{requirement.key or ""}", must be provider, region, or zone'
        if requirement.operator not in (IN, NOT_IN):
            return f'unsupported operator "{requirement.operator or ""}", must be In or NotIn'
    return ""


def _check_cluster_affinities(terms: list[karmada.ClusterAffinityTerm], errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, term in enumerate(terms):
        name = term.affinity_name or ""
        check_label_key(name, errors, (*path, i))
        if name in seen:
            errors.invalid(path, terms, SAME_NAME)
        seen.add(name)
        _check_cluster_affinity(term, errors, (*path, i))
        if term.overflow_affinities is not None:
            _check_overflow(term, errors, (*path, i, "overflowAffinities"))


def _check_overflow(term: karmada.ClusterAffinityTerm, errors: Errors, path: Path) -> None:
    chosen = term.label_selector is not None or term.field_selector is not None
    if not (chosen or term.cluster_names or term.exclude):
        errors.invalid(path, term.overflow_affinities, OVERFLOW_NEEDS_AFFINITY)
    seen = {term.affinity_name or ""}
    for i, overflow in enumerate(term.overflow_affinities or ()):
        name = overflow.affinity_name or ""
        check_label_key(name, errors, (*path, i, "affinityName"))
        if name in seen:
            errors.invalid((*path, i, "affinityName"), name, SAME_OVERFLOW_NAME)
        seen.add(name)
        _check_cluster_affinity(overflow, errors, (*path, i))


def _check_spread(constraints: list[karmada.SpreadConstraint], errors: Errors, path: Path) -> None:
    fields: dict[str, int] = {}
    for i, constraint in enumerate(constraints):
        at = (*path, i)
        least, most = constraint.min_groups or 0, constraint.max_groups or 0
        field = constraint.spread_by_field or ""
        if field and constraint.spread_by_label:
            errors.invalid(at, constraint, TWO_SPREADS)
        if least < 0:
            errors.invalid(at, constraint, "minGroups lower than 0 is not allowed")
        if most < 0:
            errors.invalid(at, constraint, "maxGroups lower than 0 is not allowed")
        if 0 < most < least:
            errors.invalid(at, constraint, "maxGroups lower than minGroups is not allowed")
        if field:
            fields[field] = fields.get(field, 0) + 1
            if fields[field] == 2:
                errors.invalid(path, constraints, f"multiple {field} spread constraints are not allowed")
    if fields and "cluster" not in fields:
        errors.invalid(path, constraints, NO_CLUSTER_SPREAD)


def _check_tolerations(tolerations: list[Toleration], errors: Errors, path: Path) -> None:
    for i, toleration in enumerate(tolerations):
        if toleration.operator in ("Lt", "Gt"):
            errors.not_supported((*path, i, "operator"), toleration.operator, ("", "Exists", "Equal"))


def _check_weights(scheduling: karmada.ReplicaScheduling | None, errors: Errors, path: Path) -> None:
    preference = scheduling.weight_preference if scheduling else None
    for i, weighted in enumerate((preference.static_weight_list if preference else None) or ()):
        at = (*path, "weightPreference", "staticWeightList", i)
        _check_cluster_affinity(weighted.target_cluster, errors, (*at, "targetCluster"))


# --- workloads --------------------------------------------------------------------------------------


def _check_workload_affinity(placement: karmada.Placement, errors: Errors, path: Path) -> None:
    near = placement.workload_affinity or karmada.WorkloadAffinity()
    apart = placement.workload_anti_affinity or karmada.WorkloadAntiAffinity()
    _check_groups(near, errors, (*path, "workloadAffinity"))
    _check_terms(near, errors, (*path, "workloadAffinity"))
    _check_terms(apart, errors, (*path, "workloadAntiAffinity"))
    _check_conflicts(near, apart, errors, path)


def _check_groups(rules: karmada.WorkloadAffinity, errors: Errors, path: Path) -> None:
    for name, term in (("affinity", rules.affinity), ("antiAffinity", rules.anti_affinity)):
        if term is not None:
            check_label_key(term.group_by_label_key or "", errors, (*path, name, "groupByLabelKey"))
    if rules.affinity is not None and rules.affinity == rules.anti_affinity:
        errors.invalid(path, rules, SAME_GROUP_KEY)


def _check_terms(rules: karmada.WorkloadAntiAffinity, errors: Errors, path: Path) -> None:
    for i, term in enumerate(rules.required_during_scheduling_ignored_during_execution or ()):
        _check_term(term, errors, (*path, REQUIRED_DURING_SCHEDULING, i))
    for i, weighted in enumerate(rules.preferred_during_scheduling_ignored_during_execution or ()):
        at = (*path, PREFERRED_DURING_SCHEDULING, i)
        errors.weight(at, weighted.weight)
        if weighted.workload_affinity_term is None:
            errors.required((*at, "workloadAffinityTerm"))
        else:
            _check_term(weighted.workload_affinity_term, errors, (*at, "workloadAffinityTerm"))


def _check_term(term: karmada.WorkloadTerm, errors: Errors, path: Path) -> None:
    if term.affinity_enabled is not None:
        given_alone = (("labelSelector", term.label_selector), ("matchLabelKeys", term.match_label_keys))
        for field, given in given_alone:
            if given is not None:
                errors.forbidden((*path, field), ENABLED_ALONE)
    check_label_selector(term.label_selector, errors, (*path, "labelSelector"))
    seen: set[str] = set()
    for i, label in enumerate(term.match_label_keys or ()):
        check_label_key(label, errors, (*path, "matchLabelKeys", i))
        errors.once(seen, (*path, "matchLabelKeys", i), label)
    if term.topology_key == "":
        errors.required((*path, "topologyKey"), "can not be empty")
    elif term.topology_key is not None:
        check_label_key(term.topology_key, errors, (*path, "topologyKey"))
    for i, name in enumerate(term.namespaces or ()):
        errors.invalid_for_each((*path, "namespaces", i), name, names.dns_label_errors(name))
    check_label_selector(term.namespace_selector, errors, (*path, "namespaceSelector"))


def _check_conflicts(
    near: karmada.WorkloadAffinity, apart: karmada.WorkloadAntiAffinity, errors: Errors, path: Path
) -> None:
    """The same workloads cannot have to be together and apart; a group is the term it stands for."""
    wanted = {_meaning(term) for _, term in _required(near)} | set(_group(near.affinity))
    for i, term in _required(apart):
        if _meaning(term) in wanted:
            errors.invalid((*path, "workloadAntiAffinity", REQUIRED_DURING_SCHEDULING, i), term, SAME_TERM)
    refused = set(_group(near.anti_affinity))
    for i, term in _required(near):
        if _meaning(term) in refused:
            at = (*path, "workloadAffinity", REQUIRED_DURING_SCHEDULING, i)
            errors.invalid(at, term, SAME_TERM.replace("workloadAffinity", "workloadAffinity.antiAffinity"))


def _required(rules: karmada.WorkloadAntiAffinity) -> Iterator[tuple[int, karmada.WorkloadTerm]]:
    """What `affinityEnabled` compares by is configured apart for the two, so those terms cannot clash."""
    for i, term in enumerate(rules.required_during_scheduling_ignored_during_execution or ()):
        if term.affinity_enabled is None and term.label_selector is not None:
            yield i, term


_Meaning = tuple[Selector, frozenset[str], str, frozenset[str], Selector | None]


def _meaning(term: karmada.WorkloadTerm) -> _Meaning:
    return (
        parse_label_selector(term.label_selector),
        frozenset(term.match_label_keys or ()),
        (term.topology_key or "cluster").removeprefix(karmada.TOPOLOGY_PREFIX),
        frozenset(term.namespaces or ()),
        None if term.namespace_selector is None else parse_label_selector(term.namespace_selector),
    )


def _group(term: karmada.GroupTerm | None) -> Iterator[_Meaning]:
    if term is not None:
        yield Selector(), frozenset((term.group_by_label_key or "",)), "cluster", frozenset(), None


# --- policies: what their spec may say besides the placement -----------------------------------------
# Upstream: ValidatePropagationSpec.

OTHER_NAMESPACE = "namespace of resource selector must be the same as the namespace of the policy"
NAMELESS = (
    "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption"
)
_ANNOTATION: Path = ("metadata", "annotations", key(WORKLOAD_AFFINITY_ANNOTATION))


def validate_policy(policy: karmada.PropagationPolicy) -> list[FieldError]:
    """What is wrong with a policy, its placement and its annotation; one with no namespace is a cluster's."""
    spec = policy.spec
    placement = spec.placement or karmada.Placement()
    errors = Errors(validate_placement(placement))
    selectors = spec.resource_selectors or []
    _check_selectors(selectors, policy.metadata.namespace or "", errors, ("spec", "resourceSelectors"))
    if spec.preemption == karmada.ALWAYS:
        for i, selector in enumerate(selectors):
            if not selector.name:
                errors.invalid(("spec", "resourceSelectors", i, "name"), selector.name or "", NAMELESS)
    return [*errors, *validate_annotated(policy.metadata.annotations, placement)]


def validate_annotated(
    annotations: Mapping[str, str] | None, placement: karmada.Placement | None = None
) -> list[FieldError]:
    """What is wrong with the rules in an annotation, by themselves and beside those of `placement`."""
    try:
        annotated = annotated_affinity(annotations)
    except AnnotationError as error:
        return [FieldError(error.field, INVALID, error.detail, error.value)]
    if annotated is None:
        return []
    found = validate_placement(annotated, _ANNOTATION)
    if found or placement is None or validate_placement(placement):
        return found
    together = effective_placement(placement, annotated)
    return validate_placement(together) if together is not None else []


def _check_selectors(
    selectors: list[karmada.ResourceSelector], namespace: str, errors: Errors, path: Path
) -> None:
    for i, selector in enumerate(selectors):
        if namespace and (selector.namespace or "") != namespace:
            errors.invalid((*path, i, "namespace"), selector.namespace or "", OTHER_NAMESPACE)
        # Upstream lets a selector pass that matches nothing because it cannot be read.
        check_label_selector(selector.label_selector, errors, (*path, i, "labelSelector"))
