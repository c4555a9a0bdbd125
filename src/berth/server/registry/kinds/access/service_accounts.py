"""ServiceAccounts: the one in every namespace, what a pod gets of its own, and their tokens; and reviews.

A review says who somebody is, or what they may do.
Upstream: pkg/controller/serviceaccount (the default account), plugin/pkg/admission/serviceaccount, and
pkg/registry/core/serviceaccount/storage/token.go.
"""

from __future__ import annotations

import base64
import hmac
import time
from collections.abc import Iterator

from berth.kube.objects import Key, RawObject
from berth.kube.times import stamp
from berth.kube.well_known import ROOT_CA
from berth.server import errors
from berth.server.credentials import Claims
from berth.server.fields import mapping
from berth.server.registry import checks, users, writes
from berth.server.registry.kinds.access import roles
from berth.server.registry.metadata import made_up_end
from berth.server.registry.strategy import CREATE_ONLY, Endpoint, Registry, Strategy, WriteAnswer, served
from berth.server.registry.users import ADMIN, AUTHENTICATED, AUTHENTICATION_GROUP, Attributes, Intent, User
from berth.server.storage.bucket import Record, decode
from berth.server.tables import AGE, NAME

# Whom a token is meant for if nobody says otherwise: this server, which is also who issued it.
ISSUER = "https://kubernetes.default.svc.cluster.local"
DEFAULT_ACCOUNT = "default"
_MOUNT_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
_OWN_VOLUME = "kube-api-access-"
_LIFETIME = 3600  # seconds
_IN_POD = 3607  # seconds, by which upstream knows its own mounts again
_EXTRA = "authentication.kubernetes.io/"
_AUTHORIZATION = "authorization.k8s.io"
_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
_NOT_BOTH = "cannot be specified in combination with resourceAttributes"
_NOBODY = "at least one of user or group must be specified"


class ServiceAccountStrategy(Strategy):
    """A namespace that is there to stay has an account of its own, whoever deletes it."""

    def after_remove(self, registry: Registry, endpoint: Endpoint, obj: RawObject) -> None:
        if obj["metadata"]["name"] == DEFAULT_ACCOUNT:
            provide(registry, obj["metadata"]["namespace"])

    def answer(self, registry: Registry, obj: RawObject, key: Key, intent: Intent) -> WriteAnswer:
        return request_token(registry, *key, obj), None


def provide(registry: Registry, namespace: str) -> list[writes.Write]:
    """Make the default account of a namespace where it is missing and may be made."""
    record = registry.bucket("namespaces").newest(("", namespace))
    endpoint = registry.builtin("", "serviceaccounts")
    going = record is None or record.fields.get("status.phase") == "Terminating"
    if going or endpoint.bucket.newest((namespace, DEFAULT_ACCOUNT)) is not None:
        return []
    resource, metadata = endpoint.resource, {"name": DEFAULT_ACCOUNT}
    body = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return [writes.create(registry, endpoint, body, namespace, Intent("berth"))]


# --- what a pod gets


def admit(registry: Registry, pod: RawObject) -> None:
    """Give a new pod its account, and its containers the account's token, in place.

    Raises:
        StatusError: there is no such account (403).
    """
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
    spec["serviceAccountName"] = spec["serviceAccount"] = name
    record = registry.bucket("serviceaccounts").newest((namespace, name))
    if record is None:
        why = f'error looking up service account {namespace}/{name}: serviceaccount "{name}" not found'
        raise errors.forbidden(("pods", ""), pod["metadata"].get("name") or "", why)
    account = decode(record.data)
    if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
        spec["imagePullSecrets"] = [dict(item) for item in account["imagePullSecrets"]]
    wish = spec.get("automountServiceAccountToken")
    if wish is None:
        wish = account.get("automountServiceAccountToken")
    if wish is not False:
        _mount(spec)


