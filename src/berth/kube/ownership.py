"""Which pods in a set of manifests already belong to which workload."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from berth.kube.api_resources import Resource
from berth.kube.objects import (
    Job,
    Key,
    KubeObject,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudgetSpec,
    RawObject,
)
from berth.kube.pods import is_active
from berth.kube.well_known import SUCCEEDED, TEMPLATE_HASH, TRUE

# Whether a Job is over is said by these conditions.
JOB_OVER = ("Complete", "Failed")
OwnerKey = tuple[str, str, str]  # namespace, kind, name

# Controllers of pods that nobody can ask for a number of replicas, as messages call them. The disruption
# controller gives up on a budget that needs it: it lets no pod go.
WITHOUT_SCALE = {"Job": "jobs.batch", "DaemonSet": "daemonsets.apps", "Node": "nodes"}


def counts_replicas(spec: PodDisruptionBudgetSpec) -> bool:
    """Whether a budget is measured by how many replicas the controllers of its pods want."""
    return spec.max_unavailable is not None or isinstance(spec.min_available, str)


def controller_of(metadata: ObjectMeta) -> OwnerReference | None:
    for owner in metadata.owner_references or ():
        if owner.controller:
            return owner
    return None


def owner_reference(resource: Resource, metadata: ObjectMeta) -> RawObject:
    """The reference by which an object of `resource` controls another, as it is written."""
    return {
        "apiVersion": resource.api_version,
        "kind": resource.kind,
        "name": metadata.name,
        "uid": metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def owner_key(metadata: ObjectMeta) -> OwnerKey | None:
    """The controller of an object, as a key; an owner is in the same namespace."""
    owner = controller_of(metadata)
    return (metadata.namespace or "", owner.kind or "", owner.name or "") if owner else None


def workload_of(pod: Pod, deployments: Mapping[Key, str]) -> str | None:
    """The workload people think of a pod as part of, such as ``Deployment/web``; None if it has none.

    `deployments` says who controls each ReplicaSet.
    """
    owner = controller_of(pod.metadata)
    if owner is None:
        return None
    if owner.kind != "ReplicaSet":
        return f"{owner.kind}/{owner.name}"
    name = owner.name or ""
    digest = (pod.metadata.labels or {}).get(TEMPLATE_HASH)
    known = deployments.get((pod.metadata.namespace or "", name))
    if known is None and digest and name.endswith(f"-{digest}"):
        return f"Deployment/{name.removesuffix(f'-{digest}')}"
    return known or f"ReplicaSet/{name}"


def has_succeeded(pod: Pod) -> bool:
    return pod.status is not None and pod.status.phase == SUCCEEDED


def is_over(job: Job) -> bool:
    conditions = job.status.conditions if job.status else None
    return any(c.type in JOB_OVER and c.status == TRUE for c in conditions or ())


@dataclass(frozen=True, slots=True)
class Ownership:
    """Pods and the objects between them and their workload, by owner."""

    pods: dict[OwnerKey, list[Pod]]
    children: dict[OwnerKey, list[KubeObject]]
    replica_sets: dict[tuple[str, str], list[str]]  # those of pods, by namespace and name without hash

    def active(self, namespace: str | None, kind: str, name: str) -> list[Pod]:
        return [pod for pod in self.pods.get((namespace or "", kind, name), ()) if is_active(pod)]

    def pods_of_deployment(self, namespace: str | None, name: str) -> dict[str, list[Pod]]:
        """Active pods by the name of their ReplicaSet.

        A ReplicaSet belongs to the Deployment if it says so, or, when it is not among the manifests,
        if its name is the Deployment's with a hash.
        """
        children = self.children.get((namespace or "", "Deployment", name), ())
        owners = {child.metadata.name or "" for child in children}
        owners.update(self.replica_sets.get((namespace or "", name), ()))
        by_owner = {owner: self.active(namespace, "ReplicaSet", owner) for owner in sorted(owners)}
        return {owner: pods for owner, pods in by_owner.items() if pods}


def ownership(views: Iterable[KubeObject]) -> Ownership:
    pods: dict[OwnerKey, list[Pod]] = defaultdict(list)
    children: dict[OwnerKey, list[KubeObject]] = defaultdict(list)
    for view in views:
        key = owner_key(view.metadata)
        if key is None:
            continue
        if isinstance(view, Pod):
            pods[key].append(view)
        else:
            children[key].append(view)
    replica_sets: dict[tuple[str, str], list[str]] = defaultdict(list)
    for namespace, kind, name in pods:
        if kind == "ReplicaSet":
            replica_sets[namespace, name.rpartition("-")[0]].append(name)
    return Ownership(dict(pods), dict(children), dict(replica_sets))
