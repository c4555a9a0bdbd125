"""Claims, volumes and storage classes for tests, each in one call."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from berth.engine.placement.evaluation import Evaluation, evaluate, fit_error
from berth.engine.placement.plan import plan_for
from berth.engine.state.cluster import Cluster
from berth.engine.state.options import Options
from berth.engine.state.pod_class import PodClass
from berth.engine.state.volumes.objects import BIND_COMPLETED
from berth.kube.defaults import created, default_node
from berth.kube.objects import (
    ClaimResources,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolumeSource,
    CSIStorageCapacity,
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    ObjectMeta,
    ObjectReference,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
    VolumeNodeResources,
)
from berth.kube.well_known import SELECTED_NODE
from tests.support.builders import NodeBuilder, PodBuilder, where

ONCE = ("ReadWriteOnce",)


def make_claim(
    name: str,
    storage_class: str | None = "local",
    *,
    size: str = "1Gi",
    volume: str | None = None,
    completed: bool = True,
    node: str | None = None,
    modes: Iterable[str] = ONCE,
    volume_mode: str | None = None,
    selector: LabelSelector | None = None,
    phase: str | None = None,
    deleting: bool = False,
    owner: str | None = None,
    uid: str | None = "",
) -> PersistentVolumeClaim:
    """A claim; with a volume it is bound, unless binding was not `completed`."""
    annotations = {SELECTED_NODE: node} if node else {}
    if volume and completed:
        annotations[BIND_COMPLETED] = "yes"
    owners = [OwnerReference(kind="Pod", uid=owner, controller=True)] if owner else None
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace="default",
            uid=f"uid-{name}" if uid == "" else uid,
            annotations=annotations,
            owner_references=owners,
            deletion_timestamp="2026-01-01T00:00:00Z" if deleting else None,
        ),
        spec=PersistentVolumeClaimSpec(
            volume_name=volume,
            storage_class_name=storage_class,
            access_modes=list(modes),
            volume_mode=volume_mode,
            resources=ClaimResources(requests={"storage": size}),
            selector=selector,
        ),
        status=PersistentVolumeClaimStatus(phase=phase),
    )


def make_volume(
    name: str,
    storage_class: str | None = "local",
    *,
    size: str = "1Gi",
    on: Mapping[str, str] | None = None,
    claim: str | None = None,
    claim_uid: str | None = None,
    modes: Iterable[str] = ONCE,
    volume_mode: str | None = None,
    labels: dict[str, str] | None = None,
    phase: str | None = "Available",
) -> PersistentVolume:
    """A volume; `on` are the labels of the nodes that reach it."""
    affinity = None
    if on is not None:
        term = NodeSelectorTerm(match_expressions=[where(key, "In", value) for key, value in on.items()])
        affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[term]))
    reference = ObjectReference(namespace="default", name=claim, uid=claim_uid) if claim else None
    return PersistentVolume(
        metadata=ObjectMeta(name=name, labels=labels),
        spec=PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=list(modes),
            storage_class_name=storage_class,
            volume_mode=volume_mode,
            claim_ref=reference,
            node_affinity=affinity,
        ),
        status=PersistentVolumeStatus(phase=phase) if phase else None,
    )


def make_class(
    name: str, provisioner: str | None = None, *, immediate: bool = False, zones: Iterable[str] = ()
) -> StorageClass:
    """A class that waits for the first consumer; without a provisioner it makes no volumes."""
    requirement = TopologySelectorLabelRequirement(key="zone", values=list(zones))
    return StorageClass(
        metadata=ObjectMeta(name=name),
        provisioner=provisioner or "kubernetes.io/no-provisioner",
        volume_binding_mode="Immediate" if immediate else "WaitForFirstConsumer",
        allowed_topologies=[TopologySelectorTerm(match_label_expressions=[requirement])] if zones else None,
    )


def make_csi_node(name: str, **limits: int | None) -> CSINode:
    """What drivers, by their name and without ``.csi``, say of a node."""
    drivers = [
        CSINodeDriver(
            name=f"{driver}.csi", allocatable=None if most is None else VolumeNodeResources(count=most)
        )
        for driver, most in limits.items()
    ]
    return CSINode(metadata=ObjectMeta(name=name), spec=CSINodeSpec(drivers=drivers))


def make_attachment(node: str, volume: str, driver: str = "disk") -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=volume)
    spec = VolumeAttachmentSpec(attacher=f"{driver}.csi", node_name=node, source=source)
    return VolumeAttachment(metadata=ObjectMeta(name=f"{node}-{volume}"), spec=spec)


def make_csi_driver(name: str, *, needed: bool = False, tells_capacity: bool = False) -> CSIDriver:
    spec = CSIDriverSpec(prevent_pod_scheduling_if_missing=needed, storage_capacity=tells_capacity)
    return CSIDriver(metadata=ObjectMeta(name=f"{name}.csi"), spec=spec)


def make_capacity(
    name: str,
    storage_class: str,
    amount: str | None,
    *,
    largest: str | None = None,
    nodes: LabelSelector | None = None,
    **on: str,
) -> CSIStorageCapacity:
    """How much is left for the nodes with some labels; for none without labels and a selector."""
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="drivers"),
        storage_class_name=storage_class,
        capacity=amount,
        maximum_volume_size=largest,
        node_topology=LabelSelector(match_labels=on) if on else nodes,
    )


def make_csi_volume(name: str, driver: str = "disk", *, claim: str | None = None) -> PersistentVolume:
    volume = make_volume(name, "disk", claim=claim)
    source = CSIPersistentVolumeSource(driver=f"{driver}.csi", volume_handle=f"handle-{name}")
    return replace(volume, spec=replace(volume.spec, csi=source))


Stored = (
    PersistentVolumeClaim
    | PersistentVolume
    | StorageClass
    | CSINode
    | CSIDriver
    | CSIStorageCapacity
    | VolumeAttachment
)


def cluster_with(
    *things: NodeBuilder | Stored, known: bool = True, options: Options | None = None
) -> Cluster:
    cluster = Cluster(options)
    cluster.volumes.known = cluster.volumes.capacities_known = known
    for thing in things:
        if isinstance(thing, NodeBuilder):
            cluster.add_node(default_node(thing.build()))
        else:
            store(cluster, thing)
    return cluster


def store(cluster: Cluster, thing: Stored) -> bool:
    volumes = cluster.volumes
    takers: dict[type[Stored], Callable[[Any], object]] = {
        PersistentVolumeClaim: volumes.set_claim,
        PersistentVolume: volumes.set_volume,
        StorageClass: volumes.set_class,
        CSINode: volumes.csi.set_node,
        CSIDriver: volumes.set_driver,
        CSIStorageCapacity: volumes.set_capacity,
        VolumeAttachment: volumes.attachments.set,
    }
    return bool(takers[type(thing)](thing))


def class_of(cluster: Cluster, pod: PodBuilder) -> PodClass:
    return cluster.class_of(created(pod.build()))


def verdict(cluster: Cluster, pod: PodBuilder) -> Evaluation:
    return evaluate(plan_for(cluster, class_of(cluster, pod)))


def feasible(cluster: Cluster, pod: PodBuilder) -> list[str]:
    """The nodes that the fast path finds feasible, which must be those of the complete one."""
    plan = plan_for(cluster, class_of(cluster, pod))
    names, blocked = cluster.nodes.names, plan.blocked()
    fast = [names[slot] or "" for slot in range(len(blocked)) if not blocked[slot] and names[slot]]
    assert fast == [names[slot] for slot in evaluate(plan).feasible]
    return fast


def message(cluster: Cluster, pod: PodBuilder) -> str:
    """kube-scheduler's sentence without the count of nodes."""
    return fit_error(plan_for(cluster, class_of(cluster, pod)))[0].partition(": ")[2]


def causes(cluster: Cluster, pod: PodBuilder, node: str) -> dict[str, tuple[str, ...]]:
    """Rule -> what stands in the way on a node."""
    rejections = verdict(cluster, pod).verdicts.get(cluster.nodes.slot_of[node], ())
    return {rejection.rule: rejection.causes for rejection in rejections}
