"""Everything under ``affinity``.

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
    PreferredSchedulingTerm,
    WeightedPodAffinityTerm,
)
from berth.kube.validation.errors import Errors, Path
from berth.kube.validation.metadata import check_label_key
from berth.kube.validation.selectors import (
    check_label_selector,
    check_node_selector,
    check_node_selector_term,
)
from berth.kube.well_known import (
    PREFERRED_DURING_SCHEDULING,
    REQUIRED_DURING_EXECUTION,
    REQUIRED_DURING_SCHEDULING,
)

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
    execution = affinity.required_during_scheduling_required_during_execution
    if execution is not None:
        check_node_selector(execution, errors, (*path, REQUIRED_DURING_EXECUTION))
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        check_node_selector(required, errors, (*path, REQUIRED_DURING_SCHEDULING))
    for i, term in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        _check_preferred_node_term(term, errors, (*path, PREFERRED_DURING_SCHEDULING, i))


def _check_preferred_node_term(term: PreferredSchedulingTerm, errors: Errors, path: Path) -> None:
    errors.weight(path, term.weight)
    preference = term.preference or NodeSelectorTerm()
    check_node_selector_term(preference, errors, (*path, "preference"), any_label_value=True)


def _check_pod_affinity(affinity: PodAffinity, errors: Errors, path: Path) -> None:
    for i, term in enumerate(affinity.required_during_scheduling_required_during_execution or ()):
        _check_term(term, errors, (*path, REQUIRED_DURING_EXECUTION, i))
    for i, term in enumerate(affinity.required_during_scheduling_ignored_during_execution or ()):
        _check_term(term, errors, (*path, REQUIRED_DURING_SCHEDULING, i))
    for i, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution or ()):
        _check_weighted_term(weighted, errors, (*path, PREFERRED_DURING_SCHEDULING, i))


def _check_weighted_term(weighted: WeightedPodAffinityTerm, errors: Errors, path: Path) -> None:
    errors.weight(path, weighted.weight)
    _check_term(weighted.pod_affinity_term or PodAffinityTerm(), errors, (*path, "podAffinityTerm"))


def _check_term(term: PodAffinityTerm, errors: Errors, path: Path) -> None:
    check_label_selector(term.label_selector, errors, (*path, "labelSelector"))
    check_label_selector(term.namespace_selector, errors, (*path, "namespaceSelector"))
    for name in term.namespaces or ():
        # The list is called "namespaces", yet this is the path the API server reports.
        errors.invalid_for_each((*path, "namespace"), name, names.dns_label_errors(name))
    if term.match_label_keys or term.mismatch_label_keys:
        check_label_keys(
            term.match_label_keys or [], term.mismatch_label_keys or [], term.label_selector, errors, path
        )
    if not term.topology_key:
        errors.required((*path, "topologyKey"), "can not be empty")
    check_label_key(term.topology_key or "", errors, (*path, "topologyKey"))


def check_label_keys(
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
