"""Which pods are of one class: the key of a class, and the labels it leaves out.

The pods of a StatefulSet and of an indexed Job carry their own number or name as a label, those of every Job
its name and UID, and bound pods the zone and region of their node.  By these a thousand pods would be a
thousand classes, although hardly any selector looks at them.  So such labels, and all others that turn out to
have many values, are left out of a pod's class until a selector mentions one: then it is revealed for good,
and the pods concerned are sorted into classes of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import ContainerStatus, ObjectMeta, Pod, PodSpec, PodStatus
from berth.kube.ownership import controller_of
from berth.kube.well_known import JOB_COMPLETION_INDEX, JOB_NAME, JOB_UID, POD_INDEX, POD_NAME, REGION, ZONE

_encoder = msgspec.msgpack.Encoder(order="deterministic")

# Labels that every pod, or every Job, has its own value of, and those that binding a pod gives it.
IDENTITY_LABELS = frozenset(
    {POD_NAME, POD_INDEX, JOB_UID, JOB_COMPLETION_INDEX, JOB_NAME, "controller-uid", "job-name", REGION, ZONE}
)
# The controllers whose selectors default spreading asks for.
_SPREADING_OWNERS = {("ReplicaSet", "apps/v1"), ("StatefulSet", "apps/v1"), ("ReplicationController", "v1")}


def identity_of(pod: Pod, hidden: Collection[str]) -> dict[str, str] | None:
    """The labels of a pod that its class does not show, None if it has none."""
    labels = pod.metadata.labels
    if not labels or not hidden or labels.keys().isdisjoint(hidden):
        return None
    return {key: value for key, value in labels.items() if key in hidden}


def without(pod: Pod, identity: Mapping[str, str]) -> Pod:
    labels = {k: v for k, v in (pod.metadata.labels or {}).items() if k not in identity}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def with_labels(pod: Pod, more: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), **more}))


def class_key(pod: Pod, node_name: str | None, profile: str = "") -> bytes:
    """Equal for pods that ask for the same thing."""
    meta, spec = pod.metadata, pod.spec
    # The others have names of their own in every pod and would split the class.
    volumes = [volume for volume in spec.volumes if volume.matters] or None if spec.volumes else None
    # The claims of ephemeral volumes are named after their pod.
    named = (meta.name, meta.uid) if volumes and has_own_claims(spec) else None
    devices: tuple[object, ...] | None = None
    if spec.resource_claims:  # they are reserved for pods one by one
        statuses = pod.status.resource_claim_statuses if pod.status else None
        devices = (meta.name, meta.uid, spec.resource_claims, statuses)
    return _encoder.encode(
        (
            profile,
            node_name,
            meta.namespace,
            meta.labels or None,
            spreading_owner(meta),
            spec.affinity,
            spec.topology_spread_constraints,
            spec.priority,
            spec.preemption_policy,
            spec.scheduling_gates,
            volumes,
            named,
            devices,
            _of_nodes(pod),
        )
    )


def node_key(pod: Pod) -> bytes:
    """Equal for pods without claims that ask the same of a node, whoever else runs."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    images = [volume.image for volume in pod.spec.volumes or () if volume.image]
    return _encoder.encode((affinity, images, _of_nodes(pod)))


def _of_nodes(pod: Pod) -> tuple[object, ...]:
    """What a pod asks of a node, but for its affinity and its volumes."""
    spec, annotations = pod.spec, pod.metadata.annotations
    return (
        annotations.get(AFFINITY_ANNOTATION) if annotations else None,
        spec.node_selector,
        spec.tolerations,
        spec.containers,
        spec.init_containers,
        spec.overhead,
        spec.resources,
        spec.host_network,
        spec.host_users,
        resizing(pod.status),
    )


def spreading_owner(meta: ObjectMeta) -> tuple[str, str] | None:
    """Kind and name of the pod's controller, if default spreading looks at it; no other owner matters."""
    owner = controller_of(meta)
    if owner is None or (owner.kind, owner.api_version) not in _SPREADING_OWNERS:
        return None
    return owner.kind or "", owner.name or ""


def has_own_claims(spec: PodSpec) -> bool:
    """Whether the pod has claims that no other pod has, for ephemeral volumes."""
    return any(volume.ephemeral for volume in spec.volumes or ())


def resizing(status: PodStatus | None) -> PodStatus | None:
    """The parts of a pod's status that change what it is counted to use, None if there are none."""
    if status is None:
        return None
    running = [s for s in status.container_statuses or () if _says_resources(s)]
    starting = [s for s in status.init_container_statuses or () if _says_resources(s)]
    pending = [c for c in status.conditions or () if c.type == "PodResizePending"]
    if not (running or starting or pending or _says_resources(status)):
        return None
    return PodStatus(
        conditions=pending or None,
        container_statuses=running or None,
        init_container_statuses=starting or None,
        resources=status.resources,
        allocated_resources=status.allocated_resources,
    )


def _says_resources(status: PodStatus | ContainerStatus) -> bool:
    return status.resources is not None or status.allocated_resources is not None
