"""What of a pod spec scheduling reads: affinity, tolerations, gates, volumes, topology spread constraints.

The requiredDuringSchedulingRequiredDuringExecution rules, which the stock API lacks, obey
the same conditions as their IgnoredDuringExecution siblings, each under its own path.
"""

from __future__ import annotations

from berth.kube import names
from berth.kube.objects import (
    Affinity,
    LabelSelector,
    NodeAffinity,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PodSchedulingGate,
    PodSchedulingGroup,
    Toleration,
    TopologySpreadConstraint,
    Volume,
)
from berth.kube.selectors import EXISTS, GT, LT
from berth.kube.taints import EFFECTS, NO_EXECUTE
from berth.kube.validation.errors import NOT_POSITIVE, Errors, Path
from berth.kube.validation.metadata import (
    check_label_key,
    check_label_selector,
    check_node_selector,
    check_node_selector_term,
)
from berth.kube.well_known import DO_NOT_SCHEDULE, PREFERRED_DURING_SCHEDULING, SCHEDULE_ANYWAY

# --- affinity -------------------------------------------------------------------------------------

_NO_SELECTOR = "must not be specified when labelSelector is not set"
_IN_SELECTOR = "exists in both matchLabelKeys and labelSelector"
_IN_BOTH = "exists in both matchLabelKeys and mismatchLabelKeys"


def check_affinity(affinity: Affinity, errors: Errors, path: Path) -> None:
    if affinity.node_affinity is not None:
        _check_node_affinity(affinity.node_affinity, errors, (*path, "nodeAffinity"))
    if affinity.pod_affinity is not None:
        _check_pod_affinity(affinity.pod_affinity, errors, (*path, "podAffinity"))
    if affinity.pod_anti_affinity is not None:
        _check_pod_affinity(affinity.pod_anti_affinity, errors, (*path, "podAntiAffinity"))


def _check_node_affinity(affinity: NodeAffinity, errors: Errors, path: Path) -> None:
    for name, selector in affinity.required:
        if selector is not None:
            check_node_selector(selector, errors, (*path, name))
    for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        where = (*path, PREFERRED_DURING_SCHEDULING, i)
        errors.weight(where, term.weight)
        preference = term.preference or NodeSelectorTerm()
        check_node_selector_term(preference, errors, (*where, "preference"), any_label_value=True)


def _check_pod_affinity(affinity: PodAffinity, errors: Errors, path: Path) -> None:
    for name, terms in affinity.required:
        for i, term in enumerate(terms or ()):
            _check_term(term, errors, (*path, name, i))
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        where = (*path, PREFERRED_DURING_SCHEDULING, i)
        errors.weight(where, weighted.weight)
        _check_term(weighted.pod_affinity_term or PodAffinityTerm(), errors, (*where, "podAffinityTerm"))


def _check_term(term: PodAffinityTerm, errors: Errors, path: Path) -> None:
    check_label_selector(term.label_selector, errors, (*path, "labelSelector"))
    check_label_selector(term.namespace_selector, errors, (*path, "namespaceSelector"))
    for name in term.namespaces or ():
        # The list is called "namespaces", yet this is the path the API server reports.
        errors.invalid_for_each((*path, "namespace"), name, names.dns_label_errors(name))
    if term.match_label_keys or term.mismatch_label_keys:
        match, mismatch = term.match_label_keys or [], term.mismatch_label_keys or []
        _check_label_keys(match, mismatch, term.label_selector, errors, path)
    if not term.topology_key:
        errors.required((*path, "topologyKey"), "can not be empty")
    check_label_key(term.topology_key or "", errors, (*path, "topologyKey"))


def _check_label_keys(
    match: list[str], mismatch: list[str], selector: LabelSelector | None, errors: Errors, path: Path
) -> None:
    """matchLabelKeys and mismatchLabelKeys, after they were merged into the selector.

    A key of matchLabelKeys that the selector mentions twice was there before the merge, or was
    merged twice.
    """
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.forbidden((*path, field), _NO_SELECTOR)
        elif keys:
            for i, name in enumerate(keys):
                check_label_key(name, errors, (*path, field, i))
    if selector is not None:
        position = {name: i for i, name in enumerate(match)}
        seen = set(selector.match_labels or ())
        for requirement in selector.match_expressions or ():
            name = requirement.key or ""
            if name in position and name in seen:
                errors.invalid((*path, position[name]), name, _IN_SELECTOR)
            seen.add(name)
    for i, name in enumerate(match):
        if name in mismatch:
            errors.invalid((*path, "matchLabelKeys", i), name, _IN_BOTH)


# --- tolerations ----------------------------------------------------------------------------------

_EQUAL = "Equal"
_KEY_EMPTY = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
_SECONDS = "effect must be 'NoExecute' when `tolerationSeconds` is set"
_EXISTS_VALUE = "value must be empty when `operator` is 'Exists'"