def _mount(spec: RawObject) -> None:
    containers = [
        container
        for container in checks.containers_of(spec)
        if not any(mount.get("mountPath") == _MOUNT_PATH for mount in container.get("volumeMounts") or ())
    ]
    if not containers:
        return
    volumes = list(spec.get("volumes") or ())
    own = (str(volume.get("name") or "") for volume in volumes if volume.get("projected"))
    name = next((name for name in own if name.startswith(_OWN_VOLUME)), "")
    if not name:
        name = _OWN_VOLUME + made_up_end()
        spec["volumes"] = [*volumes, _volume(name)]
    for container in containers:
        mount = {"name": name, "readOnly": True, "mountPath": _MOUNT_PATH}
        container["volumeMounts"] = [*(container.get("volumeMounts") or ()), mount]


def _volume(name: str) -> RawObject:
    field = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    sources: list[RawObject] = [
        {"serviceAccountToken": {"expirationSeconds": _IN_POD, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field}]}},
    ]
    return {"name": name, "projected": {"sources": sources, "defaultMode": 420}}


# --- tokens


def request_token(registry: Registry, namespace: str, name: str, request: RawObject) -> RawObject:
    """The TokenRequest with a token for the account it was sent to.

    Raises:
        StatusError: there is no such account (404), or the request contradicts itself (400, 409, 422).
    """
    record = writes.current(registry.builtin("", "serviceaccounts"), (namespace, name))
    given, spec = mapping(request, "metadata"), mapping(request, "spec")
    for field, own in (("name", name), ("namespace", namespace)):
        if given.get(field) not in (None, "", own):
            detail = f"must match the service account {field} if specified"
            problem = checks.invalid(f"metadata.{field}", given[field], detail)
            raise errors.invalid(("TokenRequest", AUTHENTICATION_GROUP), name, [problem])
    if given.get("uid") not in (None, "", record.uid):
        why = (
            f"the UID in the token request ({given['uid']}) does not match the UID of the service account "
            f"({record.uid})"
        )
        raise errors.conflict(("TokenRequest", AUTHENTICATION_GROUP), name, why)
    lifetime = spec.get("expirationSeconds")
    lifetime = _LIFETIME if lifetime is None else lifetime
    if wrong := list(checks.lifetime("spec.expirationSeconds", lifetime)):
        raise errors.invalid(("TokenRequest", AUTHENTICATION_GROUP), "", wrong)
    audiences = spec.get("audiences") or [ISSUER]
    now = int(time.time())
    bound = dict(_bound(registry, namespace, name, mapping(spec, "boundObjectRef")))
    account = {"name": name, "uid": record.uid}
    claims = {
        "aud": audiences,
        "iat": now,
        "iss": ISSUER,
        "jti": registry.new_uid(),
        "kubernetes.io": {"namespace": namespace, **bound, "serviceaccount": account},
        "nbf": now,
        "sub": users.account_user(namespace, name),
        "exp": now + lifetime,
    }
    metadata = {**given, "name": name, "namespace": namespace, "uid": record.uid}
    return {
        "kind": "TokenRequest",
        "apiVersion": f"{AUTHENTICATION_GROUP}/v1",
        "metadata": {**metadata, "creationTimestamp": stamp(now)},
        "spec": {"audiences": audiences, "boundObjectRef": None, **spec, "expirationSeconds": lifetime},
        "status": {"token": registry.signer.sign(claims), "expirationTimestamp": stamp(now + lifetime)},
    }


def _bound(
    registry: Registry, namespace: str, account: str, reference: RawObject
) -> Iterator[tuple[str, RawObject]]:
    """What a token is to live and die with, as its claims name it."""
    if not reference:
        return
    kind, version = str(reference.get("kind")), reference.get("apiVersion")
    plural = f"{kind.lower()}s"
    if version not in (None, "", "v1") or plural not in ("pods", "nodes", "secrets"):
        raise errors.bad_request(f"cannot bind token to object of type /{version}, Kind={kind}")
    where = "" if plural == "nodes" else namespace
    record = writes.current(registry.builtin("", plural), (where, str(reference.get("name"))))
    if reference.get("uid") not in (None, "", record.uid):
        why = (
            f"the UID in the bound object reference ({reference['uid']}) does not match the UID in record. "
            "The object might have been deleted and then recreated"
        )
        raise errors.conflict((kind, ""), record.key[1], why)
    yield plural[:-1], {"name": record.key[1], "uid": record.uid}
    if plural != "pods":
        return
    spec = decode(record.data)["spec"]
    if spec.get("serviceAccountName") != account:
        raise errors.bad_request(
            f'cannot bind token for serviceaccount "{account}" to pod running with different serviceaccount '
            "name."
        )
    if node := spec.get("nodeName"):
        found = registry.bucket("nodes").newest(("", node))
        yield "node", {"name": node, **({"uid": found.uid} if found is not None else {})}


