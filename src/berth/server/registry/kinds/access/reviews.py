"""Authentication and authorization reviews: who somebody is, and what they may do."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from berth.kube.objects import RawObject
from berth.server import errors
from berth.server.fields import mapping
from berth.server.registry.checks import invalid
from berth.server.registry.kinds.access import roles, service_accounts
from berth.server.registry.strategy import CREATE_ONLY, Answer, Registry, ServedResource, Strategy, served
from berth.server.registry.users import ADMIN, AUTHENTICATION_GROUP, Attributes, User

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_NOBODY = "at least one of user or group must be specified"


class ReviewStrategy(Strategy):
    """A review is answered with itself and a status."""

    def answer(
        self, registry: Registry, obj: RawObject, namespace: str, *, user: User, dry_run: bool
    ) -> Answer:
        metadata = obj.get("metadata") or {}
        answered = {
            **obj,
            "metadata": {"creationTimestamp": None, **metadata},
            "status": self.status(registry, mapping(obj, "spec"), namespace, user),
        }
        return answered, None

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        """The answer to `user`.

        Raises:
            StatusError: the review does not say what it asks (400, 422).
        """
        raise NotImplementedError


class SelfSubjectReviewStrategy(ReviewStrategy):
    """Who am I?"""

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        return {"userInfo": user.info()}


class SelfSubjectRulesReviewStrategy(ReviewStrategy):
    """What may I do?"""

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        if not spec.get("namespace"):
            raise errors.bad_request("no namespace on request")
        rules = roles.rules_of(registry, user, str(spec["namespace"]))
        return {
            "resourceRules": [rule for rule in rules if rule.get("resources")],
            "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
            "incomplete": False,
        }


class TokenReviewStrategy(ReviewStrategy):
    """Whose token is this?"""

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        token, own = str(spec.get("token") or ""), service_accounts.ISSUER
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or [own]
        if hmac.compare_digest(token.encode(), registry.token.encode()):
            if own not in audiences:
                return {"user": {}}
            return {"authenticated": True, "user": ADMIN.info(), "audiences": [own]}
        known = service_accounts.bearer(registry, token, audiences)
        if known is None:
            return {"user": {}, "error": "invalid bearer token"}
        meant = (registry.signer.read(token) or {}).get("aud") or [own]
        good = [audience for audience in audiences if audience in meant]
        return {"authenticated": True, "user": known.info(), "audiences": good}


@dataclass(eq=False, kw_only=True)
class AccessReviewStrategy(ReviewStrategy):
    """May somebody do this? `own`: may I?"""

    own: bool = False

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        _check_access(self.resource, spec, own=self.own)
        in_api = mapping(spec, "resourceAttributes")
        if self.resource.namespaced and in_api.get("namespace") != namespace:
            detail = f"must match metadata.namespace: {namespace}"
            problem = invalid("spec.resourceAttributes.namespace", in_api.get("namespace", ""), detail)
            raise errors.invalid(self.resource.kind, self.resource.group, "", [problem])
        subject = user if self.own else User(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
        decision = roles.authorize(registry, subject, _asked(spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _asked(spec: RawObject) -> Attributes:
    in_api, outside = mapping(spec, "resourceAttributes"), mapping(spec, "nonResourceAttributes")
    if outside:
        return Attributes(str(outside.get("verb", "")), path=str(outside.get("path", "")) or "/")
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(in_api.get(name) or "") for name in fields})


def _review(group: str, kind: str, *, namespaced: bool = False) -> ServedResource:
    return served(f"{group}/v1", kind, namespaced=namespaced, verbs=CREATE_ONLY)


_AUTHORIZATION = "authorization.k8s.io"
STRATEGIES = (
    SelfSubjectReviewStrategy(_review(AUTHENTICATION_GROUP, "SelfSubjectReview")),
    TokenReviewStrategy(_review(AUTHENTICATION_GROUP, "TokenReview")),
    AccessReviewStrategy(_review(_AUTHORIZATION, "LocalSubjectAccessReview", namespaced=True)),
    AccessReviewStrategy(_review(_AUTHORIZATION, "SelfSubjectAccessReview"), own=True),
    SelfSubjectRulesReviewStrategy(_review(_AUTHORIZATION, "SelfSubjectRulesReview")),
    AccessReviewStrategy(_review(_AUTHORIZATION, "SubjectAccessReview")),
)


def _check_access(resource: ServedResource, spec: RawObject, *, own: bool) -> None:
    found = []
    in_api, outside = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if in_api is not None and outside is not None:
        found.append(invalid("spec.nonResourceAttributes", outside, _NOT_BOTH))
    if in_api is None and outside is None:
        found.append(invalid("spec.resourceAttributes", None, _ONE_OF))
    if not own and not spec.get("user") and not spec.get("groups"):
        found.append(invalid("spec.user", "", _NOBODY))
    if found:
        raise errors.invalid(resource.kind, resource.group, "", found)
