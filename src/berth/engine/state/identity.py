"""Which pods are of one class: the key of a class, and the labels it leaves out.

The pods of a StatefulSet and of an indexed Job each carry their own number or name as a label.
Taken at their word, a thousand replicas would be a thousand classes, each compiled for itself,
although hardly any selector ever looks at those labels.  So they are left out of a pod's class,
until a selector does mention one: then it is revealed, once and for all, and the pods concerned
are sorted into classes of their own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import msgspec
from msgspec.structs import replace

from berth.kube.affinity.annotations import AFFINITY_ANNOTATION
from berth.kube.objects import ContainerStatus, Pod, PodSpec, PodStatus, Volume

_encoder = msgspec.msgpack.Encoder(order="deterministic")

IDENTITY_LABELS = frozenset(
    {
        "statefulset.kubernetes.io/pod-name",
        "apps.kubernetes.io/pod-index",
        "batch.kubernetes.io/job-completion-index",
    }
)


def identity_of(pod: Pod, hidden: Collection[str]) -> dict[str, str] | None:
    """The labels of a pod that its class does not show, None if it has none."""
    labels = pod.metadata.labels
    if not labels or not hidden or labels.keys().isdisjoint(hidden):
        return None
    return {key: labels[key] for key in hidden if key in labels}


def without(pod: Pod, identity: Mapping[str, str]) -> Pod:
    labels = {k: v for k, v in (pod.metadata.labels or {}).items() if k not in identity}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


def with_labels(pod: Pod, more: Mapping[str, str]) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, labels={**(pod.metadata.labels or {}), **more}))


def class_key(pod: Pod, node_name: str | None, profile: str = "") -> bytes:
    """Equal for pods that ask for the same thing."""
    meta, spec = pod.metadata, pod.spec
    annotation = meta.annotations.get(AFFINITY_ANNOTATION) if meta.annotations else None
    volumes = _relevant(spec.volumes) if spec.volumes else None
    # The claims of ephemeral volumes are named after their pod.
    named = (meta.name, meta.uid) if volumes and has_own_claims(spec) else None
    devices = _devices(pod) if spec.resource_claims else None
    return _encoder.encode(
        (
            profile,
            node_name,
            meta.namespace,
            meta.labels,
            annotation,
            meta.owner_references,
            spec.containers,
            spec.init_containers,
            spec.node_selector,
            spec.affinity,
            spec.tolerations,
            spec.topology_spread_constraints,
            spec.overhead,
            spec.resources,
            spec.host_network,
            spec.host_users,
            spec.priority,
            spec.preemption_policy,
            spec.scheduling_gates,
            volumes,
            named,
            devices,
            resizing(pod.status),
        )
    )


def _relevant(volumes: list[Volume]) -> list[Volume]:
    """Volumes that can matter; the rest have names of their own in every pod and would split the class."""
    return [v for v in volumes if v.image or v.persistent_volume_claim or v.ephemeral]


def _devices(pod: Pod) -> tuple[object, ...]:
    """The claims to devices, which are reserved for pods one by one."""
    statuses = pod.status.resource_claim_statuses if pod.status else None
    return (pod.metadata.name, pod.metadata.uid, pod.spec.resource_claims, statuses)


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
