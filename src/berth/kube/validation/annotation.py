"""The rules in the annotation ``berth.dev/affinity``, which no API server validates by itself.

They obey what `spec.affinity` obeys, and a little more: a stock API server stores a rule that compares a
label with something that is no number, or prefers a value that no label can have, and no scheduler can
follow it.  In the annotation that is an error.  Nobody is evicted for rules that are not valid: a misspelt
one would never hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache

from berth.kube import names
from berth.kube.affinity.annotations import (
    AFFINITY_ANNOTATION,
    AnnotationError,
    annotated_affinity,
    effective_affinity,
)
from berth.kube.amounts.integers import integer
from berth.kube.gates import DEFAULT_GATES, FeatureGates
from berth.kube.objects import Affinity, NodeSelectorTerm, ObjectMeta, Pod
from berth.kube.selectors import GT, LT, NOT_A_NUMBER
from berth.kube.validation.errors import INVALID, Errors, FieldError, Path, key, render
from berth.kube.validation.scheduling import check_affinity
from berth.kube.well_known import PREFERRED_DURING_SCHEDULING

_WHERE: Path = ("metadata", "annotations", key(AFFINITY_ANNOTATION))
_LONGEST = 100  # characters of a value that are shown


def check_annotation(
    pod: Pod, errors: Errors, path: Path = (), gates: FeatureGates = DEFAULT_GATES
) -> Affinity | None:
    """The annotation's rules if they can be read; `path` leads to the pod, such as to a template."""
    try:
        affinity = annotated_affinity(pod, gates)
        effective_affinity(pod, gates)  # with the spec's, it can be too much
    except AnnotationError as error:
        field = f"{render(path)}.{error.field}" if path else error.field
        errors.append(FieldError(field, INVALID, error.detail, _excerpt(error.value)))
        return None
    if affinity is not None:
        check_affinity(affinity, errors, (*path, *_WHERE))
        _check_values(affinity, errors, (*path, *_WHERE, "nodeAffinity"))
    return affinity


def _excerpt(value: object) -> object:
    """The value, or its beginning: it can be the whole annotation, and what is wrong with it comes after."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return value if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def fault_of(pod: Pod) -> str | None:
    """What is wrong with a pod's annotation, None if nothing is."""
    text = (pod.metadata.annotations or {}).get(AFFINITY_ANNOTATION)
    if text is None:
        return None
    fault = _fault(text)
    if fault is None and pod.spec.affinity is not None and pod.spec.affinity.node_affinity is not None:
        try:
            effective_affinity(pod)
        except AnnotationError as error:
            return str(error)
    return fault


@lru_cache(maxsize=1024)
def _fault(text: str) -> str | None:
    errors = Errors()
    check_annotation(Pod(metadata=ObjectMeta(annotations={AFFINITY_ANNOTATION: text})), errors)
    return "; ".join(map(str, errors)) or None


# --- values that no scheduler can use -------------------------------------------------------------


def _check_values(affinity: Affinity, errors: Errors, path: Path) -> None:
    for where, term in _node_terms(affinity):
        preferred = where[0] == PREFERRED_DURING_SCHEDULING
        for i, requirement in enumerate(term.match_expressions or ()):
            numeric = requirement.operator in (GT, LT)
            for j, value in enumerate(requirement.values or ()):
                place = (*path, *where, "matchExpressions", i, "values", j)
                if numeric and integer(value) is None:
                    errors.invalid(place, value, NOT_A_NUMBER)
                if preferred:  # in required terms it was found before
                    errors.invalid_for_each(place, value, names.label_value_errors(value))


def _node_terms(affinity: Affinity) -> Iterator[tuple[Path, NodeSelectorTerm]]:
    rules = affinity.node_affinity
    if rules is None:
        return
    for name, selector in rules.required:
        for i, term in enumerate((selector.node_selector_terms if selector else None) or ()):
            if term is not None:
                yield (name, "nodeSelectorTerms", i), term
    for i, weighted in enumerate(rules.preferred_during_scheduling_ignored_during_execution or ()):
        if weighted.preference is not None:
            yield (PREFERRED_DURING_SCHEDULING, i, "preference"), weighted.preference
