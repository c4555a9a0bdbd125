"""Objects that every cluster has from the start, and keeps.

Of the roles and bindings those of controllers are left out.  Upstream:
plugin/pkg/auth/authorizer/rbac/bootstrappolicy.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Iterator
from itertools import groupby

from berth.certificates import LOOPBACK, WILDCARDS
from berth.kube.objects import RawObject
from berth.kube.well_known import AUTOUPDATE
from berth.server.registry import quotas, writes
from berth.server.registry.kinds.access import service_accounts
from berth.server.registry.kinds.access.roles import EVERYTHING, GROUP
from berth.server.registry.kinds.cluster.namespaces import INITIAL_NAMESPACES
from berth.server.registry.kinds.custom import karmada
from berth.server.registry.kinds.network.services import FIRST_ADDRESS
from berth.server.registry.kinds.pods.classes import SYSTEM_CLASSES
from berth.server.registry.strategy import Endpoint, Registry
from berth.server.registry.users import ACCOUNTS_GROUP, AUTHENTICATED, MASTERS, UNAUTHENTICATED
from berth.server.settings import ServerSettings
from berth.server.storage.bucket import decode

_MANAGER = "berth"
_INTENT = writes.Intent(_MANAGER, own=True)
_REPAIR = 10.0  # seconds, as upstream
_SERVICE = "kubernetes"
_ABOUT = {
    "system-cluster-critical": (
        "Used for system critical pods that must run in the cluster, but can be moved to another node "
        "if necessary."
    ),
    "system-node-critical": ("Used for system critical pods that must not be moved from their current node."),
}


async def fill(registry: Registry, settings: ServerSettings) -> None:
    """Serve the custom resources that are stored, and create what is missing."""
    definitions = registry.builtin("apiextensions.k8s.io", "customresourcedefinitions")
    for record in definitions.bucket.newest_in(""):
        registry.serve_crd(decode(record.data))
    created = _define(registry, definitions)
    namespaces = registry.builtin("", "namespaces")
    for name in INITIAL_NAMESPACES:
        created += _ensure(registry, namespaces, "", {"metadata": {"name": name}})
    for record in namespaces.bucket.newest_in(""):
        created += service_accounts.provide(registry, record.key[1])
    classes = registry.builtin("scheduling.k8s.io", "priorityclasses")
    for name, value in SYSTEM_CLASSES.items():
        body = {"metadata": {"name": name}, "value": value, "description": _ABOUT[name]}
        created += _ensure(registry, classes, "", body)
    created += _allow(registry)
    created += _announce(registry, settings)
    quotas.recount(registry)
    for write in created:
        if write.done is not None:
            await write.done


async def keep(registry: Registry, settings: ServerSettings) -> None:
    """Repair, for as long as it is awaited, what tells clients where the server is, and what is used."""
    while True:
        await asyncio.sleep(_REPAIR)
        _announce(registry, settings)
        quotas.release(registry, time.time())


def _define(registry: Registry, endpoint: Endpoint) -> list[writes.Write]:
    """Karmada's kinds; an older definition of ours becomes the present one, unless somebody objects."""
    made = []
    for crd in karmada.definitions():
        record = endpoint.bucket.newest(("", crd["metadata"]["name"]))
        if record is None:
            made.append(writes.create(registry, endpoint, crd, "", _INTENT))
            continue
        known = decode(record.data)
        metadata = known["metadata"]
        if (metadata.get("annotations") or {}).get(AUTOUPDATE) == "true":
            metadata["resourceVersion"] = str(record.rv)
            made.append(writes.update(registry, endpoint, record, {**known, "spec": crd["spec"]}, _INTENT))
    return made


def _announce(registry: Registry, settings: ServerSettings) -> list[writes.Write]:
    """The Service by which pods know the server, and where it is."""
    address = LOOPBACK[0] if settings.host in WILDCARDS else settings.host
    port = {"name": "https", "port": settings.port, "protocol": "TCP"}
    service_port = {**port, "port": 443, "targetPort": settings.port}
    service: RawObject = {"spec": {"clusterIP": FIRST_ADDRESS, "ports": [service_port]}}
    endpoints: RawObject = {"subsets": [{"addresses": [{"ip": address}], "ports": [port]}]}
    endpoint_slice: RawObject = {
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": [port],
    }
    made = []
    for group, plural, labels, content in (
        ("", "services", {"component": "apiserver", "provider": "kubernetes"}, service),
        ("", "endpoints", {}, endpoints),
        ("discovery.k8s.io", "endpointslices", {"kubernetes.io/service-name": _SERVICE}, endpoint_slice),
    ):
        metadata = {"name": _SERVICE, "labels": labels} if labels else {"name": _SERVICE}
        endpoint = registry.builtin(group, plural)
        made += _ensure(registry, endpoint, "default", {"metadata": metadata, **content}, content)
    return made


