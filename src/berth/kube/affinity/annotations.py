"""The pod annotation ``berth.dev/affinity``: rules a stock API server would drop from the spec.

Its value is an affinity object in JSON or YAML, and its rules are *added* to those of ``spec.affinity``. Pod
(anti-)affinity terms and preferred terms are joined. Required node selectors of one kind cannot be, since
their terms are ORed: both must hold, and ``(a1 or a2) and (b1 or b2)`` is ``(a1 and b1) or (a1 and b2) or
...``, so the result has a term for every pair, with the requirements of both. An empty term matches no node:
pairs with one are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from berth.kube.defaults import merge_affinity_keys
from berth.kube.gates import DEFAULT_GATES, FeatureGates, enabled_affinity
from berth.kube.objects import Affinity, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodAffinity
from berth.kube.text import json_reader
from berth.kube.text.decoding import DecodeError, UnknownFieldError, YamlError, convert_fully

AFFINITY_ANNOTATION = "berth.dev/affinity"
# Where rules stand in a pod.
IN_SPEC, IN_ANNOTATION = "spec.affinity", f"metadata.annotations[{AFFINITY_ANNOTATION}]"

_MAX_TERMS = 10_000
# A value may have a few aliases; a short one that means a million rules would keep its readers busy.
_MAX_EXPANDED = 10_000

_T = TypeVar("_T")
_P = TypeVar("_P", bound=Pod)
_Rules = TypeVar("_Rules", NodeAffinity, PodAffinity)


class AnnotationError(ValueError):
    """The annotation cannot be read; `field` is the path to the offending part."""

    def __init__(
        self, path: str, detail: str, value: object = None, *, annotation: str = AFFINITY_ANNOTATION
    ) -> None:
        dot = "." if path and not path.startswith("[") else ""
        self.field = f"metadata.annotations[{annotation}]{dot}{path}"
        self.detail = detail
        self.value = value
        super().__init__(f"{self.field}: {detail}")


def effective_affinity(pod: Pod, gates: FeatureGates = DEFAULT_GATES) -> Affinity | None:
    """All affinity rules in force for a pod: spec and annotation together, without those of disabled gates.

    Raises:
        AnnotationError: the annotation is not an affinity object.
    """
    annotations = pod.metadata.annotations
    if not annotations or AFFINITY_ANNOTATION not in annotations:
        return enabled_affinity(pod.spec.affinity, gates)
    return _both(enabled_affinity(pod.spec.affinity, gates), annotated_affinity(pod, gates))


def followed_affinity(pod: Pod) -> Affinity | None:
    """The same, ignoring an annotation that cannot be read."""
    try:
        return effective_affinity(pod)
    except AnnotationError:
        return pod.spec.affinity


def stated_affinity(pod: Pod, gates: FeatureGates = DEFAULT_GATES) -> tuple[tuple[str, Affinity], ...]:
    """The rules in force as they are written: where they stand, and what stands there.

    Raises:
        AnnotationError: the annotation is not an affinity object.
    """
    places = (
        (IN_SPEC, enabled_affinity(pod.spec.affinity, gates)),
        (IN_ANNOTATION, annotated_affinity(pod, gates)),
    )
    return tuple((where, rules) for where, rules in places if rules is not None)


def annotated_affinity(pod: Pod, gates: FeatureGates = DEFAULT_GATES) -> Affinity | None:
    """The annotation's rules alone, label keys merged as in the spec of a created pod."""
    text = (pod.metadata.annotations or {}).get(AFFINITY_ANNOTATION)
    if text is None:
        return None
    affinity = enabled_affinity(_parse(text), gates)
    return merge_affinity_keys(affinity, pod.metadata.labels or {})


def without_annotation(pod: _P) -> _P:
    """The pod as if it had no such annotation."""
    annotations = {**(pod.metadata.annotations or {})}
    annotations.pop(AFFINITY_ANNOTATION, None)
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


@lru_cache(maxsize=256)
def _parse(text: str) -> Affinity:
    return read_rules(text, Affinity, AFFINITY_ANNOTATION)


def read_rules(text: str, kind: type[_T], annotation: str) -> _T:
    """The rules in an annotation's value, JSON or YAML, as a `kind`.

    Raises:
        AnnotationError: it is not one, or has a field that a `kind` has not.
    """
    try:
        return convert_fully(_decode(text), kind)
    except YamlError as error:
        detail = f"is neither JSON nor YAML: {error}"
        raise AnnotationError("", detail, text, annotation=annotation) from None
    except DecodeError as error:
        raise AnnotationError(error.path, error.detail, error.value, annotation=annotation) from None
    except UnknownFieldError as error:
        # A stock API server cannot warn about a misspelt rule in here, so it must not be ignored.
        near = f"; did you mean {error.near}?" if error.near else ""
        raise AnnotationError(error.path, f"unknown field{near}", annotation=annotation) from None


def _decode(text: str) -> object:
    try:
        raw = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        from berth.kube.text import yaml_reader  # noqa: PLC0415 - takes long, and most are JSON

        documents = [document.value for document in yaml_reader.read(text, most_expanded=_MAX_EXPANDED)]
        if len(documents) != 1:
            raise DecodeError("", "must hold exactly one affinity object", text) from None
        return documents[0]
    if (name := json_reader.repeated_name(text)) is not None:  # most readers take the last
        raise DecodeError("", f'key "{name}" is set twice in the same mapping', text)
    return raw


# --- adding --------------------------------------------------------------------------------


def _both(spec: Affinity | None, added: Affinity | None) -> Affinity | None:
    if spec is None or added is None:
        return added if spec is None else spec
    return Affinity(
        node_affinity=_both_rules(spec.node_affinity, added.node_affinity, intersection),
        pod_affinity=_both_rules(spec.pod_affinity, added.pod_affinity, _joined),
        pod_anti_affinity=_both_rules(spec.pod_anti_affinity, added.pod_anti_affinity, _joined),
    )


def _both_rules(
    spec: _Rules | None, added: _Rules | None, join_required: Callable[[Any, Any], Any]
) -> _Rules | None:
    if spec is None or added is None:
        return added if spec is None else spec
    joins = (join_required, join_required, _joined)  # as the fields follow each other in both
    fields = zip(spec.__struct_fields__, joins, strict=True)
    return type(spec)(**{name: join(getattr(spec, name), getattr(added, name)) for name, join in fields})


def _joined(first: list[_T] | None, second: list[_T] | None) -> list[_T] | None:
    return [*first, *second] if first and second else first or second


def intersection(first: NodeSelector | None, second: NodeSelector | None) -> NodeSelector | None:
    """The selector that matches what both match; None stands for no restriction."""
    if first is None or second is None:
        return second if first is None else first
    left, right = _terms(first), _terms(second)
    if len(left) * len(right) > _MAX_TERMS:
        detail = (
            f"{len(left)} and {len(right)} required node selector terms make {len(left) * len(right)} "
            f"combinations, more than {_MAX_TERMS}"
        )
        raise AnnotationError("nodeAffinity", detail)
    return NodeSelector(
        node_selector_terms=[
            NodeSelectorTerm(
                match_expressions=_joined(a.match_expressions, b.match_expressions),
                match_fields=_joined(a.match_fields, b.match_fields),
            )
            for a in left
            for b in right
        ]
    )


def _terms(selector: NodeSelector) -> list[NodeSelectorTerm]:
    """The terms that can match a node."""
    terms = selector.node_selector_terms or ()
    return [term for term in terms if term is not None and (term.match_expressions or term.match_fields)]
