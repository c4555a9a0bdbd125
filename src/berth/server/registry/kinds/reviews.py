"""Authentication and authorization reviews: who holds the token may do everything, nobody else anything.

Roles and bindings are stored but not evaluated: there is only one user who can authenticate.
"""

from __future__ import annotations

import hmac

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.server import errors
from berth.server.registry.core import Core
from berth.server.registry.resources import ServedResource

MASTERS = "system:masters"
USER: RawObject = {"username": "berth-admin", "groups": [MASTERS, "system:authenticated"]}
# Whom the token is meant for, as a service account's token names the API server.
AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_ALLOWED = {"allowed": True, "reason": "the bearer of the token may do everything"}
_DENIED = {"allowed": False, "reason": "only the bearer of the server's token may do anything"}
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
_INVALID = "FieldValueInvalid"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_NOBODY = "at least one of user or group must be specified"


def answer(core: Core, resource: ServedResource, review: RawObject) -> RawObject:
    """The review with its status.

    Raises:
        StatusError: the review does not say what it asks (400, 422).
    """
    metadata, spec = review.get("metadata") or {}, review.get("spec")
    return {
        **review,
        "metadata": {"creationTimestamp": None, **metadata},
        "status": _status(core, resource, spec if isinstance(spec, dict) else {}),
    }


def _status(core: Core, resource: ServedResource, spec: RawObject) -> RawObject:
    kind = resource.kind
    if kind == "SelfSubjectReview":
        return {"userInfo": USER}
    if kind == "TokenReview":
        return _authenticate(core, spec)
    if kind == "SelfSubjectRulesReview":
        return dict(_EVERYTHING)
    _check_access(resource, spec)
    mine = kind == "SelfSubjectAccessReview" or _is_bearer(spec)
    return dict(_ALLOWED if mine else _DENIED)


def _authenticate(core: Core, spec: RawObject) -> RawObject:
    token = str(spec.get("token") or "")
    if not token:
        raise errors.bad_request("token is required for TokenReview in authentication")
    known = hmac.compare_digest(token.encode(), core.token.encode())
    if known and AUDIENCE in (spec.get("audiences") or [AUDIENCE]):
        return {"authenticated": True, "user": USER, "audiences": [AUDIENCE]}
    return {"user": {}} if known else {"user": {}, "error": "invalid bearer token"}


def _check_access(resource: ServedResource, spec: RawObject) -> None:
    found = []
    in_api, outside = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if in_api is not None and outside is not None:
        found.append(FieldError("spec.nonResourceAttributes", _INVALID, _NOT_BOTH, outside))
    if in_api is None and outside is None:
        found.append(FieldError("spec.resourceAttributes", _INVALID, _ONE_OF))
    if resource.kind != "SelfSubjectAccessReview" and not spec.get("user") and not spec.get("groups"):
        found.append(FieldError("spec.user", _INVALID, _NOBODY, ""))
    if found:
        raise errors.invalid(resource.kind, resource.group, "", found)


def _is_bearer(spec: RawObject) -> bool:
    return spec.get("user") == USER["username"] or MASTERS in (spec.get("groups") or ())
