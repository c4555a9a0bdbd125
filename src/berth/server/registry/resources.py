"""The resources the API server knows from the start: their names, scope, verbs and subresources.

Only facts about addressing live here; what an object may contain is told by
:mod:`berth.server.schema`. Custom resources become further :class:`Resource` values.
"""

from __future__ import annotations

from dataclasses import dataclass, field

STANDARD_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATE_ONLY = ("create",)
# Nobody here finds out about member clusters: whoever describes one gives its status along with its spec.
_STATUS_BESIDE = frozenset({("cluster.karmada.io", "Cluster")})


@dataclass(frozen=True, slots=True)
class ServedResource:
    """One resource of one version of an API group."""

    group: str
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: frozenset[str] = field(default_factory=frozenset)
    verbs: tuple[str, ...] = STANDARD_VERBS

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def gvk(self) -> tuple[str, str, str]:
        return (self.group, self.version, self.kind)

    @property
    def group_resource(self) -> str:
        """The name error messages use: ``pods`` or ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def stored(self) -> bool:
        """Whether objects can be read back; reviews and bindings are only ever created."""
        return "get" in self.verbs

    @property
    def status_apart(self) -> bool:
        """Whether the status can only be written through its subresource."""
        return "status" in self.subresources and (self.group, self.kind) not in _STATUS_BESIDE

    @property
    def root(self) -> str:
        """The path of the group version, such as ``/api/v1`` or ``/apis/apps/v1``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where the collection, one object or one of its subresources is served."""
        parts = [self.root]
        if namespace and self.namespaced:
            parts.append(f"namespaces/{namespace}")
        parts.append(self.plural)
        parts.extend(part for part in (name, subresource) if part)
        return "/".join(parts)


def _builtin(  # noqa: PLR0913 -- the columns of the table below
    group_version: str,
    plural: str,
    kind: str,
    *,
    namespaced: bool = True,
    short: str = "",
    categories: str = "",
    subresources: str = "",
    verbs: tuple[str, ...] = STANDARD_VERBS,
) -> ServedResource:
    group, _, version = group_version.rpartition("/")
    return ServedResource(
        group=group,
        version=version,
        plural=plural,
        singular=kind.lower(),
        kind=kind,
        namespaced=namespaced,
        short_names=tuple(short.split()),
        categories=tuple(categories.split()),
        subresources=frozenset(subresources.split()),
        verbs=verbs,
    )


_CORE = (
    _builtin("v1", "bindings", "Binding", verbs=CREATE_ONLY),
    _builtin("v1", "configmaps", "ConfigMap", short="cm"),
    _builtin("v1", "endpoints", "Endpoints", short="ep"),
    _builtin("v1", "events", "Event", short="ev"),
    _builtin("v1", "limitranges", "LimitRange", short="limits"),
    _builtin("v1", "namespaces", "Namespace", namespaced=False, short="ns", subresources="finalize status"),
    _builtin("v1", "nodes", "Node", namespaced=False, short="no", subresources="status"),
    _builtin("v1", "persistentvolumeclaims", "PersistentVolumeClaim", short="pvc", subresources="status"),
    _builtin(
        "v1", "persistentvolumes", "PersistentVolume", namespaced=False, short="pv", subresources="status"
    ),
    _builtin(
        "v1",
        "pods",
        "Pod",
        short="po",
        categories="all",
        subresources="binding eviction log status",
    ),
    _builtin("v1", "podtemplates", "PodTemplate"),
    _builtin(
        "v1",
        "replicationcontrollers",
        "ReplicationController",
        short="rc",
        categories="all",
        subresources="scale status",
    ),
    _builtin("v1", "resourcequotas", "ResourceQuota", short="quota", subresources="status"),
    _builtin("v1", "secrets", "Secret"),
    _builtin("v1", "serviceaccounts", "ServiceAccount", short="sa"),
    _builtin("v1", "services", "Service", short="svc", categories="all", subresources="status"),
)

_WORKLOADS = (
    _builtin("apps/v1", "controllerrevisions", "ControllerRevision"),
    _builtin("apps/v1", "daemonsets", "DaemonSet", short="ds", categories="all", subresources="status"),
    _builtin(
        "apps/v1", "deployments", "Deployment", short="deploy", categories="all", subresources="scale status"
    ),
    _builtin(
        "apps/v1", "replicasets", "ReplicaSet", short="rs", categories="all", subresources="scale status"
    ),
    _builtin(
        "apps/v1", "statefulsets", "StatefulSet", short="sts", categories="all", subresources="scale status"
    ),
    _builtin("batch/v1", "cronjobs", "CronJob", short="cj", categories="all", subresources="status"),
    _builtin("batch/v1", "jobs", "Job", categories="all", subresources="status"),
    _builtin(
        "autoscaling/v2",
        "horizontalpodautoscalers",
        "HorizontalPodAutoscaler",
        short="hpa",
        categories="all",
        subresources="status",
    ),
    _builtin("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget", short="pdb", subresources="status"),
    _builtin("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False, short="pc"),
    _builtin("scheduling.k8s.io/v1alpha2", "podgroups", "PodGroup", subresources="status"),
    _builtin("scheduling.k8s.io/v1alpha2", "workloads", "Workload"),
    _builtin("coordination.k8s.io/v1", "leases", "Lease"),
    _builtin("events.k8s.io/v1", "events", "Event", short="ev"),
)

_RBAC = "rbac.authorization.k8s.io/v1"
_AUTHENTICATION = "authentication.k8s.io/v1"
_AUTHORIZATION = "authorization.k8s.io/v1"
_ADMISSION = "admissionregistration.k8s.io/v1"

_CLUSTER = (
    _builtin("discovery.k8s.io/v1", "endpointslices", "EndpointSlice"),
    _builtin("networking.k8s.io/v1", "ingressclasses", "IngressClass", namespaced=False),
    _builtin("networking.k8s.io/v1", "ingresses", "Ingress", short="ing", subresources="status"),
    _builtin("networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", short="netpol"),
    _builtin("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False),
    _builtin("storage.k8s.io/v1", "csidrivers", "CSIDriver", namespaced=False),
    _builtin("storage.k8s.io/v1", "csinodes", "CSINode", namespaced=False),
    _builtin("storage.k8s.io/v1", "csistoragecapacities", "CSIStorageCapacity"),
    _builtin("storage.k8s.io/v1", "storageclasses", "StorageClass", namespaced=False, short="sc"),
    _builtin(
        "storage.k8s.io/v1", "volumeattachments", "VolumeAttachment", namespaced=False, subresources="status"
    ),
    _builtin(_RBAC, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _builtin(_RBAC, "clusterroles", "ClusterRole", namespaced=False),
    _builtin(_RBAC, "rolebindings", "RoleBinding"),
    _builtin(_RBAC, "roles", "Role"),
    _builtin(
        _ADMISSION,
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        namespaced=False,
        categories="api-extensions",
    ),
    _builtin(
        _ADMISSION,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        namespaced=False,
        categories="api-extensions",
    ),
    _builtin(
        "apiextensions.k8s.io/v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        namespaced=False,
        short="crd crds",
        categories="api-extensions",
        subresources="status",
    ),
)

_REVIEWS = tuple(
    _builtin(group_version, f"{kind.lower()}s", kind, namespaced=namespaced, verbs=CREATE_ONLY)
    for group_version, kind, namespaced in (
        (_AUTHENTICATION, "SelfSubjectReview", False),
        (_AUTHENTICATION, "TokenReview", False),
        (_AUTHORIZATION, "LocalSubjectAccessReview", True),
        (_AUTHORIZATION, "SelfSubjectAccessReview", False),
        (_AUTHORIZATION, "SelfSubjectRulesReview", False),
        (_AUTHORIZATION, "SubjectAccessReview", False),
    )
)

BUILTIN: tuple[ServedResource, ...] = (*_CORE, *_WORKLOADS, *_CLUSTER, *_REVIEWS)


def from_crd(crd: dict[str, object]) -> tuple[ServedResource, ...]:
    """The resources a CustomResourceDefinition asks to have served, one for each served version."""
    spec = _mapping(crd.get("spec"))
    names = _mapping(spec.get("names"))
    kind = str(names.get("kind", ""))
    versions = spec.get("versions")
    return tuple(
        ServedResource(
            group=str(spec.get("group", "")),
            version=str(version.get("name", "")),
            plural=str(names.get("plural", "")),
            singular=str(names.get("singular") or kind.lower()),
            kind=kind,
            namespaced=spec.get("scope") == "Namespaced",
            short_names=_strings(names.get("shortNames")),
            categories=_strings(names.get("categories")),
            subresources=frozenset(_mapping(version.get("subresources"))) & {"status", "scale"},
        )
        for version in (versions if isinstance(versions, list) else [])
        if isinstance(version, dict) and version.get("served")
    )


def _mapping(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}


def _strings(value: object) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()