def _ensure(
    registry: Registry, endpoint: Endpoint, namespace: str, obj: RawObject, content: RawObject | None = None
) -> list[writes.Write]:
    """Create an object if it is missing; if there is one, its `content` is made what it should be."""
    resource, name = endpoint.resource, obj["metadata"]["name"]
    record = endpoint.bucket.newest((namespace, name))
    if record is None:
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **obj}
        return [writes.create(registry, endpoint, body, namespace, _INTENT)]
    if content is None:
        return []
    known = decode(record.data)
    changed = {**known, **content}
    if "spec" in content:
        changed["spec"] = {**known["spec"], **content["spec"]}
    if changed == known:
        return []
    changed["metadata"] = {**known["metadata"], "resourceVersion": str(record.rv)}
    return [writes.update(registry, endpoint, record, changed, _INTENT)]


# --- roles, and who has them

_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_AGGREGATE = "rbac.authorization.k8s.io/aggregate-to-"
_READ = ("get", "list", "watch")
_WRITE = ("create", "delete", "deletecollection", "patch", "update")

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


def _roles() -> Iterator[RawObject]:
    """What is to be in a ClusterRole, with its metadata."""

    def role(name: str, rules: list[RawObject], **labels: str) -> RawObject:
        return {"metadata": {"name": name, "labels": {**_LABELS, **labels}}, "rules": rules}

    yield role("cluster-admin", [dict(rule) for rule in EVERYTHING])
    reviews = {
        "authorization.k8s.io": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
        "authentication.k8s.io": ["selfsubjectreviews"],
    }
    yield role("system:basic-user", _rules(("create",), reviews))
    yield role("system:discovery", [{"nonResourceURLs": [*_DISCOVERY, *_HEALTH], "verbs": ["get"]}])
    yield role("system:public-info-viewer", [{"nonResourceURLs": list(_HEALTH), "verbs": ["get"]}])
    issuer: RawObject = {"nonResourceURLs": list(_ISSUER), "verbs": ["get"]}
    yield role("system:service-account-issuer-discovery", [issuer])
    delegated = {"authentication.k8s.io": ["tokenreviews"], "authorization.k8s.io": ["subjectaccessreviews"]}
    yield role("system:auth-delegator", _rules(("create",), delegated))
    yield role("system:monitoring", [{"nonResourceURLs": [*_HEALTH[:3], "/metrics"], "verbs": ["get"]}])
    administered = [
        *_rules((*_READ, *_WRITE), {GROUP: ["rolebindings", "roles"]}),
        *_rules(("create",), {"authorization.k8s.io": ["localsubjectaccessreviews"]}),
    ]
    for name, rules, parts in (
        ("admin", administered, ("admin", "edit", "view")),
        ("edit", _edited(), ("edit", "view")),
        ("view", _viewed(), ("view",)),
    ):
        yield role(f"system:aggregate-to-{name}", rules, **{f"{_AGGREGATE}{name}": "true"})
        selectors = [{"matchLabels": {f"{_AGGREGATE}{part}": "true"}} for part in parts]
        yield {**role(name, []), "aggregationRule": {"clusterRoleSelectors": selectors}}


# Which groups have which of the roles; the binding has the role's name.
_BINDINGS = {
    "cluster-admin": (MASTERS,),
    "system:basic-user": (AUTHENTICATED,),
    "system:discovery": (AUTHENTICATED,),
    "system:public-info-viewer": (AUTHENTICATED, UNAUTHENTICATED),
    "system:service-account-issuer-discovery": (ACCOUNTS_GROUP,),
    "system:monitoring": ("system:monitoring",),
}


def _allow(registry: Registry) -> list[writes.Write]:
    """The roles that everybody expects, and who has them."""
    roles, bindings = registry.builtin(GROUP, "clusterroles"), registry.builtin(GROUP, "clusterrolebindings")
    made = [write for role in _roles() for write in _ensure(registry, roles, "", role)]
    for role, groups in _BINDINGS.items():
        subjects = [{"kind": "Group", "apiGroup": GROUP, "name": name} for name in groups]
        reference = {"apiGroup": GROUP, "kind": roles.resource.kind, "name": role}
        body = {"metadata": {"name": role}, "subjects": subjects, "roleRef": reference}
        made += _ensure(registry, bindings, "", body)
    return made