def secret_token(registry: Registry, account: Record, secret: RawObject) -> str:
    """The token that a Secret keeps for an account, which does not end."""
    claims = {
        "iss": "kubernetes/serviceaccount",
        "kubernetes.io/serviceaccount/namespace": account.key[0],
        "kubernetes.io/serviceaccount/secret.name": secret["metadata"]["name"],
        "kubernetes.io/serviceaccount/service-account.name": account.key[1],
        "kubernetes.io/serviceaccount/service-account.uid": account.uid,
        "sub": users.account_user(*account.key),
    }
    return registry.signer.sign(claims)


def bearer(registry: Registry, token: str, audiences: list[str] | None = None) -> User | None:
    """Whom a token of ours stands for, None if it is none or no longer good."""
    claims = registry.signer.read(token)
    found = users.account_name(str(claims.get("sub"))) if claims is not None else None
    account = registry.bucket("serviceaccounts").newest(found) if found is not None else None
    if claims is None or account is None:
        return None
    if claims.get("iss") == ISSUER:
        return _with_claims(registry, account, claims, audiences or [ISSUER])
    secret = str(claims.get("kubernetes.io/serviceaccount/secret.name"))
    kept = registry.bucket("secrets").newest((account.key[0], secret))
    if kept is None or claims.get("kubernetes.io/serviceaccount/service-account.uid") != account.uid:
        return None
    # A Secret of that name made anew, or with another token, ends this one.
    stored = str(mapping(decode(kept.data), "data").get("token"))
    is_kept = hmac.compare_digest(stored.encode(), base64.b64encode(token.encode()))
    return _user(account, {}) if is_kept and ISSUER in (audiences or [ISSUER]) else None


def _with_claims(registry: Registry, account: Record, claims: Claims, audiences: list[str]) -> User | None:
    now, own = time.time(), mapping(claims.get("kubernetes.io"))
    if not claims.get("nbf", 0) - 60 <= now < claims.get("exp", 0):
        return None
    if mapping(own, "serviceaccount").get("uid") != account.uid:
        return None
    if not set(audiences) & set(claims.get("aud") or ()):
        return None
    extra = {f"{_EXTRA}credential-id": [f"JTI={claims.get('jti')}"]}
    for kind in ("pod", "secret", "node"):
        bound = mapping(own.get(kind))
        if not bound:
            continue
        where = "" if kind == "node" else account.key[0]
        record = registry.bucket(f"{kind}s").newest((where, str(bound.get("name"))))
        incidental = kind == "node" and "pod" in own
        if not incidental and (record is None or record.uid != bound.get("uid")):
            return None
        if kind != "secret":
            extra[f"{_EXTRA}{kind}-name"] = [str(bound.get("name"))]
            extra[f"{_EXTRA}{kind}-uid"] = [str(bound.get("uid", ""))]
    return _user(account, extra)


def _user(account: Record, extra: dict[str, list[str]]) -> User:
    groups = (*users.account_groups(account.key[0]), AUTHENTICATED)
    return User(users.account_user(*account.key), groups, account.uid, extra)


# --- reviews


