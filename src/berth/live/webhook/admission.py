"""Whether an object may be stored: its affinity annotation, and the anti-affinity limit.

The API server has validated ``spec.affinity`` itself, so of that only the limit is looked at.  What an update
leaves as it was is not looked at again: an old pod must be able to lose its finalizers, and an anti-affinity
rule from before the limit may stay while something else is changed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.affinity.anti_affinity import AdmissionPolicy, AntiAffinityLimit, excesses, rules_of
from berth.kube.objects import (
    Affinity,
    NodeAffinity,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    RawObject,
)
from berth.kube.text.decoding import TOO_DEEP, DecodeError, convert, explain, without_nulls
from berth.kube.text.words import aggregated
from berth.kube.validation.annotation import check_annotation
from berth.kube.validation.errors import FORBIDDEN, Errors, FieldError, Path, key, render
from berth.kube.well_known import PREFERRED_DURING_SCHEDULING

# --- AdmissionReview (admission.k8s.io/v1): what an API server asks, and what it is told ----------

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"

# A value can be as long as an annotation, and a list of errors as long as there are rules.
_LONGEST, _MOST = 1000, 20
_CUT = " ..."


class MalformedReviewError(ValueError):
    """This is not a review; the message says why."""


class GroupVersionKind(msgspec.Struct, frozen=True):
    """The kind of the object in a review."""

    kind: str
    group: str = ""
    version: str = ""


class UserInfo(msgspec.Struct, frozen=True):
    """Who sent the request that is asked about."""

    username: str = ""
    groups: list[str] = []


class AdmissionRequest(msgspec.Struct, frozen=True, rename="camel"):
    """The question of a review: what is to be created or changed, and what there was."""

    uid: str
    kind: GroupVersionKind
    operation: str
    name: str = ""
    namespace: str = ""
    sub_resource: str = ""
    dry_run: bool = False
    user_info: UserInfo = UserInfo()
    new: RawObject | None = msgspec.field(default=None, name="object")
    old: RawObject | None = msgspec.field(default=None, name="oldObject")


class _Review(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


def read(body: bytes) -> AdmissionRequest:
    """The question in the body of a request.

    Raises:
        MalformedReviewError: there is none of a known version.
    """
    try:
        raw = msgspec.json.decode(body)
        review = msgspec.convert(raw, _Review)
    except msgspec.ValidationError as error:
        raise MalformedReviewError(f"not an {KIND}: {explain(error, raw)}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise MalformedReviewError(f"not JSON: {error}") from None
    except RecursionError:
        raise MalformedReviewError(TOO_DEEP) from None
    if (review.api_version, review.kind) != (API_VERSION, KIND):
        raise MalformedReviewError(
            f"expected {KIND} of {API_VERSION}, got {review.kind} of {review.api_version}"
        )
    if not review.request.uid:
        raise MalformedReviewError(f"not an {KIND}: request.uid is empty")
    return review.request


def answer(request: AdmissionRequest, errors: Sequence[FieldError], warnings: Sequence[str]) -> bytes:
    """What the API server is told: refused if there are errors, with each of them as a cause."""
    told: dict[str, object] = {"status": _status(request, errors)} if errors else {}
    if warnings:
        told["warnings"] = [_short(warning) for warning in warnings[:_MOST]]
    return _encoded(request, allowed=not errors, **told)


def refusal(request: AdmissionRequest, why: str) -> bytes:
    """What the API server is told of a valid object that may not be stored all the same."""
    plural = f"{request.kind.kind.lower()}s"
    status = _failure(request, 403, "Forbidden", plural, f"is forbidden: {_short(why)}", kind=plural)
    return _encoded(request, allowed=False, status=status)


def _encoded(request: AdmissionRequest, **told: object) -> bytes:
    response = {"uid": request.uid, **told}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(request: AdmissionRequest, errors: Sequence[FieldError]) -> RawObject:
    """As the API server words its own refusals of invalid objects."""
    kind = request.kind
    told = [_short(str(error)) for error in errors[:_MOST]]
    if len(errors) > _MOST:
        told.append(f"and {len(errors) - _MOST} more")
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    causes = [
        {"reason": error.type, "message": _short(str(error).partition(": ")[2]), "field": error.field}
        for error in errors[:_MOST]
    ]
    what = f"is invalid: {aggregated(told)}"
    return _failure(request, 422, "Invalid", qualified, what, kind=kind.kind, causes=causes)


def _failure(
    request: AdmissionRequest, code: int, reason: str, subject: str, what: str, **details: object
) -> RawObject:
    name = request.name or _name_of(request.new)
    return {
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": f'{subject} "{name}" {what}',
        "details": {"name": name, "group": request.kind.group, **details},
    }


def _name_of(raw: RawObject | None) -> str:
    metadata = (raw or {}).get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    return str(given.get("name") or given.get("generateName") or "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - len(_CUT)]}{_CUT}"


# --- the verdict ----------------------------------------------------------------------------------

_TEMPLATE: Path = ("spec", "template")
# Where the pod is, in the kinds that have one; a Binding has annotations that its pod gets.
PODS: Mapping[tuple[str, str], Path] = {
    ("", "Pod"): (),
    ("", "Binding"): (),
    ("", "ReplicationController"): _TEMPLATE,
    ("apps", "DaemonSet"): _TEMPLATE,
    ("apps", "Deployment"): _TEMPLATE,
    ("apps", "ReplicaSet"): _TEMPLATE,
    ("apps", "StatefulSet"): _TEMPLATE,
    ("batch", "Job"): _TEMPLATE,
    ("batch", "CronJob"): ("spec", "jobTemplate", *_TEMPLATE),
}
# The subresources by which the annotations of a pod can be written; its affinity can be by none.
_WRITE_ANNOTATIONS = ("", "status", "binding")
_ANNOTATION: Path = ("metadata", "annotations", key(AFFINITY_ANNOTATION))
_NO_PODS = "without a labelSelector it matches no pod"
_NO_NODES = "an empty term matches no node"


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """No errors: it may be stored.  Warnings are for things that are legal and likely wrong."""

    errors: Errors = field(default_factory=Errors)
    warnings: list[str] = field(default_factory=list)


def admit(request: AdmissionRequest, policy: AdmissionPolicy) -> AdmissionVerdict:
    """Look at what a request creates or changes.

    Raises:
        MalformedReviewError: there is no object, or it is not of its kind.
    """
    verdict = AdmissionVerdict()
    if request.operation not in ("CREATE", "UPDATE") or request.sub_resource not in _WRITE_ANNOTATIONS:
        return verdict
    path = PODS.get((request.kind.group, request.kind.kind))
    if path is None:
        verdict.warnings.append(f"berth knows no pods in a {request.kind.kind}: nothing was checked")
        return verdict
    if request.new is None:
        raise MalformedReviewError(f"{request.operation} without an object")
    new, old = _pod(request.new, path), _pod(request.old or {}, path)
    if (_annotation(new), new.spec.affinity) != (_annotation(old), old.spec.affinity):
        user = request.user_info
        limit = policy.limit_for(request.namespace, user.username, user.groups)
        _check_rules(new, old, path, limit, verdict)
    if path and _misplaced(request.new) and not _misplaced(request.old or {}):
        verdict.warnings.append(
            f"{render(_ANNOTATION)}: has no effect on the {request.kind.kind} itself, only on its pods: "
            f"put it into {render((*path, 'metadata', 'annotations'))}"
        )
    return verdict


def _pod(raw: RawObject, path: Path) -> Pod:
    """The judged fields of the pod in an object; others may be of a newer Kubernetes and are ignored."""
    template = _inside(raw, *path)
    annotations = _inside(template, "metadata", "annotations")
    known = {name: text for name, text in annotations.items() if name == AFFINITY_ANNOTATION}
    labels = _inside(template, "metadata", "labels")
    affinity = _inside(template, "spec").get("affinity")
    parts = {"metadata": {"labels": labels, "annotations": known}, "spec": {"affinity": affinity}}
    try:
        return convert(without_nulls(parts), Pod)
    except DecodeError as error:
        raise MalformedReviewError(f"the object's {render(path) or 'pod'}: {error}") from None


def _inside(raw: RawObject, *path: str | int) -> RawObject:
    for name in path:
        found = raw.get(str(name))
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise MalformedReviewError(f"the object's {name}: expected a mapping")
        raw = found
    return raw


def _annotation(pod: Pod) -> str | None:
    return (pod.metadata.annotations or {}).get(AFFINITY_ANNOTATION)


def _misplaced(raw: RawObject) -> bool:
    return AFFINITY_ANNOTATION in _inside(raw, "metadata", "annotations")


# --- what is refused ------------------------------------------------------------------------------


def _check_rules(
    new: Pod, old: Pod, path: Path, limit: AntiAffinityLimit | None, verdict: AdmissionVerdict
) -> None:
    where, in_spec = (*path, *_ANNOTATION), (*path, "spec", "affinity")
    found, before = Errors(), Errors()
    annotated, known = check_annotation(new, found, path), check_annotation(old, before, path)
    # An annotation that stayed is not judged again, except for errors that only the new spec makes.
    changed = _annotation(new) != _annotation(old)
    verdict.errors.extend(error for error in found if changed or error not in before)
    if changed and annotated is not None and not found:
        verdict.warnings.extend(_remarks(annotated, render(where)))
    if limit is not None:
        terms = rules_of(old.spec.affinity) | rules_of(known)
        for place, affinity in ((where, annotated), (in_spec, new.spec.affinity)):
            beyond = excesses(affinity, render(place), limit, terms)
            verdict.errors.extend(FieldError(field, FORBIDDEN, detail) for field, detail in beyond)


# --- what is remarked -----------------------------------------------------------------------------


def _remarks(affinity: Affinity, path: str) -> Iterator[str]:
    """Warnings about rules that are valid and have no effect."""
    node, together, apart = affinity.node_affinity, affinity.pod_affinity, affinity.pod_anti_affinity
    if not any(map(_has_rules, (node, together, apart))):
        yield f"{path}: has no rules"
    for name, selector in node.required if node is not None else ():
        for i, term in enumerate((selector.node_selector_terms if selector else None) or ()):
            if term is None or not (term.match_expressions or term.match_fields):
                yield f"{path}.nodeAffinity.{name}.nodeSelectorTerms[{i}]: {_NO_NODES}"
    yield from _unselective(together, f"{path}.podAffinity")
    yield from _unselective(apart, f"{path}.podAntiAffinity")


def _has_rules(rules: NodeAffinity | PodAffinity | None) -> bool:
    if rules is None:
        return False
    required = [found for _, found in rules.required]
    return any((*required, rules.preferred_during_scheduling_ignored_during_execution))


def _unselective(rules: PodAffinity | None, path: str) -> Iterator[str]:
    if rules is None:
        return
    weighted = rules.preferred_during_scheduling_ignored_during_execution or ()
    preferred = [each.pod_affinity_term or PodAffinityTerm() for each in weighted]
    for name, terms in (*rules.required, (PREFERRED_DURING_SCHEDULING, preferred)):
        for i, term in enumerate(terms or ()):
            if term.label_selector is None:
                yield f"{path}.{name}[{i}]: {_NO_PODS}"
