"""Propagation policies: what their spec may say besides the placement.

Upstream: pkg/util/validation/validation.go (ValidatePropagationSpec).
"""

from __future__ import annotations

from collections.abc import Mapping

from berth.kube.affinity.annotations import AnnotationError
from berth.kube.affinity.workload_annotations import (
    WORKLOAD_AFFINITY_ANNOTATION,
    annotated_affinity,
    effective_placement,
)
from berth.kube.karmada import ALWAYS, Placement, PropagationPolicy, ResourceSelector
from berth.kube.validation.errors import INVALID, Errors, FieldError, Path, key
from berth.kube.validation.placement import PLACEMENT, validate_placement
from berth.kube.validation.selectors import check_label_selector

OTHER_NAMESPACE = "namespace of resource selector must be the same as the namespace of the policy"
NAMELESS = (
    "name cannot be empty if preemption is Always, the empty name may cause unexpected resources preemption"
)
_ANNOTATION: Path = ("metadata", "annotations", key(WORKLOAD_AFFINITY_ANNOTATION))


def validate_policy(policy: PropagationPolicy) -> list[FieldError]:
    """What is wrong with a policy, its placement and its annotation; one with no namespace is a cluster's."""
    spec = policy.spec
    placement = spec.placement or Placement()
    errors = Errors(validate_placement(placement))
    selectors = spec.resource_selectors or []
    _check_selectors(selectors, policy.metadata.namespace or "", errors, ("spec", "resourceSelectors"))
    if spec.preemption == ALWAYS:
        for i, selector in enumerate(selectors):
            if not selector.name:
                errors.invalid(("spec", "resourceSelectors", i, "name"), selector.name or "", NAMELESS)
    return [*errors, *validate_annotated(policy.metadata.annotations, placement)]


def validate_annotated(
    annotations: Mapping[str, str] | None, placement: Placement | None = None
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
    return validate_placement(together, PLACEMENT) if together is not None else []


def _check_selectors(selectors: list[ResourceSelector], namespace: str, errors: Errors, path: Path) -> None:
    for i, selector in enumerate(selectors):
        if namespace and (selector.namespace or "") != namespace:
            errors.invalid((*path, i, "namespace"), selector.namespace or "", OTHER_NAMESPACE)
        # Upstream lets a selector pass that matches nothing because it cannot be read.
        check_label_selector(selector.label_selector, errors, (*path, i, "labelSelector"))
