"""Authentication and authorization reviews: who holds the token may do everything."""

from __future__ import annotations

import hmac

from berth.kube.objects import RawObject
from berth.server.core import Core

USER: RawObject = {"username": "berth-admin", "groups": ["system:masters", "system:authenticated"]}
_ALLOWED = {"allowed": True, "reason": "the bearer of the token may do everything"}
_EVERYTHING = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def answer(core: Core, kind: str, review: RawObject) -> RawObject:
    """The review with its status."""
    metadata = review.get("metadata") or {}
    return {
        **review,
        "metadata": {"creationTimestamp": None, **metadata},
        "status": _status(core, kind, review),
    }


def _status(core: Core, kind: str, review: RawObject) -> RawObject:
    if kind == "SelfSubjectReview":
        return {"userInfo": USER}
    if kind == "TokenReview":
        spec = review.get("spec") or {}
        token = str(spec.get("token") or "") if isinstance(spec, dict) else ""
        if hmac.compare_digest(token.encode(), core.token.encode()):
            return {"authenticated": True, "user": USER}
        return {"user": {}, "error": "invalid bearer token"}
    if kind == "SelfSubjectRulesReview":
        return dict(_EVERYTHING)
    return dict(_ALLOWED)