def check_tolerations(tolerations: list[Toleration], errors: Errors, path: Path) -> None:
    for i, toleration in enumerate(tolerations):
        operator, effect = toleration.operator or "", toleration.effect or ""
        if toleration.key:
            check_label_key(toleration.key, errors, (*path, i, "key"))
        elif operator != EXISTS:
            errors.invalid((*path, i, "operator"), operator, _KEY_EMPTY)
        if toleration.toleration_seconds is not None and effect != NO_EXECUTE:
            errors.invalid((*path, i, "effect"), effect, _SECONDS)
        _check_toleration_value(operator, toleration.value or "", errors, (*path, i, "operator"))
        errors.one_of((*path, i, "effect"), effect or None, EFFECTS)


def _check_toleration_value(operator: str, value: str, errors: Errors, path: Path) -> None:
    # Errors about the value are reported at the operator, as the API server does.
    if operator in (_EQUAL, ""):
        if messages := names.label_value_errors(value):
            errors.invalid(path, value, ";".join(messages))
    elif operator == EXISTS:
        if value:
            errors.invalid(path, value, _EXISTS_VALUE)
    elif operator in (LT, GT):
        # Behind the feature gate TaintTolerationComparisonOperators, which is off in v1.36.
        errors.not_supported(path, operator, (_EQUAL, EXISTS, LT, GT))
    else:
        errors.not_supported(path, operator, (_EQUAL, EXISTS))


# --- gates, groups and volumes ---------------------------------------------------------------------


def check_scheduling_gates(gates: list[PodSchedulingGate], errors: Errors, path: Path) -> None:
    seen: set[str] = set()
    for i, gate in enumerate(gates):
        name = gate.name or ""
        check_label_key(name, errors, (*path, i))
        errors.once(seen, (*path, i), name)


def check_scheduling_group(group: PodSchedulingGroup, errors: Errors, path: Path) -> None:
    name = group.pod_group_name
    if name is None:
        errors.invalid((*path, "podGroupName"), None, "must specify one of: `podGroupName`")
    else:
        errors.invalid_for_each((*path, "podGroupName"), name, names.dns_subdomain_errors(name))


def check_volumes(volumes: list[Volume], errors: Errors, path: Path) -> set[str]:
    """The names of those that are valid."""
    seen: set[str] = set()
    for i, volume in enumerate(volumes):
        before, claim, name = len(errors), volume.persistent_volume_claim, volume.name or ""
        if volume.image is not None and not volume.image.reference:
            errors.required((*path, i, "image", "reference"))
        if claim is not None and not claim.claim_name:
            errors.required((*path, i, "persistentVolumeClaim", "claimName"))
        errors.named((*path, i, "name"), name, names.dns_label_errors)
        if name in seen:
            errors.duplicate((*path, i, "name"), name)
        if len(errors) == before:
            seen.add(name)
    return seen


# --- topology spread constraints ------------------------------------------------------------------

POLICIES = ("Honor", "Ignore")


def check_spread_constraints(constraints: list[TopologySpreadConstraint], errors: Errors, path: Path) -> None:
    kinds = [(each.topology_key or "", each.when_unsatisfiable or "") for each in constraints]
    last = {kind: i for i, kind in enumerate(kinds)}
    for i, constraint in enumerate(constraints):
        _check_constraint(constraint, errors, (*path, i))
        key, action = kinds[i]
        if last[key, action] > i:
            errors.duplicate((*path, i, "{topologyKey, whenUnsatisfiable}"), f"{{{key}, {action}}}")


def _check_constraint(constraint: TopologySpreadConstraint, errors: Errors, path: Path) -> None:
    if (constraint.max_skew or 0) <= 0:
        errors.invalid((*path, "maxSkew"), constraint.max_skew or 0, NOT_POSITIVE)
    if not constraint.topology_key:
        errors.required((*path, "topologyKey"), "can not be empty")
    action = constraint.when_unsatisfiable or ""
    errors.one_of((*path, "whenUnsatisfiable"), action, (DO_NOT_SCHEDULE, SCHEDULE_ANYWAY))
    if constraint.min_domains is not None:
        _check_min_domains(constraint.min_domains, action, errors, (*path, "minDomains"))
    errors.one_of((*path, "nodeAffinityPolicy"), constraint.node_affinity_policy, POLICIES)
    errors.one_of((*path, "nodeTaintsPolicy"), constraint.node_taints_policy, POLICIES)
    if constraint.match_label_keys:
        _check_label_keys(constraint.match_label_keys, [], constraint.label_selector, errors, path)
    check_label_selector(constraint.label_selector, errors, (*path, "labelSelector"))


def _check_min_domains(count: int, action: str, errors: Errors, path: Path) -> None:
    if count <= 0:
        errors.invalid(path, count, NOT_POSITIVE)
    if action != DO_NOT_SCHEDULE:
        detail = f"can only use minDomains if whenUnsatisfiable={DO_NOT_SCHEDULE}, not {action}"
        errors.invalid(path, count, detail)
