"""Annotations that nobody can be evicted for: they cannot be read, or no API server would take their rules.

A rule in `spec.affinity` was validated when the pod was stored, one in the annotation by nobody, unless
there is a webhook.  A misspelt operator would be a rule that never holds.
"""

from __future__ import annotations

from functools import lru_cache

from berth.kube.annotations import AFFINITY_ANNOTATION, AnnotationError, annotated_affinity
from berth.kube.objects import ObjectMeta, Pod
from berth.kube.validation.affinity import check_affinity
from berth.kube.validation.errors import Errors, key

_WHERE = ("metadata", "annotations", key(AFFINITY_ANNOTATION))


def fault_of(pod: Pod) -> str | None:
    """What is wrong with a pod's annotation, None if nothing is."""
    text = (pod.metadata.annotations or {}).get(AFFINITY_ANNOTATION)
    return None if text is None else _fault(text)


@lru_cache(maxsize=1024)
def _fault(text: str) -> str | None:
    try:
        affinity = annotated_affinity(Pod(metadata=ObjectMeta(annotations={AFFINITY_ANNOTATION: text})))
    except AnnotationError as error:
        return str(error)
    errors = Errors()
    if affinity is not None:
        check_affinity(affinity, errors, _WHERE)
    return "; ".join(map(str, errors)) or None