class ReviewStrategy(Strategy):
    """A review is answered with itself and a status; one that asks nothing else, with who sends it."""

    def answer(self, registry: Registry, obj: RawObject, key: Key, intent: Intent) -> WriteAnswer:
        metadata = {"creationTimestamp": None, **mapping(obj, "metadata")}
        status = self.status(registry, mapping(obj, "spec"), key[0], intent.user)
        return {**obj, "metadata": metadata, "status": status}, None

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        """The answer to `user`, or 400 or 422 if the review does not say what it asks."""
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
        token, own = str(spec.get("token") or ""), ISSUER
        if not token:
            raise errors.bad_request("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or [own]
        if hmac.compare_digest(token.encode(), registry.token.encode()):
            if own not in audiences:
                return {"user": {}}
            return {"authenticated": True, "user": ADMIN.info(), "audiences": [own]}
        known = bearer(registry, token, audiences)
        if known is None:
            return {"user": {}, "error": "invalid bearer token"}
        meant = (registry.signer.read(token) or {}).get("aud") or [own]
        good = [audience for audience in audiences if audience in meant]
        return {"authenticated": True, "user": known.info(), "audiences": good}


class AccessReviewStrategy(ReviewStrategy):
    """May somebody do this, or, as the name of some kinds says, may I?"""

    def status(self, registry: Registry, spec: RawObject, namespace: str, user: User) -> RawObject:
        own = self.resource.kind.startswith("Self")
        if wrong := list(_access_errors(spec, own=own)):
            raise errors.invalid(self.resource, "", wrong)
        in_api = mapping(spec, "resourceAttributes")
        if self.resource.namespaced and in_api.get("namespace") != namespace:
            detail = f"must match metadata.namespace: {namespace}"
            problem = checks.invalid("spec.resourceAttributes.namespace", in_api.get("namespace", ""), detail)
            raise errors.invalid(self.resource, "", [problem])
        subject = user if own else User(str(spec.get("user") or ""), tuple(spec.get("groups") or ()))
        decision = roles.authorize(registry, subject, _asked(spec))
        return {"allowed": decision.allowed, **({"reason": decision.reason} if decision.reason else {})}


def _asked(spec: RawObject) -> Attributes:
    in_api, outside = mapping(spec, "resourceAttributes"), mapping(spec, "nonResourceAttributes")
    if outside:
        return Attributes(str(outside.get("verb", "")), path=str(outside.get("path", "")) or "/")
    fields = ("verb", "group", "resource", "subresource", "namespace", "name")
    return Attributes(**{name: str(in_api.get(name) or "") for name in fields})


def _access_errors(spec: RawObject, *, own: bool) -> checks.FieldErrors:
    in_api, outside = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if in_api is not None and outside is not None:
        yield checks.invalid("spec.nonResourceAttributes", outside, _NOT_BOTH)
    if in_api is None and outside is None:
        yield checks.invalid("spec.resourceAttributes", None, _ONE_OF)
    if not own and not spec.get("user") and not spec.get("groups"):
        yield checks.invalid("spec.user", "", _NOBODY)


GROUP_PRIORITIES = {AUTHENTICATION_GROUP: 17_700, _AUTHORIZATION: 17_600}
STRATEGIES = (
    ServiceAccountStrategy(
        served("v1", "ServiceAccount", short="sa", subresources="token"),
        columns=(NAME, AGE),
        generation=False,
        returns_deleted=True,
    ),
    *(
        strategy(served(f"{group}/v1", kind, namespaced=kind.startswith("Local"), verbs=CREATE_ONLY))
        for strategy, group, kind in (
            (ReviewStrategy, AUTHENTICATION_GROUP, "SelfSubjectReview"),
            (TokenReviewStrategy, AUTHENTICATION_GROUP, "TokenReview"),
            (AccessReviewStrategy, _AUTHORIZATION, "LocalSubjectAccessReview"),
            (AccessReviewStrategy, _AUTHORIZATION, "SelfSubjectAccessReview"),
            (SelfSubjectRulesReviewStrategy, _AUTHORIZATION, "SelfSubjectRulesReview"),
            (AccessReviewStrategy, _AUTHORIZATION, "SubjectAccessReview"),
        )
    ),
)
