"""AdmissionReview (admission.k8s.io/v1): what an API server asks, and what it is told."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from berth.kube.objects import RawObject
from berth.kube.text.decoding import TOO_DEEP, explain
from berth.kube.validation import FieldError

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
        MalformedReviewError: there is none that we understand.
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
    response: dict[str, object] = {"uid": request.uid, "allowed": not errors}
    if errors:
        response["status"] = _status(request, errors)
    if warnings:
        response["warnings"] = [_short(warning) for warning in warnings[:_MOST]]
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def refusal(request: AdmissionRequest, why: str) -> bytes:
    """What the API server is told of a valid object that may not be stored all the same."""
    kind, name = request.kind, request.name or _name_of(request.new)
    plural = f"{kind.kind.lower()}s"
    status = {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": f'{plural} "{name}" is forbidden: {_short(why)}',
        "details": {"name": name, "group": kind.group, "kind": plural},
    }
    response = {"uid": request.uid, "allowed": False, "status": status}
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": KIND, "response": response})


def _status(request: AdmissionRequest, errors: Sequence[FieldError]) -> dict[str, object]:
    """As the API server words its own refusals of invalid objects."""
    kind, name = request.kind, request.name or _name_of(request.new)
    told = [_short(str(error)) for error in errors[:_MOST]]
    if len(errors) > _MOST:
        told.append(f"and {len(errors) - _MOST} more")
    listed = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    qualified = f"{kind.kind}.{kind.group}" if kind.group else kind.kind
    causes = [
        {"reason": error.type, "message": _short(str(error).partition(": ")[2]), "field": error.field}
        for error in errors[:_MOST]
    ]
    return {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": f'{qualified} "{name}" is invalid: {listed}',
        "details": {"name": name, "group": kind.group, "kind": kind.kind, "causes": causes},
    }


def _name_of(raw: RawObject | None) -> str:
    metadata = (raw or {}).get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    return str(given.get("name") or given.get("generateName") or "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - len(_CUT)]}{_CUT}"
