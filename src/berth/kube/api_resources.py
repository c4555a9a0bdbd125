"""The API's resources as clients address them: group, version, plural and kind, and the ones Berth knows.

What an object may contain is `berth.kube.objects`; what a server offers beside addressing is the server's.
"""

from __future__ import annotations

from typing import Any

import msgspec

from berth.kube import karmada, objects


class Resource(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Where objects of one kind are served. Two of the same fields are equal; the hash is computed once."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """As messages and discovery name it: ``deployments.apps``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        middle = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        tail = (f"/{name}" if name else "") + (f"/{subresource}" if subresource else "")
        return f"{root}{middle}/{self.plural}{tail}"


PODS = Resource("", "v1", "pods", "Pod")
NODES = Resource("", "v1", "nodes", "Node", namespaced=False)
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
SERVICES = Resource("", "v1", "services", "Service")
EVENTS = Resource("", "v1", "events", "Event")
CLAIMS = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUMES = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
REPLICATION_CONTROLLERS = Resource("", "v1", "replicationcontrollers", "ReplicationController")
DEPLOYMENTS = Resource("apps", "v1", "deployments", "Deployment")
REPLICA_SETS = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SETS = Resource("apps", "v1", "statefulsets", "StatefulSet")
DAEMON_SETS = Resource("apps", "v1", "daemonsets", "DaemonSet")
REVISIONS = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOBS = Resource("batch", "v1", "jobs", "Job")
CRON_JOBS = Resource("batch", "v1", "cronjobs", "CronJob")
RESOURCE_QUOTAS = Resource("", "v1", "resourcequotas", "ResourceQuota")
BUDGETS = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
EVICTION_REQUESTS = Resource("lifecycle.k8s.io", "v1alpha1", "evictionrequests", "EvictionRequest")
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
STORAGE_CLASSES = Resource("storage.k8s.io", "v1", "storageclasses", "StorageClass", namespaced=False)
CSI_DRIVERS = Resource("storage.k8s.io", "v1", "csidrivers", "CSIDriver", namespaced=False)
CSI_NODES = Resource("storage.k8s.io", "v1", "csinodes", "CSINode", namespaced=False)
CSI_CAPACITIES = Resource("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity")
VOLUME_ATTACHMENTS = Resource(
    "storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False
)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim")
POD_GROUPS = Resource("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
# The custom resource of the same purpose that came before, and is still in wide use.
LABELLED_POD_GROUPS = Resource("scheduling.x-k8s.io", "v1alpha1", "podgroups", "PodGroup")
PRIORITY_CLASSES = Resource("scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", namespaced=False)
CUSTOM_RESOURCES = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
# Karmada's.
CLUSTERS = Resource(karmada.CLUSTER_GROUP, "v1alpha1", "clusters", "Cluster", namespaced=False)
POLICIES = Resource(karmada.POLICY_GROUP, "v1alpha1", "propagationpolicies", "PropagationPolicy")
CLUSTER_POLICIES = Resource(
    karmada.POLICY_GROUP,
    "v1alpha1",
    "clusterpropagationpolicies",
    "ClusterPropagationPolicy",
    namespaced=False,
)
RESOURCE_BINDINGS = Resource(karmada.WORK_GROUP, "v1alpha2", "resourcebindings", "ResourceBinding")
CLUSTER_BINDINGS = Resource(
    karmada.WORK_GROUP, "v1alpha2", "clusterresourcebindings", "ClusterResourceBinding", namespaced=False
)

# --- those that belong together ---------------------------------------------------------------

OWNERS = (SERVICES, REPLICATION_CONTROLLERS, REPLICA_SETS, STATEFUL_SETS)  # whose pods are spread by default
STORAGE = (CLAIMS, VOLUMES, STORAGE_CLASSES)
DRIVERS = (CSI_DRIVERS, CSI_NODES, CSI_CAPACITIES, VOLUME_ATTACHMENTS)
BINDINGS = (RESOURCE_BINDINGS, CLUSTER_BINDINGS)

# What the machines of a control plane decode each resource to: one class for all of them.
VIEWS: dict[Resource, type[Any]] = {
    PODS: objects.LivePod,
    NODES: objects.Node,
    NAMESPACES: objects.Namespace,
    SERVICES: objects.Service,
    REPLICATION_CONTROLLERS: objects.ReplicationController,
    CLAIMS: objects.PersistentVolumeClaim,
    VOLUMES: objects.PersistentVolume,
    STORAGE_CLASSES: objects.StorageClass,
    CSI_DRIVERS: objects.CSIDriver,
    CSI_NODES: objects.CSINode,
    CSI_CAPACITIES: objects.CSIStorageCapacity,
    VOLUME_ATTACHMENTS: objects.VolumeAttachment,
    RESOURCE_CLAIMS: objects.ResourceClaim,
    RESOURCE_QUOTAS: objects.ResourceQuota,
    **dict.fromkeys((DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS, DAEMON_SETS), objects.LiveWorkload),
    REVISIONS: objects.ControllerRevision,
    JOBS: objects.LiveJob,
    CRON_JOBS: objects.LiveCronJob,
    BUDGETS: objects.PodDisruptionBudget,
    EVICTION_REQUESTS: objects.EvictionRequest,
    LEASES: objects.Lease,
    **dict.fromkeys((POD_GROUPS, LABELLED_POD_GROUPS), objects.PodGroup),
    PRIORITY_CLASSES: objects.PriorityClass,
    CLUSTERS: karmada.MemberCluster,
    **dict.fromkeys((POLICIES, CLUSTER_POLICIES), karmada.LivePolicy),
    **dict.fromkeys(BINDINGS, karmada.LiveBinding),
}

# Resources that changed their version while we knew them, and where a server may have them, the best first.
_ELSEWHERE = {POD_GROUPS: ("v1alpha3", "v1alpha2")}


def versions_of(resource: Resource) -> tuple[Resource, ...]:
    """Where a server may have a resource: in its own version, or in an older one that we know, too."""
    older = (msgspec.structs.replace(resource, version=version) for version in _ELSEWHERE.get(resource, ()))
    return (resource, *older)
