"""The roles and bindings that every cluster has from the start, those of controllers left out.

Upstream: plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from berth.kube.objects import RawObject
from berth.server.registry.users import ACCOUNTS_GROUP, AUTHENTICATED, MASTERS, UNAUTHENTICATED

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")
_EVERYTHING = ({"apiGroups": ["*"], "resources": ["*"]}, {"nonResourceURLs": ["*"]})

# What may be changed by whoever edits a namespace, and with what subresources.
_EDITED = {
    "": (
        "configmaps endpoints events persistentvolumeclaims pods replicationcontrollers"
        " replicationcontrollers/scale secrets serviceaccounts services services/proxy"
        " pods/attach pods/exec pods/portforward pods/proxy"
    ),
    "apps": (
        "daemonsets deployments deployments/rollback deployments/scale replicasets replicasets/scale"
        " statefulsets statefulsets/scale"
    ),
    "autoscaling": "horizontalpodautoscalers",
    "batch": "cronjobs jobs",
    "coordination.k8s.io": "leases",
    "networking.k8s.io": "ingresses networkpolicies",
    "policy": "poddisruptionbudgets",
}
# What may be seen beside it, and of what is edited, what only whoever edits it sees.
_SEEN = {
    "": (
        "bindings limitranges namespaces namespaces/status persistentvolumeclaims/status pods/log pods/status"
        " replicationcontrollers/status resourcequotas resourcequotas/status services/status"
    ),
    "apps": (
        "controllerrevisions daemonsets/status deployments/status replicasets/status statefulsets/status"
    ),
    "autoscaling": "horizontalpodautoscalers/status",
    "batch": "cronjobs/status jobs/status",
    "discovery.k8s.io": "endpointslices",
    "networking.k8s.io": "ingresses/status",
    "policy": "poddisruptionbudgets/status",
}
_HIDDEN = frozenset(
    ("secrets", "services/proxy", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy", "leases")
)
_HEALTH = ("/healthz", "/livez", "/readyz", "/version", "/version/")
_DISCOVERY = ("/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*")
_ISSUER = ("/.well-known/openid-configuration", "/.well-known/openid-configuration/", "/openid/v1/jwks")


def _rules(verbs: Iterable[str], resources: dict[str, list[str]]) -> list[RawObject]:
    return [
        {"apiGroups": [group], "resources": names, "verbs": list(verbs)}
        for group, names in resources.items()
        if names
    ]


def _viewed() -> list[RawObject]:
    pairs = sorted(
        (group, name)
        for table in (_EDITED, _SEEN)
        for group, names in table.items()
        for name in names.split()
        if name not in _HIDDEN
    )
    grouped = {
        group: [name for _, name in found] for group, found in groupby(pairs, key=lambda pair: pair[0])
    }
    return _rules(_READ, grouped)


def _edited() -> list[RawObject]:
    names = {group: text.split() for group, text in _EDITED.items()}
    hidden = {group: [name for name in found if name in _HIDDEN] for group, found in names.items()}
    extra = {"": ["pods/eviction", "serviceaccounts/token"]}
    impersonate = {"": ["serviceaccounts"]}
    return [
        *_rules(_WRITE, names),
        *_rules(_READ, hidden),
        *_rules(("create",), extra),
        *_rules(("impersonate",), impersonate),
    ]


def _administered() -> list[RawObject]:
    group = "rbac.authorization.k8s.io"
    return [
        *_rules((*_READ, *_WRITE), {group: ["rolebindings", "roles"]}),
        *_rules(("create",), {"authorization.k8s.io": ["localsubjectaccessreviews"]}),
    ]


def _asking() -> list[RawObject]:
    reviews = {
        "authorization.k8s.io": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        "authentication.k8s.io": ["selfsubjectreviews"],
    }
    return _rules(("create",), reviews)


def roles() -> Iterator[RawObject]:
    """What is to be in a ClusterRole, with its metadata."""

    def role(name: str, rules: list[RawObject], **labels: str) -> RawObject:
        return {"metadata": {"name": name, "labels": {**_LABELS, **labels}}, "rules": rules}

    yield role("cluster-admin", [{**rule, "verbs": ["*"]} for rule in _EVERYTHING])
    yield role("system:basic-user", _asking())
    yield role("system:discovery", [{"nonResourceURLs": [*_DISCOVERY, *_HEALTH], "verbs": ["get"]}])
    yield role("system:public-info-viewer", [{"nonResourceURLs": list(_HEALTH), "verbs": ["get"]}])
    issuer: RawObject = {"nonResourceURLs": list(_ISSUER), "verbs": ["get"]}
    yield role("system:service-account-issuer-discovery", [issuer])
    delegated = {"authentication.k8s.io": ["tokenreviews"], "authorization.k8s.io": ["subjectaccessreviews"]}
    yield role("system:auth-delegator", _rules(("create",), delegated))
    yield role("system:monitoring", [{"nonResourceURLs": [*_HEALTH[:3], "/metrics"], "verbs": ["get"]}])
    for name, rules, parts in (
        ("admin", _administered(), ("admin", "edit", "view")),
        ("edit", _edited(), ("edit", "view")),
        ("view", _viewed(), ("view",)),
    ):
        yield role(f"system:aggregate-to-{name}", rules, **{f"{_AGGREGATE}{name}": "true"})
        selectors = [{"matchLabels": {f"{_AGGREGATE}{part}": "true"}} for part in parts]
        yield {**role(name, []), "aggregationRule": {"clusterRoleSelectors": selectors}}


def bindings() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Which groups have which of the roles; the binding has the role's name."""
    yield "cluster-admin", (MASTERS,)
    yield "system:basic-user", (AUTHENTICATED,)
    yield "system:discovery", (AUTHENTICATED,)
    yield "system:public-info-viewer", (AUTHENTICATED, UNAUTHENTICATED)
    yield "system:service-account-issuer-discovery", (ACCOUNTS_GROUP,)
    yield "system:monitoring", ("system:monitoring",)
