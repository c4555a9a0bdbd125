"""Authentication and authorization reviews: who holds the token may do everything, nobody else anything.

Roles and bindings are stored but not evaluated: there is only one user who can authenticate.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from berth.kube.objects import RawObject
from berth.kube.validation import FieldError
from berth.kube.validation.errors import INVALID
from berth.server import errors
from berth.server.registry.resources import CREATE_ONLY, ServedResource, served
from berth.server.registry.strategy import Answer, Registry, Strategy

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
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_NOBODY = "at least one of user or group must be specified"


class ReviewStrategy(Strategy):
    """A review is answered with itself and a status."""

    def answer(self, registry: Registry, obj: RawObject, namespace: str, *, dry_run: bool) -> Answer:
        metadata, spec = obj.get("metadata") or {}, obj.get("spec")
        answered = {
            **obj,
            "metadata": {"creationTimestamp": None, **metadata},
            "status": self.status(registry, spec if isinstance(spec, dict) else {}),
        }
        return answered, None

    def status(self, registry: Registry, spec: RawObject) -> RawObject:
        """The answer.

        Raises:
            StatusError: the review does not say what it asks (400, 422).
        """
        raise NotImplementedError


class SelfSubjectReviewStrategy(ReviewStrategy):
    """Who am I?"""

    def status(self, registry: Registry, spec: RawObject) -> RawObject:
        return {"userInfo": USER}


class SelfSubjectRulesReviewStrategy(ReviewStrategy):
    """What may I do?"""

    def status(self, registry: Registry, spec: RawObject) -> RawObject:
        return dict(_EVERYTHING)


class TokenReviewStrategy(ReviewStrategy):
    """Whose token is this?"""

    def status(self, registry: Registry, spec: RawObject) -> RawObject:
        token = str(spec.get("token") or "")
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        known = hmac.compare_digest(token.encode(), registry.token.encode())
        if known and AUDIENCE in (spec.get("audiences") or [AUDIENCE]):
            return {"authenticated": True, "user": USER, "audiences": [AUDIENCE]}
        return {"user": {}} if known else {"user": {}, "error": "invalid bearer token"}


@dataclass(eq=False, kw_only=True)
class AccessReviewStrategy(ReviewStrategy):
    """May somebody do this? `own`: may I?"""

    own: bool = False

    def status(self, registry: Registry, spec: RawObject) -> RawObject:
        _check_access(self.resource, spec, own=self.own)
        return dict(_ALLOWED if self.own or _is_bearer(spec) else _DENIED)


def _review(group: str, kind: str, *, namespaced: bool = False) -> ServedResource:
    return served(f"{group}/v1", f"{kind.lower()}s", kind, namespaced=namespaced, verbs=CREATE_ONLY)


_AUTHENTICATION, _AUTHORIZATION = "authentication.k8s.io", "authorization.k8s.io"
STRATEGIES = (
    SelfSubjectReviewStrategy(_review(_AUTHENTICATION, "SelfSubjectReview")),
    TokenReviewStrategy(_review(_AUTHENTICATION, "TokenReview")),
    AccessReviewStrategy(_review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True)),
    AccessReviewStrategy(_review(_AUTHORIZATION, "SelfSubjectAccessReview"), own=True),
    SelfSubjectRulesReviewStrategy(_review(_AUTHORIZATION, "SelfSubjectRulesReview")),
    AccessReviewStrategy(_review(_AUTHORIZATION, "SubjectAccessReview")),
)


def _check_access(resource: ServedResource, spec: RawObject, *, own: bool) -> None:
    found = []
    in_api, outside = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if in_api is not None and outside is not None:
        found.append(FieldError("spec.nonResourceAttributes", INVALID, _NOT_BOTH, outside))
    if in_api is None and outside is None:
        found.append(FieldError("spec.resourceAttributes", INVALID, _ONE_OF))
    if not own and not spec.get("user") and not spec.get("groups"):
        found.append(FieldError("spec.user", INVALID, _NOBODY, ""))
    if found:
        raise errors.invalid(resource.kind, resource.group, "", found)


def _is_bearer(spec: RawObject) -> bool:
    return spec.get("user") == USER["username"] or MASTERS in (spec.get("groups") or ())
